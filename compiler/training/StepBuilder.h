// What a step is built with.

#pragma once

#include "compiler/training/Clip.h"
#include "compiler/training/Ema.h"
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
  llvm::SmallVector<std::string> names; // that and its aliases
  bool trainable = false;
  llvm::SmallVector<mlir::Value> states; // of the optimizer
  mlir::Value average;                   // where there are moving means
  mlir::Value gradient;
  /// Which result of @forward is its next value (running statistics), or -1.
  int64_t update = -1;
};

/// The value of a parameter on a stage that does not own it. It is sent once a
/// step, and what all microbatches make of its gradient comes back once.
struct ParameterCopy {
  pipeline::TransferOp forward, step;
  Parameter *parameter;
};

/// What @forward returns as a sum and, in the result behind it, what it is
/// over. Terms of the loss come first.
struct Mean {
  unsigned result;
  std::string name;
  std::optional<double> weight; // in the loss, of which it is a term
  int64_t targets;              // that there can be, of a microbatch
  graph::MeanKind kind;
  bool isFurther;              // a part of the mean before it
  std::optional<double> least; // that the count of all microbatches is
};

/// A result of @step that the user gets.
struct StepOutput {
  std::string name;
  mlir::Value value;
  graph::MeanKind mean = graph::MeanKind::Arithmetic; // over several steps
  int64_t batchDim = 0;                               // as of a graph.output
};

/// The sums of one microbatch, or of all.
struct Sums {
  /// Of the parameters that are trained, then of the copies of such.
  llvm::SmallVector<mlir::Value> gradients;
  llvm::SmallVector<mlir::Value> sums, counts; // of each mean
  llvm::SmallVector<mlir::Value>
      carried; // next values of the parameters that have any
};

/// Whether a count does not depend on the inputs.
bool isStatic(mlir::Value count);

/// Builds @step: microbatches in StepMicrobatches.cpp, what means are made of
/// in StepMeans.cpp, copies of parameters in StepCopies.cpp, the update in
/// StepUpdates.cpp.
class StepBuilder {
public:
  StepBuilder(mlir::ModuleOp module, mlir::func::FuncOp forward,
              int64_t microbatches)
      : module(module), forward(forward), microbatches(microbatches),
        builder(module.getContext()),
        parts(builder, mlir::NameLoc::get(builder.getStringAttr("step"))) {}

  mlir::LogicalResult buildTraining(Optimizer &optimizer, const Clip &clip,
                                    const Ema &ema);
  mlir::LogicalResult buildForward();

private:
  mlir::LogicalResult classify();
  /// Makes @step with the arguments so far and an empty body; without an
  /// optimizer it does not train.
  void createFunction(const Optimizer *optimizer, const Ema &ema);
  mlir::BlockArgument addArgument(mlir::Type type, mlir::Attribute role);
  /// Clones the ops of @forward and returns what it returns. `carried` are the
  /// values of the parameters that it updates, `slices` its inputs.
  /// Given `only`, clones and returns what these results need.
  llvm::SmallVector<mlir::Value>
  cloneForward(mlir::ValueRange slices, mlir::ValueRange carried,
               mlir::Value index, llvm::ArrayRef<unsigned> only = {});
  /// `counts`: of the terms of the loss, over all microbatches; empty: those of
  /// this one, which is the only one.
  mlir::FailureOr<Sums> buildMicrobatch(mlir::ValueRange slices,
                                        mlir::ValueRange carried,
                                        mlir::Value index,
                                        llvm::ArrayRef<mlir::Value> counts);
  mlir::LogicalResult findMeans();
  /// The means among what @forward returned.
  Sums takeMeans(llvm::ArrayRef<mlir::Value> results);
  /// The parts of terms counted each.
  unsigned getNumTerms() {
    return llvm::count_if(means, [](auto &mean) { return !!mean.weight; });
  }
  /// The sum of weight times value over the terms of the loss.
  mlir::Value addTerms(llvm::ArrayRef<mlir::Value> values);
  /// What the gradients are of where the loss has several terms: the sum of
  /// weight / count times the term's sum.
  mlir::Value buildWeightedSum(llvm::ArrayRef<mlir::Value> sums,
                               llvm::ArrayRef<mlir::Value> counts);
  /// What each term of the loss is over in all microbatches, before they run.
  llvm::SmallVector<mlir::Value> countAhead();
  /// The values before the step of the parameters that @forward updates.
  llvm::SmallVector<mlir::Value> getCarried();
  /// Sends parameters to stages that use them and do not own them.
  void sendParameters();
  bool isSent(mlir::Operation *forwardOp) const;
  /// Adds what copies were found to have as gradients to their owners'.
  void returnGradients(llvm::ArrayRef<mlir::Value> ofCopies);
  mlir::FailureOr<Sums> buildMicrobatches();
  /// Microbatch 0 of an input that has no other.
  mlir::Value takeOnly(mlir::Value input);
  mlir::Value takeGradient(Parameter &parameter);
  void reportRules(const Optimizer &optimizer);
  /// The next values of all parameters, then of all their states.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  buildUpdates(const Optimizer &optimizer, const Clip &clip,
               const Clip::Scale &scale, const Ema &ema,
               mlir::ValueRange carried);
  mlir::Value buildMean(mlir::Value sum, mlir::Value count);
  /// What `mean` is over, given its count in all microbatches.
  mlir::Value boundCount(const Mean &mean, mlir::Value count);
  /// 1 where `count` is 0, else 0.
  mlir::Value buildIsNone(mlir::Value count);
  /// The loss, its terms where it has several, and other means, as outputs.
  llvm::SmallVector<StepOutput>
  buildMetrics(llvm::ArrayRef<mlir::Value> sums,
               llvm::ArrayRef<mlir::Value> counts);
  /// Adds what says over how many targets a mean is that begins with part
  /// `first`: its count, as `nameOfCount`, where one part has a count of
  /// targets; where several have one, each of these with its own.
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
  /// What is kept of each stored tensor as a whole.
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<mlir::Value>>
      storedStates;
  llvm::SmallVector<Mean> means;
  llvm::SmallVector<mlir::BlockArgument> forwardInputs, inputs;
  mlir::BlockArgument firstBatched; // of forwardInputs; null: none has a batch
  mlir::Value stepNumber, seed;
  llvm::SmallDenseMap<mlir::Attribute, mlir::Value> rates; // by their roles
};

} // namespace polyrank::training
