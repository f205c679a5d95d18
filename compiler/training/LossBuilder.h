// Builds --loss and --metric: sums, and the counts that they are divided by.

#pragma once

#include "compiler/training/Call.h"
#include "compiler/training/LossParts.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace polyrank::training {

/// A mean: a sum and the count by which it is divided, two scalars. `targets`
/// is the largest number of targets in a microbatch. The divisor is at least
/// `least`.
struct Loss {
  mlir::Value sum, count;
  int64_t targets;
  graph::MeanKind kind = graph::MeanKind::Arithmetic;
  std::optional<double> least = {};
};

/// A sum of means, with its name in the log, and its weight in the loss if it
/// is a term of it. It has several parts if the model computes it so.
struct NamedMean {
  llvm::SmallVector<Loss> parts;
  std::string name;
  std::optional<double> weight;
};

/// Builds losses and metrics at the end of @forward, and adds their labels as
/// inputs.
class LossBuilder {
public:
  explicit LossBuilder(mlir::func::FuncOp forward)
      : forward(forward),
        builder(mlir::OpBuilder(forward.getBody().front().getTerminator())),
        parts(builder, mlir::NameLoc::get(builder.getStringAttr("loss"))),
        splitter(forward, parts) {}

  /// Builds the terms of the loss, if there is one; then the metrics; then the
  /// model's other outputs that are one float. Names in the log are distinct.
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
  /// An output of the model, and its batch dim (of its graph.output role).
  struct Output {
    mlir::Value value;
    int64_t batchDim;
  };
  mlir::FailureOr<Output> getOutput(llvm::StringRef name);
  /// The input called `name`: the model's own if it has the type, or else a new
  /// one whose array has its batch in dim `batchDim`.
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
  /// Splits a float scalar into means (LossParts.h). The part whose samples
  /// have equal weights has a count of 1.
  llvm::SmallVector<Loss> splitMean(mlir::Value value);
  /// Emits a remark that says which mean an output is taken as.
  void describeMean(llvm::StringRef name, llvm::ArrayRef<Loss> means);
  mlir::LogicalResult addMetric(llvm::StringRef text,
                                llvm::SmallVectorImpl<NamedMean> &means);
  mlir::LogicalResult expectNamesDiffer(llvm::ArrayRef<NamedMean> means);

  // ClassLosses.cpp
  /// Limits the values that the labels, argument `number`, may have: classes,
  /// or ignored.
  mlir::LogicalResult limitLabels(unsigned number, int64_t classes,
                                  int64_t ignoreIndex);
  /// The dim of the classes, if `axis` does not give it.
  mlir::FailureOr<int64_t> findClasses(const Call &call, const Output &logits);
  /// The options for the dim of the classes and the labels that count.
  struct ClassOptions {
    std::optional<int64_t> axis, ignoreIndex;
  };
  /// Scores of classes along dim `axis`, and a label for each row of scores.
  struct Classes {
    mlir::Value logits, labels;
    int64_t axis, ignoreIndex, size;
    /// Per label: true if it counts, and the same as a float, 1 or 0.
    mlir::Value isCounted, counted;
  };
  mlir::FailureOr<Classes> getClasses(const Call &call,
                                      const ClassOptions &options);
  /// Warns if `output` is computed from these labels without a shift
  /// (CopiedLabels.cpp).
  void warnOfCopies(const Call &call, mlir::Value output, mlir::Value labels);
  /// The negative log likelihood of each label.
  graph::CrossEntropyOp buildLogLikelihood(const Classes &classes);
  /// The mean of the values `each`, one per label; `counted` is their weight.
  Loss meanOver(const Classes &classes, mlir::Value each, mlir::Value counted);
  mlir::FailureOr<Loss> buildCrossEntropy(const Call &call);
  mlir::FailureOr<Loss> buildPerplexity(const Call &call);
  mlir::FailureOr<Loss> buildAccuracy(const Call &call);
  /// For each label, the mean over all classes of the loss that they would have
  /// as labels.
  mlir::Value buildSmoothing(const Classes &classes, mlir::Value lse,
                             llvm::ArrayRef<double> weights);

  mlir::func::FuncOp forward;
  bool isMetric = false; // true while --metric is built
  llvm::SmallDenseMap<unsigned, int64_t> ignored; // by argument of the labels
  llvm::StringSet<> used;   // outputs that are losses by themselves
  llvm::StringSet<> chosen; // outputs whose dim of classes a remark has named
  llvm::StringSet<> copied; // outputs and labels that a warning has named
  mlir::OpBuilder builder;
  graph::Parts parts;
  LossParts splitter;
};

/// The end of error messages about unknown losses.
inline constexpr const char *otherLosses =
    "; output(OUTPUT) takes any loss that the exported model computes";

} // namespace polyrank::training
