// The graph dialect: its ops, its interfaces and their helpers.

#pragma once

#include "dialects/graph/AttentionForm.h"
#include "dialects/graph/Scalar.h"
#include "dialects/graph/ShardingRule.h"
#include "dialects/graph/Tensor.h"
#include "dialects/sharding/Layout.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace polyrank::graph {

/// The FLOPs (a multiply-add counts two) and bytes of one execution.
struct Cost {
  int64_t flops = 0;
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
};

/// The context in which `localize` builds ops.
struct LocalContext {
  mlir::OpBuilder &builder;
  /// Returns this device's mixed-radix index over the axes, an i64 scalar.
  llvm::function_ref<mlir::Value(llvm::ArrayRef<sharding::AxisRef>)> axisIndex;

  /// The global index at which this device's block of dim `dim` starts: an i64
  /// scalar. Null if the dim is not split.
  mlir::Value blockOffset(mlir::Location location, sharding::LayoutAttr layout,
                          int64_t dim, int64_t localSize);
  /// Returns `block`, of a tensor with this layout, with `elsewhere` wherever
  /// dim `dim`, of global size `size`, has ended: in padding, and in borders
  /// beyond the tensor.
  mlir::Value keepInside(mlir::Location location, mlir::Value block,
                         sharding::LayoutAttr layout, int64_t dim, int64_t size,
                         double elsewhere);
};

/// Clones `op` onto local operands, with local result types.
mlir::LogicalResult
localizeByCloning(mlir::Operation *op, LocalContext &context,
                  mlir::ValueRange operands,
                  llvm::SmallVectorImpl<mlir::Value> &results);
/// Returns true if `op` is a matrix product, for which devices have library
/// calls.
bool isProduct(mlir::Operation *op);
/// One FLOP per element of the results, every tensor read or written once.
Cost elementwiseCost(mlir::Operation *op);
/// See Elementwise.td for the letters.
ShardingRule elementwiseRule(mlir::Operation *op, llvm::StringRef sum,
                             llvm::StringRef max, llvm::StringRef min);
/// Verifies constraints of an elementwise op, in this order: [1] operands and
/// results have one shape, [2] all computed values have one element type.
mlir::LogicalResult verifySameShapes(mlir::Operation *op);
/// Verifies that `values` have one element type, the op's constraint of that
/// number.
mlir::LogicalResult verifySameElements(mlir::Operation *op,
                                       mlir::ValueRange values,
                                       int64_t constraint = 1);
/// Verifies constraint 1 of an op that forms sums of `values`: these have one
/// element type, and `sums` (null ones are skipped) have that in which its sums
/// are formed. `names` says in a message what the sums are.
mlir::LogicalResult verifySums(mlir::Operation *op, mlir::ValueRange values,
                               llvm::StringRef names,
                               llvm::ArrayRef<mlir::Value> sums);
/// Verifies constraint 1 of a product: its factors have one element type, and
/// its result has this type or its accumulator's.
mlir::LogicalResult verifyProductElements(mlir::Operation *op, mlir::Value left,
                                          mlir::Value right);
/// Verifies that the op can be computed locally with its layouts: see
/// LayoutVerifier.h.
mlir::LogicalResult verifyLayouts(mlir::Operation *op);

template <typename ConcreteType>
class LayoutChecked
    : public mlir::OpTrait::TraitBase<ConcreteType, LayoutChecked> {
public:
  /// Runs after the op's own verifier, because a sharding rule assumes that the
  /// op's constraints hold.
  static mlir::LogicalResult verifyRegionTrait(mlir::Operation *op) {
    return verifyLayouts(op);
  }
};

/// See GraphInterfaces.td.
/// @{
template <typename ConcreteType>
class Elementwise : public mlir::OpTrait::TraitBase<ConcreteType, Elementwise> {
};
template <typename ConcreteType>
class Cheap : public mlir::OpTrait::TraitBase<ConcreteType, Cheap> {};
template <typename ConcreteType>
class ComputesLow : public mlir::OpTrait::TraitBase<ConcreteType, ComputesLow> {
};
template <typename ConcreteType>
class ComputesWide
    : public mlir::OpTrait::TraitBase<ConcreteType, ComputesWide> {};
template <typename ConcreteType>
class ComputesWidest
    : public mlir::OpTrait::TraitBase<ConcreteType, ComputesWidest> {};
/// @}

} // namespace polyrank::graph

#include "dialects/graph/GraphEnums.h.inc"
#include "dialects/graph/GraphInterfaces.h.inc"

#include "dialects/graph/GraphDialect.h.inc"

#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.h.inc"

namespace polyrank::graph {

/// Returns true if the op is in the body of a scan, whose values have no
/// layouts.
inline bool isInScan(mlir::Operation *op) {
  return op->getParentOfType<ScanOp>() != nullptr;
}

/// A scalar or splat constant of `type`.
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location location,
                  mlir::Type type, double value);
/// The value that all elements of a constant have, looking through broadcasts,
/// reshapes and conversions between floats; nullopt if there is no such value.
std::optional<double> getSplat(mlir::Value value);
/// Repeats `value` along `dims` of `shape`, which it lacks: the opposite of a
/// reduction over those dims.
mlir::Value broadcastOver(mlir::OpBuilder &builder, mlir::Location location,
                          mlir::Value value, llvm::ArrayRef<int64_t> shape,
                          llvm::ArrayRef<int64_t> dims);

} // namespace polyrank::graph
