// What kernels are built from: numbers and functions of scalars or vectors.

#pragma once

#include "dialects/sharding/Sharding.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace polyrank::cpu {

/// `type` as the element type of a vector like `like`, or alone.
mlir::Type likeType(mlir::Type type, mlir::Type like);
/// A number of scalar or vector type.
mlir::Value makeConstant(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                         double value);
mlir::Value makeInteger(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                        int64_t value);

/// The word that `kernel.philox` is, on scalars or vectors.
mlir::Value emitPhilox(mlir::ImplicitLocOpBuilder &builder, int64_t id,
                       mlir::Value index, mlir::Value seed, mlir::Value step,
                       mlir::Value microbatch);

/// How two partial results of a reduction combine.
mlir::Value emitCombine(mlir::ImplicitLocOpBuilder &builder,
                        sharding::ReductionKind kind, mlir::Value x,
                        mlir::Value y);
/// What a reduction of this kind starts with.
mlir::Value emitIdentity(mlir::ImplicitLocOpBuilder &builder,
                         sharding::ReductionKind kind, mlir::Type type);

} // namespace polyrank::cpu
