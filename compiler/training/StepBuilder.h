// The parts of @step while it is built.

#pragma once

#include "compiler/training/Clip.h"
#include "compiler/training/Ema.h"
#include "compiler/training/LossScale.h"
#include "compiler/training/Optimizer.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "dialects/pipeline/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace polyrank::training {

/// A parameter argument of @forward and of @step.
struct Parameter {
  mlir::BlockArgument forward, step;
  graph::ParameterOp stored;
  std::string name;                     // of the stored tensor
  llvm::SmallVector<std::string> names; // `name` and its aliases
  bool trainable = false;
  llvm::SmallVector<mlir::Value> states; // the optimizer's
  mlir::Value average;                   // null without moving averages
  mlir::Value gradient;
  /// The result of @forward that is its next value (running statistics), or -1.
  int64_t update = -1;
};

/// The value of a parameter on a stage that does not own it. The parameter is
/// sent once per step, and the sum of the gradient over all microbatches is
/// sent back once.
struct ParameterCopy {
  pipeline::TransferOp forward, step;
  Parameter *parameter;
};

/// A mean that @forward returns as a sum and, in the next result, its count.
/// Terms of the loss come first.
struct Mean {
  unsigned result;
  std::string name;
  std::optional<double> weight; // in the loss, if it is a term of it
  int64_t targets;              // the most that a microbatch can have
  graph::MeanKind kind;
  bool isFurther;              // true for another part of the previous mean
  std::optional<double> least; // lower bound of the count over all microbatches
};

/// A result of @step that is reported to the user.
struct StepOutput {
  std::string name;
  mlir::Value value;
  graph::MeanKind mean = graph::MeanKind::Arithmetic; // over several steps
  int64_t batchDim = 0;                               // as in graph.output
};

/// The sums of one microbatch, or of all.
struct Sums {
  /// The gradients of trainable parameters, then of their copies on other
  /// stages.
  llvm::SmallVector<mlir::Value> gradients;
  llvm::SmallVector<mlir::Value> sums, counts; // of each mean
  llvm::SmallVector<mlir::Value>
      carried; // next values of the parameters that @forward updates
};

/// Returns true if a count does not depend on the inputs.
bool isStatic(mlir::Value count);

/// Builds @step. Microbatches are in StepMicrobatches.cpp, sums and counts in
/// StepMeans.cpp, copies of parameters in StepCopies.cpp, the update in
/// StepUpdates.cpp.
class StepBuilder {
public:
  StepBuilder(mlir::ModuleOp module, mlir::func::FuncOp forward,
              int64_t microbatches)
      : module(module), forward(forward), microbatches(microbatches),
        builder(module.getContext()),
        parts(builder, mlir::NameLoc::get(builder.getStringAttr("step"))) {}

