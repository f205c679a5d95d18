// Turns values at indices into the scalar ops of loops.

#pragma once

#include <map>

#include "compiler/codegen/BuildLoops.h"
#include "compiler/codegen/Domain.h"

namespace polyrank::codegen {

inline mlir::Type elementTypeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}

/// The index along one dim: an affine form of the variables, or an i64 scalar.
struct Index {
  Affine affine;
  mlir::Value value;

  Index() = default;
  Index(Affine affine) : affine(std::move(affine)) {}
  explicit Index(mlir::Value value) : value(value) {}
};
using Indices = llvm::SmallVector<Index, 4>;

/// Turns values at indices into scalar ops.
class ElementBuilder {
public:
  ElementBuilder(Body body, const Domain &domain, HasCode hasCode,
                 kernel::LoopsOp loops, std::string &reason)
      : domain(domain), hasCode(hasCode), loops(loops), reason(reason),
        scalars(&loops.getBlock(), loops.getLoc()),
        i64(mlir::IntegerType::get(loops.getContext(), 64)),
        i1(mlir::IntegerType::get(loops.getContext(), 1)) {
    for (mlir::Value value : body.arguments)
      arguments.insert(value);
  }

  /// Builds `value` at `indices`, evaluated where the predicate holds (null:
  /// always). Returns null if it cannot be built.
  mlir::Value build(mlir::Value value, const Indices &indices,
                    mlir::Value predicate);
  mlir::Value fail(mlir::Operation *op, const llvm::Twine &why) {
    reason = (op->getName().getStringRef() + ": " + why).str();
    return mlir::Value();
  }
  /// A split of a variable with which a failed build may succeed.
  std::optional<VariableSplit> split;

  /// Converts a scalar, which must exist, as `graph.convert` does.
  mlir::Value convert(mlir::Value x, mlir::Type type);

private:
  /// Converts a scalar to the type in which kernels compute with its type: f32
  /// for bf16. Null stays null.
  mlir::Value inAccumulator(mlir::Value x);
  mlir::Value integer(int64_t value) { return scalars.integer(i64, value); }
  /// Arithmetic on i64 integers.
  /// @{
  mlir::Value sum(mlir::Value x, mlir::Value y);
  mlir::Value product(mlir::Value x, int64_t factor);
  mlir::Value choose(mlir::Value condition, mlir::Value x, mlir::Value y);
  mlir::Value widen(mlir::Value x);
  /// @}
  mlir::Value valueOf(const Index &index);
  mlir::Value inRange(const Index &index, int64_t lower, int64_t upper);
  mlir::Value both(mlir::Value x, mlir::Value y);
  mlir::Value load(mlir::Value argument, const Indices &indices,
                   mlir::Value predicate);
  mlir::Value buildOp(mlir::Operation *op, const Indices &indices,
                      mlir::Value predicate);
  mlir::Value reshape(graph::ReshapeOp op, const Indices &indices,
                      mlir::Value predicate);
  mlir::Value slice(graph::SliceOp op, const Indices &indices,
                    mlir::Value predicate);
  mlir::Value unfold(graph::UnfoldOp op, const Indices &indices,
                     mlir::Value predicate);
  mlir::Value fold(graph::FoldOp op, const Indices &indices,
                   mlir::Value predicate);
  /// `value` where `inside` holds (null: everywhere), or else the constant.
  /// `value` was built under the predicate `inside`.
  mlir::Value orElse(mlir::Value inside, mlir::Value value, double elsewhere);
  mlir::Value scaled(const Index &index, int64_t factor, int64_t offset);
  Index shifted(const Index &index, int64_t offset);
  Index quotient(const Index &index, int64_t divisor, int64_t size,
                 mlir::Value &inside);
  mlir::Value pad(graph::PadOp op, const Indices &indices,
                  mlir::Value predicate);
  mlir::Value concat(graph::ConcatOp op, const Indices &indices,
                     mlir::Value predicate);
  mlir::Value gather(graph::GatherOp op, const Indices &indices,
                     mlir::Value predicate);
  mlir::Value reduce(graph::ReduceOp op, const Indices &indices);
  /// The random word of an element of `shape`, as an unsigned number.
  template <typename Op>
  mlir::Value randomWord(Op op, llvm::ArrayRef<int64_t> shape,
                         const Indices &indices, mlir::Value predicate);
  mlir::Value dropout(graph::DropoutOp op, const Indices &indices,
                      mlir::Value predicate);
  mlir::Value uniform(graph::UniformOp op, const Indices &indices,
                      mlir::Value predicate);
  mlir::Value elementwise(mlir::Operation *op, const Indices &indices,
                          mlir::Value predicate);

  Affine constantIndex(int64_t value) {
    return Affine(domain.sizes.size(), value);
  }
  /// Returns true if `index` always lies in [lower, upper), false if it never
  /// does, and nullopt if neither is known.
  std::optional<bool> isInside(const Index &index, int64_t lower,
                               int64_t upper) {
    if (index.value)
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
  HasCode hasCode;
  kernel::LoopsOp loops;
  std::string &reason;
  graph::ScalarBuilder scalars;
  mlir::Type i64, i1;
  llvm::DenseSet<mlir::Value> arguments;
  std::map<std::vector<int64_t>, mlir::Value> built;
};

} // namespace polyrank::codegen
