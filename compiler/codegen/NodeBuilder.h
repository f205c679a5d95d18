// Turns values at indices into the nodes of a kernel's loops.

#pragma once

#include "compiler/codegen/Domain.h"
#include "compiler/codegen/Loops.h"

namespace polyrank::codegen {

inline mlir::Type elementTypeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}

/// The index along one dim: linear, or the value of an i64 node.
struct Index {
  Affine affine;
  int node = -1;

  Index() = default;
  Index(Affine affine) : affine(std::move(affine)) {}
  explicit Index(int node) : node(node) {}
};
using Indices = llvm::SmallVector<Index, 4>;

/// Turns values at indices into nodes.
class NodeBuilder {
public:
  NodeBuilder(Body body, const Domain &domain, HasFunction hasFunction,
              Loops &loops, std::string &reason)
      : domain(domain), hasFunction(hasFunction), loops(loops), reason(reason),
        context(body.results[0].getContext()),
        i64(mlir::IntegerType::get(context, 64)),
        i1(mlir::IntegerType::get(context, 1)) {
    for (auto [i, value] : llvm::enumerate(body.arguments))
      arguments[value] = i;
  }

  /// The node of `value` at `indices`; -1 if it cannot be built.
  int build(mlir::Value value, const Indices &indices, int predicate);
  int fail(mlir::Operation *op, const llvm::Twine &why) {
    reason = (op->getName().getStringRef() + ": " + why).str();
    return -1;
  }
  /// A cut that would have helped.
  std::optional<VariableSplit> split;

private:
  int add(Node node);
  int apply(Function function, mlir::Type type, llvm::ArrayRef<int> operands,
            int64_t parameter = 0);
  int integer(int64_t value);
  int indexNode(const Index &index);
  int inRange(const Index &index, int64_t lower, int64_t upper);
  int both(int x, int y);
  int load(unsigned argument, llvm::ArrayRef<int64_t> shape, mlir::Type type,
           const Indices &indices, int predicate);
  int buildOp(mlir::Operation *op, const Indices &indices, int predicate);
  int reshape(graph::ReshapeOp op, const Indices &indices, int predicate);
  int unfold(graph::UnfoldOp op, const Indices &indices, int predicate);
  int fold(graph::FoldOp op, const Indices &indices, int predicate);
  /// `value`, which is built where `inside` holds (-1: everywhere), or else the
  /// constant.
  int orElse(int inside, int value, double elsewhere);
  int scaled(const Index &index, int64_t factor, int64_t offset);
  Index quotient(const Index &index, int64_t divisor, int64_t size, int &inside);
  int pad(graph::PadOp op, const Indices &indices, int predicate);
  int concat(graph::ConcatOp op, const Indices &indices, int predicate);
  int gather(graph::GatherOp op, const Indices &indices, int predicate);
  int reduce(graph::ReduceOp op, const Indices &indices);
  /// The random word, as an unsigned number, of an element of `shape`.
  template <typename Op>
  int randomWord(Op op, llvm::ArrayRef<int64_t> shape, const Indices &indices,
                 int predicate);
  int dropout(graph::DropoutOp op, const Indices &indices, int predicate);
  int uniform(graph::UniformOp op, const Indices &indices, int predicate);
  int elementwise(mlir::Operation *op, const Indices &indices, int predicate);

  Affine constantIndex(int64_t value) {
    return Affine(domain.sizes.size(), value);
  }
  /// Whether `index` lies in [0, size) for sure, or never does.
  std::optional<bool> isInside(const Index &index, int64_t lower,
                               int64_t upper) {
    if (index.node >= 0)
      return std::nullopt;
    int64_t low = index.affine.minimum(domain.sizes);
    int64_t high = index.affine.maximum(domain.sizes);
    if (low >= lower && high < upper)
      return true;
    if (high < lower || low >= upper)
      return false;
    return std::nullopt;
  }

  const Domain &domain;
  HasFunction hasFunction;
  Loops &loops;
  std::string &reason;
  mlir::MLIRContext *context;
  mlir::Type i64, i1;
  llvm::DenseMap<mlir::Value, unsigned> arguments;
  std::map<std::vector<int64_t>, int> known, built;
};

} // namespace polyrank::codegen