  mlir::LogicalResult buildTraining(Optimizer &optimizer, const Clip &clip,
                                    const Ema &ema, const LossScale &scaling);
  mlir::LogicalResult buildForward();

private:
  mlir::LogicalResult classify();
  /// Creates @step with the arguments so far and an empty body. Without an
  /// optimizer it does not train.
  void createFunction(const Optimizer *optimizer, const Ema &ema);
  mlir::BlockArgument addArgument(mlir::Type type, mlir::Attribute role);
  /// Clones the ops of @forward and returns the values that it returns.
  /// `carried` are the values of the parameters that it updates, `slices` its
  /// inputs. If `only` is given, clones and returns just what these results
  /// need.
  llvm::SmallVector<mlir::Value>
  cloneForward(mlir::ValueRange slices, mlir::ValueRange carried,
               mlir::Value index, llvm::ArrayRef<unsigned> only = {});
  /// `counts`: the counts of the loss's terms over all microbatches; empty if
  /// this microbatch is the only one, so that its own counts are used.
  mlir::FailureOr<Sums> buildMicrobatch(mlir::ValueRange slices,
                                        mlir::ValueRange carried,
                                        mlir::Value index,
                                        llvm::ArrayRef<mlir::Value> counts);
  mlir::LogicalResult findMeans();
  /// The means among the results of @forward.
  Sums takeMeans(llvm::ArrayRef<mlir::Value> results);
  /// The number of terms of the loss, each part counted.
  unsigned getNumTerms() {
    return llvm::count_if(means, [](auto &mean) { return !!mean.weight; });
  }
  /// The sum of weight times value over the terms of the loss.
  mlir::Value addTerms(llvm::ArrayRef<mlir::Value> values);
  /// The value that is differentiated if the loss has several terms: the sum of
  /// weight / count times the term's sum.
  mlir::Value buildWeightedSum(llvm::ArrayRef<mlir::Value> sums,
                               llvm::ArrayRef<mlir::Value> counts);
  /// Computes the count of each term over all microbatches, before these run.
  llvm::SmallVector<mlir::Value> countAhead();
  /// The values that parameters updated by @forward have before the step.
  llvm::SmallVector<mlir::Value> getCarried();
  /// Sends parameters to stages that use them but do not own them.
  void sendParameters();
  bool isSent(mlir::Operation *forwardOp) const;
  /// Adds the gradients of copies to those of their owners.
  void returnGradients(llvm::ArrayRef<mlir::Value> ofCopies);
  mlir::FailureOr<Sums> buildMicrobatches();
  /// Microbatch 0 of an input that has no other microbatch.
  mlir::Value takeOnly(mlir::Value input);
  /// The parameter's gradient, divided by the loss scale.
  mlir::Value takeGradient(Parameter &parameter);
  /// True if all gradients are taken before the first update.
  bool takesAllGradients(const Clip &clip) const {
    return clip.norm != 0 || lossScale.skips();
  }
  void reportRules(const Optimizer &optimizer);
  /// Builds the next values of all parameters, then of all their states.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  buildUpdates(const Optimizer &optimizer, const Clip &clip,
               const Clip::Scale &scale, const Ema &ema,
               mlir::ValueRange carried);
  mlir::Value buildMean(mlir::Value sum, mlir::Value count);
  /// The divisor of `mean`, given its count over all microbatches.
  mlir::Value boundCount(const Mean &mean, mlir::Value count);
  /// 1 where `count` is 0, else 0.
  mlir::Value buildIsNone(mlir::Value count);
  /// The outputs for the loss, for its terms if there are several, and for
  /// other means.
  llvm::SmallVector<StepOutput>
  buildMetrics(llvm::ArrayRef<mlir::Value> sums,
               llvm::ArrayRef<mlir::Value> counts);
  /// Adds the counts of the mean that begins with part `first`. If one part has
  /// a count of targets, it is added as `nameOfCount`; if several have one,
  /// each such part is added with its value and its count.
  void addCounts(llvm::SmallVectorImpl<StepOutput> &metrics, unsigned first,
                 llvm::StringRef nameOfCount,
                 llvm::ArrayRef<mlir::Value> values,
                 llvm::ArrayRef<mlir::Value> counts);
  void finish(mlir::ValueRange updated, llvm::ArrayRef<StepOutput> outputs);
  graph::Boundary boundary() { return graph::Boundary(forward); }
  mlir::ModuleOp module;
  mlir::func::FuncOp forward, step;
  int64_t microbatches;
  mlir::OpBuilder builder;
  graph::Parts parts;
  llvm::SmallVector<Parameter> parameters;
  llvm::SmallVector<ParameterCopy> copies;
  /// The states that belong to each stored tensor as a whole.
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<mlir::Value>>
      storedStates;
  llvm::SmallVector<Mean> means;
  llvm::SmallVector<mlir::BlockArgument> forwardInputs, inputs;
  mlir::BlockArgument firstBatched; // null: none has a batch
  mlir::Value stepNumber, seed;
  LossScale lossScale;
  llvm::SmallDenseMap<mlir::Attribute, mlir::Value> rates; // by role
};

} // namespace polyrank::training
