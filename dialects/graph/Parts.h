// Helpers to write composites: sharding rules by dims, and parts by ops.

#pragma once

#include "dialects/graph/Graph.h"

namespace polyrank::graph {

/// The type of `value` without its layout.
inline mlir::RankedTensorType getGlobalType(mlir::Value value) {
  return sharding::withLayout(
      mlir::cast<mlir::RankedTensorType>(value.getType()), nullptr);
}
inline llvm::ArrayRef<int64_t> getShape(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// One factor of `kind` per dim of `shape`; none for dims of size 1.
TensorFactors addFactors(ShardingRule &rule, llvm::ArrayRef<int64_t> shape,
                         FactorKind kind = FactorKind::Parallel);

/// Returns true if a partial sum may be padded by this value. Each device pads
/// its own summand, so the padding of the sum is the value times the number of
/// devices, which is right if value + value = value.
inline bool isItsOwnSum(const llvm::APFloat &value) {
  return value.isZero() || value.isInfinity();
}

/// Fails, with an error, if a split dim does not have exactly the borders that
/// the op reads.
mlir::LogicalResult verifyBorders(mlir::Operation *op, sharding::DimAttr dim,
                                  Border border);

/// Adds the result types of an op under construction: `types`, with the layouts
/// that follow from the operands' layouts.
void addResultTypes(mlir::OpBuilder &builder, mlir::OperationState &state,
                    llvm::ArrayRef<mlir::RankedTensorType> types);

/// Builds elementary ops at one location. Result types have no layouts.
class Parts {
public:
  Parts(mlir::OpBuilder &builder, mlir::Location location)
      : builder(builder), location(location) {}

  /// An elementwise op whose result has the first operand's type.
  template <typename OpType, typename... Values>
  mlir::Value apply(mlir::Value first, Values... rest) {
    return OpType::create(builder, location, getGlobalType(first), first,
                          rest...);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) { return apply<AddOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return apply<SubOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return apply<MulOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return apply<DivOp>(x, y); }
  mlir::Value exp(mlir::Value x) { return apply<ExpOp>(x); }

  /// A splat of the type of `like`.
  mlir::Value splat(mlir::Value like, double value) {
    return graph::splat(builder, location, getGlobalType(like), value);
  }
  mlir::Value mul(mlir::Value x, double y) { return mul(x, splat(x, y)); }
  mlir::Value add(mlir::Value x, double y) { return add(x, splat(x, y)); }

  mlir::Value compare(mlir::Value x, Comparison comparison, mlir::Value y);
  /// log(e^x + e^y) = max(x, y) + log(1 + e^-|x - y|). If x = y, the maximum
  /// passes half of the gradient to each, which is the right gradient.
  mlir::Value logOfSum(mlir::Value x, mlir::Value y);
  /// log(1 + e^x).
  mlir::Value softplus(mlir::Value x) { return logOfSum(x, splat(x, 0)); }
  /// `onTrue` where the condition holds, else `onFalse`.
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse);
  mlir::Value convert(mlir::Value x, mlir::Type elementType);
  /// `x` itself if it has this element type, else converted.
  mlir::Value inType(mlir::Value x, mlir::Type elementType);
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, mlir::Type elementType,
                   int64_t dim);
  mlir::Value reduce(sharding::ReductionKind kind, mlir::Value x,
                     llvm::ArrayRef<int64_t> dims);
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> dims) {
    return reduce(sharding::ReductionKind::Sum, x, dims);
  }
  /// `x` repeated along `dims` of `shape`, which it lacks.
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
  /// Broadcasts a scalar to a tensor like `like`, of the scalar's element type.
  mlir::Value spread(mlir::Value scalar, mlir::Value like);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  /// For each row of `x` along `dim`, the element that `indices`, which has the
  /// other dims, names; zero if there is no such element.
  mlir::Value pick(mlir::Value x, mlir::Value indices, int64_t dim);
  mlir::Value matmul(mlir::Value lhs, mlir::Value rhs,
                     llvm::ArrayRef<int64_t> lhsBatch,
                     llvm::ArrayRef<int64_t> rhsBatch,
                     llvm::ArrayRef<int64_t> lhsContract,
                     llvm::ArrayRef<int64_t> rhsContract);

  mlir::OpBuilder &builder;
  mlir::Location location;
};

/// Builds the parts of `composite` before it and returns the values of its
/// results. With narrow floats the parts compute in the type of the
/// accumulator, and each result is rounded once. The parts have no layouts.
llvm::SmallVector<mlir::Value> decompose(mlir::OpBuilder &builder,
                                         CompositeOp composite);

} // namespace polyrank::graph
