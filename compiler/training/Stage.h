// The list of passes from the model's function to a training step.

#pragma once

#include "compiler/stages/Passes.h"
#include "compiler/training/Passes.h"
#include "mlir/Pass/PassOptions.h"

namespace polyrank::training {

/// The options of the passes. Without a loss or metric the outputs stay.
struct TrainingOptions {
  AttachLossPassOptions loss;
  /// Nothing is cut into stages if the pipeline axis has one rank.
  stages::AssignStagesOptions stages;
  BuildStepPassOptions step;
  LowerPrecisionPassOptions precision;
};

/// Adds the passes from @forward to @step: raise-composites, unflatten,
/// find-logical-parameters, attach-loss, assign-stages, insert-transfers,
/// build-step, lower-precision, join-stages, with cleanups between them.
void trainingStage(mlir::OpPassManager &manager,
                   const TrainingOptions &options);
/// The two parts of the stage: up to attach-loss, and from assign-stages on.
/// @{
void prepareForward(mlir::OpPassManager &manager,
                    const TrainingOptions &options);
void differentiate(mlir::OpPassManager &manager,
                   const TrainingOptions &options);
/// @}

/// The same options as text, for polyrank-opt.
struct TrainingStageOptions : mlir::PassPipelineOptions<TrainingStageOptions> {
  Option<std::string> loss{
      *this, "loss",
      llvm::cl::desc("Which loss to train; without one the outputs stay")};
  ListOption<std::string> metrics{*this, "metrics",
                                  llvm::cl::desc("What is logged beside it")};
  Option<std::string> mode{*this, "mode", llvm::cl::init("train"),
                           llvm::cl::desc("train or forward")};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::init("adamw"),
                                llvm::cl::desc("as --build-step takes it")};
  Option<double> clipNorm{*this, "clip-norm", llvm::cl::init(0),
                          llvm::cl::desc("The largest norm of all gradients")};
  Option<std::string> clipNormType{*this, "clip-norm-type", llvm::cl::init("2"),
                                   llvm::cl::desc("2 or inf")};
  Option<double> clipValue{*this, "clip-value", llvm::cl::init(0),
                           llvm::cl::desc("The largest element of a gradient")};
  Option<std::string> schedule{
      *this, "lr-schedule",
      llvm::cl::desc("How the learning rate depends on the step")};
  ListOption<std::string> groups{
      *this, "group", llvm::cl::desc("Other options of some parameters")};
  Option<double> ema{*this, "ema", llvm::cl::init(0),
                     llvm::cl::desc("The decay of moving means")};
  Option<std::string> precision{*this, "precision", llvm::cl::init("fp32"),
                                llvm::cl::desc("fp32, bf16 or fp16")};
  Option<std::string> fp32{*this, "fp32",
                           llvm::cl::desc("Patterns of modules that stay f32")};
  Option<std::string> reduceDtype{
      *this, "reduce-dtype", llvm::cl::init("fp32"),
      llvm::cl::desc("The type in which gradients are sent")};
  Option<std::string> lossScale{
      *this, "loss-scale",
      llvm::cl::desc("By what the loss is multiplied: a number, dynamic(..)")};
  Option<bool> skipNonfinite{
      *this, "skip-nonfinite", llvm::cl::init(false),
      llvm::cl::desc("Skip a step in which a gradient is not finite")};
  Option<int64_t> microbatches{*this, "microbatches", llvm::cl::init(1),
                               llvm::cl::desc("How many one step adds up")};

  Option<std::string> pipeAxis{*this, "pipe-axis", llvm::cl::init("pipe"),
                               llvm::cl::desc("The axis of the mesh along "
                                              "which stages lie")};
  Option<int64_t> pipeRanks{*this, "pipe-ranks", llvm::cl::init(1),
                            llvm::cl::desc("Its size; 1: no stages")};
  Option<int64_t> chunks{*this, "chunks", llvm::cl::init(1),
                         llvm::cl::desc("Stages of each rank")};
  Option<std::string> stages{*this, "stages", llvm::cl::init("auto"),
                             llvm::cl::desc("auto, or how many")};
  ListOption<std::string> stagePatterns{
      *this, "stage", llvm::cl::desc("PATTERN=K: what is on stage K")};
  Option<std::string> pipeSchedule{
      *this, "schedule", llvm::cl::init("1f1b"),
      llvm::cl::desc("In which order ranks run their stages")};

  TrainingOptions get() const;
};

} // namespace polyrank::training
