// The scalar functions of kernels as vector code.

#pragma once

#include "compiler/codegen/Loops.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace polyrank::cpu {

/// `type` as the element type of a vector like `like`, or alone.
mlir::Type likeType(mlir::Type type, mlir::Type like);
/// A number of scalar or vector type.
mlir::Value makeConstant(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                         double value);
mlir::Value makeInteger(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                        int64_t value);

/// `function` of scalars, or of vectors lane by lane, with the same bits in
/// both cases. Every rounding is that of IEEE arithmetic in the order written:
/// nothing is contracted or reassociated. Transcendental functions of f32 are
/// within 2 ulp (Functions.cpp names each), those of narrower floats are
/// computed in f32.
mlir::Value emitFunction(mlir::ImplicitLocOpBuilder &builder,
                         const codegen::Node &node, mlir::ValueRange operands);

/// Whether `function` on operands of this element type has code.
bool hasFunction(codegen::Function function, mlir::Type operandType);

/// How two partial results of a reduction combine.
mlir::Value emitCombine(mlir::ImplicitLocOpBuilder &builder,
                        sharding::ReductionKind kind, mlir::Value x,
                        mlir::Value y);
/// What a reduction of this kind starts with.
mlir::Value emitIdentity(mlir::ImplicitLocOpBuilder &builder,
                         sharding::ReductionKind kind, mlir::Type type);

} // namespace polyrank::cpu
