// What --loss and --metric are made of: sums, and what they are divided by.

#pragma once

#include "compiler/training/Call.h"
#include "compiler/training/LossParts.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace polyrank::training {

/// A mean: a sum and what it is divided by, two scalars, and over how many
/// targets it can be. The number that the sum is divided by is `least` at
/// least.
struct Loss {
  mlir::Value sum, count;
  int64_t targets;
  graph::MeanKind kind = graph::MeanKind::Arithmetic;
  std::optional<double> least = {};
};

/// The sum of these, under its name in the log, and its weight in the loss
/// where it is part of it. There are several where the model computes it so.
struct NamedMean {
  llvm::SmallVector<Loss> parts;
  std::string name;
  std::optional<double> weight;
};

/// Builds them at the end of @forward, whose labels it adds as inputs.
class LossBuilder {
public:
  explicit LossBuilder(mlir::func::FuncOp forward)
      : forward(forward),
        builder(mlir::OpBuilder(forward.getBody().front().getTerminator())),
        parts(builder, mlir::NameLoc::get(builder.getStringAttr("loss"))),
        splitter(forward, parts) {}

  /// The terms of the loss, where there is one; then the metrics, then the
  /// model's other outputs that are one float. Names in the log differ.
  mlir::FailureOr<llvm::SmallVector<NamedMean>>
  build(llvm::StringRef loss, llvm::ArrayRef<std::string> metrics);

private:
  // LossBuilder.cpp
  graph::Boundary boundary() { return graph::Boundary(forward); }
  mlir::InFlightDiagnostic emitError() {
    return forward.emitError() << (isMetric ? "--metric: " : "--loss: ");
  }
  mlir::InFlightDiagnostic emitRemark() {
    return forward.emitRemark() << (isMetric ? "--metric: " : "--loss: ");
  }
  /// An output of the model, and its batch dim (graph.output).
  struct Output {
    mlir::Value value;
    int64_t batchDim;
  };
  mlir::FailureOr<Output> getOutput(llvm::StringRef name);
  /// The input called `name`: the model's own if it has the type, else a new
  /// one, whose array has its batch in dim `batchDim`.
  mlir::FailureOr<mlir::Value> getLabels(llvm::StringRef name,
                                         mlir::RankedTensorType type,
                                         int64_t batchDim);
  mlir::LogicalResult
  expectPositional(const Call &call, llvm::ArrayRef<llvm::StringRef> expected);
  mlir::Value sumAll(mlir::Value value) {
    return parts.sum(value, llvm::to_vector(llvm::seq<int64_t>(
                                0, graph::getShape(value).size())));
  }
  mlir::FailureOr<llvm::SmallVector<Loss>> buildTerm(const WeightedCall &term);
  mlir::FailureOr<Loss> buildMean(const WeightedCall &term, const Call &call);
  mlir::FailureOr<Loss> buildPair(const Call &call);
  mlir::FailureOr<llvm::SmallVector<Loss>> buildOutput(const Call &call);
  /// What a float scalar is the sum of (LossParts.h); the part of the samples
  /// that weigh alike is over 1.
  llvm::SmallVector<Loss> splitMean(mlir::Value value);
  /// Says over what the mean is that an output is.
  void describeMean(llvm::StringRef name, llvm::ArrayRef<Loss> means);
  mlir::LogicalResult addMetric(llvm::StringRef text,
                                llvm::SmallVectorImpl<NamedMean> &means);
  mlir::LogicalResult expectNamesDiffer(llvm::ArrayRef<NamedMean> means);

  // ClassLosses.cpp
  /// The values that argument `number` may have: classes, or ignored.
  mlir::LogicalResult limitLabels(unsigned number, int64_t classes,
                                  int64_t ignoreIndex);
  /// The dim of the classes where `axis` does not say it.
  mlir::FailureOr<int64_t> findClasses(const Call &call, const Output &logits);
  /// Options that say which classes there are and which labels count.
  struct ClassOptions {
    std::optional<int64_t> axis, ignoreIndex;
  };
  /// Scores of classes along dim `axis`, and a label for each row of them.
  struct Classes {
    mlir::Value logits, labels;
    int64_t axis, ignoreIndex, size;
    /// Whether a label counts, and 1 where it does, else 0.
    mlir::Value isCounted, counted;
  };
  mlir::FailureOr<Classes> getClasses(const Call &call,
                                      const ClassOptions &options);
  /// Warns where `output` is computed from these labels, as they are: in
  /// CopiedLabels.cpp.
  void warnOfCopies(const Call &call, mlir::Value output, mlir::Value labels);
  /// Of each label the negative logarithm of its likelihood.
  graph::CrossEntropyOp buildLogLikelihood(const Classes &classes);
  /// The mean of what is computed for each label; `counted` is its weight.
  Loss meanOver(const Classes &classes, mlir::Value each, mlir::Value counted);
  mlir::FailureOr<Loss> buildCrossEntropy(const Call &call);
  mlir::FailureOr<Loss> buildPerplexity(const Call &call);
  mlir::FailureOr<Loss> buildAccuracy(const Call &call);
  /// Of each label the mean over all classes of what they would cost.
  mlir::Value buildSmoothing(const Classes &classes, mlir::Value lse,
                             llvm::ArrayRef<double> weights);

  mlir::func::FuncOp forward;
  bool isMetric = false;                          // what is built is --metric
  llvm::SmallDenseMap<unsigned, int64_t> ignored; // of each of the labels
  llvm::StringSet<> used;   // outputs that are a mean by themselves
  llvm::StringSet<> chosen; // outputs whose dim of classes a remark has said
  llvm::StringSet<> copied; // outputs and their labels that a warning has named
  mlir::OpBuilder builder;
  graph::Parts parts;
  LossParts splitter;
};

/// What losses' messages about unknown ones end with.
inline constexpr const char *otherLosses =
    "; output(OUTPUT) takes any loss that the exported model computes";

} // namespace polyrank::training
