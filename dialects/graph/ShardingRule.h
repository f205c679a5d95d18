// Sharding rules: which dims of an op's operands and results correspond.
//
// A *factor* is a loop of the op's defining loop nest. The rule of a matmul
// reads `([i, k], [k, j])->([i, j]) {i=4, j=8, k=16} reduction={k}`. A dim that
// a reshape merges is compound, major to minor: `([i, j])->([ij])`. If a factor
// is split over some mesh axes, every tensor that has it must be split alike.

#pragma once

#include <string>

#include "dialects/sharding/Layout.h"
#include "mlir/IR/Operation.h"

namespace polyrank::graph {

/// What happens when a factor is split.
enum class FactorKind {
  /// Each device computes its block of every result.
  Parallel,
  /// Results that have the factor are split; those that lack it are partial.
  Reduction,
  /// Elements are addressed by an index operand: an operand split on the factor
  /// gives a masked partial sum (gather); a result split on it keeps the
  /// updates that fall inside the block (scatter_add).
  Indexed,
  /// Each block needs its neighbours' borders, or contributes to theirs: see
  /// Border.
  Halo,
  /// Each block needs other blocks, but the op's decomposition can be computed
  /// split.
  Composite,
  /// Must not be split.
  Replicated
};
llvm::StringRef stringify(FactorKind kind);

struct Factor {
  /// For a halo factor, the smallest extent that covers all dims that have it.
  int64_t size = 1;
  FactorKind kind = FactorKind::Parallel;
  /// How the partial results of a Reduction factor combine.
  sharding::ReductionKind reduction = sharding::ReductionKind::Sum;
  /// For a composite factor: the decomposition computes each result that lacks
  /// the factor as a sum over its blocks, as the gradients of attention's keys
  /// are a sum over the queries. Such a result may stay a partial sum.
  bool addsUp = false;
};

/// How the dim of a tensor follows a halo factor: the device that has block
/// [i, i + b) of the factor has [scale * i - low, scale * (i + b) + high) of
/// the dim. In an operand the borders are read (`halo`); in a result they are
/// sums for the neighbours (`spill`).
struct Border {
  int64_t scale = 1, low = 0, high = 0;
};

/// How operands may be partial (of one reduction kind) over an axis so that the
/// results are partial over it in the same way.
enum class PartialPass {
  /// Never.
  None,
  /// One operand at a time, all others replicated over that axis: the op is
  /// multilinear (sum), or monotone (max, min).
  Alone,
  /// All operands with this mark together: the op is linear in their tuple.
  Together,
  /// Any of the operands with this mark: the op commutes with max and min.
  Any
};

/// Factors of one dim, major to minor; empty for a dim of size 1.
using DimFactors = llvm::SmallVector<int, 2>;
/// One entry per dim.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands, results;
  /// The border of each tensor dim that has a halo factor: (is result, number,
  /// dim).
  llvm::SmallVector<std::pair<std::tuple<bool, unsigned, int64_t>, Border>, 2>
      borders;
  /// How each operand passes partials, by kind: passes[kind][operand].
  llvm::SmallVector<PartialPass> passes[3];

  int addFactor(
      int64_t size, FactorKind kind = FactorKind::Parallel,
      sharding::ReductionKind reduction = sharding::ReductionKind::Sum);
  /// Adds the factor of one operand dim and one result dim of these sizes.
  void addHalo(int64_t operandDim, int64_t operandSize, Border operand,
               int64_t resultDim, int64_t resultSize, Border result);
  /// Returns {1, 0, 0} if the dim has no halo factor.
  Border getBorder(bool isResult, unsigned tensor, int64_t dim) const;
  /// The layout of a dim of size `size` with one factor, which is split over
  /// `axes` and has extent `extent`: with borders, and padded if necessary.
  sharding::DimAttr
  layDim(bool isResult, unsigned tensor, int64_t dim, int64_t size,
         sharding::MeshAttr mesh, llvm::ArrayRef<sharding::AxisRef> axes,
         int64_t extent, sharding::Fill fill = sharding::Fill::Undefined) const;
  PartialPass getPass(sharding::ReductionKind kind, unsigned operand) const {
    return passes[static_cast<int>(kind)][operand];
  }
  void setPass(sharding::ReductionKind kind, unsigned operand,
               PartialPass pass) {
    passes[static_cast<int>(kind)][operand] = pass;
  }
  /// Lets partial sums, maxima and minima pass in `operand`, because the op
  /// only moves elements.
  void passAll(unsigned operand) {
    for (auto &kind : passes)
      kind[operand] = PartialPass::Any;
  }
  bool operandHas(unsigned operand, int factor) const;
  bool resultHas(unsigned result, int factor) const;
  /// Returns true if no operand has the factor: the op's builder chooses its
  /// layout.
  bool isResultOnly(int factor) const;

  /// `([i, k], [k, j])->([i, j]) {i=4, j=8, k=16} reduction={k} passes
  /// sum={0|1}`. A dim that follows a halo factor is `2i+1:2`: scale, factor,
  /// borders.
  std::string toString() const;
};

/// An empty rule with a slot for each tensor operand and result of `op` and no
/// partial passes.
ShardingRule emptyRule(mlir::Operation *op);
/// The rule of an op whose operands and results all have one shape.
ShardingRule elementwiseRule(mlir::Operation *op);

/// Distributes a dim's axes over its factors, major to minor. A more minor
/// factor may have axes only if all more major ones are completely split. Fails
/// if an axis would straddle factors in unequal parts or padding would be
/// divided; `reason` then says why.
std::optional<llvm::SmallVector<llvm::SmallVector<sharding::AxisRef>>>
projectAxes(sharding::DimAttr dim, llvm::ArrayRef<int64_t> factorSizes,
            std::string *reason = nullptr);

/// The layouts of `op`'s results that the layouts of its operands determine;
/// factors that only results have are whole. Layouts are null if the operands
/// have none. The operands are assumed to agree (LayoutVerifier.h).
llvm::SmallVector<sharding::LayoutAttr>
inferResultLayouts(mlir::Operation *op,
                   llvm::ArrayRef<sharding::LayoutAttr> operands);

} // namespace polyrank::graph
