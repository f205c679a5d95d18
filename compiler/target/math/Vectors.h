// Helpers that build constants and functions on scalars or vectors.

#pragma once

#include "dialects/sharding/Sharding.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace polyrank::target {

/// The type `type`, or a vector of it with the shape of `like` if that is a
/// vector.
mlir::Type likeType(mlir::Type type, mlir::Type like);
/// A constant of scalar or vector type.
mlir::Value makeConstant(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                         double value);
mlir::Value makeInteger(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                        int64_t value);

/// The word that `kernel.philox` computes, on scalars or vectors.
mlir::Value emitPhilox(mlir::ImplicitLocOpBuilder &builder, int64_t id,
                       mlir::Value index, mlir::Value seed, mlir::Value step,
                       mlir::Value microbatch);

/// `value`, a float or a vector of floats, in the float type `type`, which is
/// at least as wide.
mlir::Value emitWidened(mlir::ImplicitLocOpBuilder &builder, mlir::Value value,
                        mlir::Type type);
/// Combines two partial results of a reduction, which have the type of its
/// accumulator: integers, booleans or floats of at least 32 bits.
mlir::Value emitCombine(mlir::ImplicitLocOpBuilder &builder,
                        sharding::ReductionKind kind, mlir::Value x,
                        mlir::Value y);
/// The initial value of a reduction of this kind.
mlir::Value emitIdentity(mlir::ImplicitLocOpBuilder &builder,
                         sharding::ReductionKind kind, mlir::Type type);

} // namespace polyrank::target
