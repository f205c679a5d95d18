// Collects what a model adds to the scores of an attention, and which keys it
// hides.

#pragma once

#include "compiler/training/AttentionConditions.h"

namespace polyrank::training {

/// Collects what is done to scores [batch, heads, queries, keys] after they are
/// products, from the last to the first.
class AttentionTerms {
public:
  /// `element` is the type of sums of scores, which the bias has.
  AttentionTerms(mlir::OpBuilder &builder, llvm::ArrayRef<int64_t> shape,
                 mlir::Type element, KnownBands &known)
      : builder(builder), shape(shape), element(element),
        reader(builder, shape, known) {}

  /// Where the condition, of the scores' shape, does not hold, `fill` takes the
  /// place of the score.
  void replace(mlir::Value condition, double fill);
  /// `term`, of the scores' shape, times `factor` is added to the scores.
  void add(mlir::Value term, double factor);
  /// The probabilities are zeroed where the condition does not hold.
  void zero(mlir::Value condition) { zeroed = condition; }
  /// Probabilities that are no number, because a query sees nothing, are
  /// zeroed.
  void zeroNaN() { isNaNZeroed = true; }

  /// Writes all that was collected as an attention's attributes, bias and mask.
  /// Returns why an attention cannot say it, or "".
  std::string write(graph::AttentionForm &form, mlir::Value &bias,
                    mlir::Value &mask);

private:
  /// Keys that are hidden unless all of the conditions hold.
  struct Hidden {
    Shown shows;
    mlir::Value condition; // of `replace`, as it was given
    graph::Masked masked;
    double fill;
    /// The number of biases that were collected before, so come after it.
    size_t biasesAfter;
    /// It was taken apart from a number that is added where it shows keys,
    /// which is right if hidden keys count nothing.
    bool mustCountNothing = false;
  };

  /// Returns false if it hides no key.
  bool addHidden(Compact condition, bool isNegated, graph::Masked masked,
                 double fill);
  void addCompact(const Compact &term, double factor);
  bool readAdditiveConstant(const Compact &term, double factor);

  /// Returns true if the hidden keys of any query count nothing, because it is
  /// sure to see others.
  bool countsNothing(const Hidden &each);
  bool isZeroed(const Hidden &each);
  bool mayReach(const Compact &bias, double low);
  mlir::Value
  joinAll(llvm::ArrayRef<Compact> parts,
          llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> join);
  mlir::Value writeCondition(const Hidden &hidden, graph::AttentionForm *form);

  mlir::OpBuilder &builder;
  llvm::SmallVector<int64_t> shape;
  mlir::Type element;
  ConditionReader reader;
  llvm::SmallVector<Compact> biases;
  llvm::SmallVector<Hidden> hidden;
  mlir::Value zeroed;
  bool isNaNZeroed = false;
};

} // namespace polyrank::training
