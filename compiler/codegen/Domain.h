// Infers of which loop variables a kernel's values are functions.

#pragma once

#include "compiler/codegen/BuildLoops.h"

namespace polyrank::codegen {

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// The index of each dim of a value, as a function of the loop variables.
using IndexMap = llvm::SmallVector<Affine, 4>;

/// The linear offset of a row-major tensor of this shape.
Affine linearize(llvm::ArrayRef<Affine> indices, llvm::ArrayRef<int64_t> shape,
                 size_t numVariables);

/// The indices into a tensor of `shape` at row-major offset `offset`; nullopt
/// if they are not linear.
std::optional<IndexMap> delinearize(const Affine &offset,
                                    llvm::ArrayRef<int64_t> shape,
                                    llvm::ArrayRef<int64_t> sizes,
                                    std::optional<VariableSplit> &split);

/// The loop variables of a body and, for each value that they reach, the index
/// map at which the kernel computes it.
///
/// Variables are the dims of one *anchor*: the operand of a reduction, the
/// updates of a scatter_add, or else the largest result. From there maps
/// propagate over the ops in both directions. Where a reshape merges or splits
/// dims, the anchor's dims are split into factors and propagation starts over.
class Domain {
public:
  static mlir::FailureOr<Domain> infer(Body body, std::string &reason);

  std::vector<Variable> variables;
  llvm::SmallVector<int64_t> sizes;
  llvm::DenseMap<mlir::Value, IndexMap> maps;
  /// Ops between arguments and results, each after its operands.
  llvm::SmallVector<mlir::Operation *> ops;

  /// Splits a variable and computes all maps again.
  void split(VariableSplit split);
  /// The index map of `value`, or null if it has none.
  const IndexMap *getMap(mlir::Value value) const;

private:
  void collectOps(Body body);
  bool chooseAnchor(Body body, std::string &reason);
  void cut(VariableSplit split);
  /// Runs one round of propagation; returns false if a variable was split.
  bool spread();
  /// Values that have their map, and whose ops and users are to get theirs.
  using Worklist = llvm::SmallVector<mlir::Value>;
  /// Makes the variables of the anchor's factors, and its map.
  void start(Worklist &worklist);
  /// Gives the operands of an op their maps, from that of its result.
  void spreadDown(mlir::Operation *op, const IndexMap &map, Worklist &worklist);
  /// Gives the results of an op their maps, from that of its operand `from`.
  void spreadUp(mlir::Operation *op, mlir::Value from, const IndexMap &map,
                Worklist &worklist);
  bool assign(mlir::Value value, std::optional<IndexMap> map,
              Worklist &worklist);

  llvm::DenseSet<mlir::Value> arguments;
  llvm::DenseSet<mlir::Operation *> members;
  mlir::Value anchor;
  llvm::SmallVector<int64_t> reducedDims;
  /// The indices along the reduced dims of the anchor.
  IndexMap reducedIndices;
  /// For each dim of the anchor, its factors, major to minor.
  llvm::SmallVector<llvm::SmallVector<int64_t>> factors;
  std::optional<VariableSplit> wanted;
};

} // namespace polyrank::codegen
