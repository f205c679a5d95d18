// Compiles a model file to a plan: all stages of the compiler, in order.

#pragma once

#include "compiler/lowering/AttentionKind.h"
#include "compiler/strategy/Strategy.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace polyrank::driver {

/// The user's request; each field, and each of the strategy, is one option of
/// polyrank-compile.
struct Options {
  std::string model;
  std::string output;
  std::vector<std::string> inputs;
  /// NAME=SIZE: the size, in all inputs, of a dim that the export left open.
  std::vector<std::string> dims;
  /// NAME=VALUE: inputs whose values are known at compile time.
  std::vector<std::string> binds;
  /// How the model and the batch are distributed over the devices.
  strategy::Strategy strategy;
  bool forward = false;
  std::string loss;
  /// The metrics that are logged beside the loss.
  std::vector<std::string> metrics;
  std::string optimizer =
      "adamw(lr=1e-3,betas=(0.9,0.999),eps=1e-8,weight_decay=0.01)";
  /// The learning-rate schedule; empty: constant.
  std::string lrSchedule;
  /// `PATTERN: KEY=VALUE, ..`: other options of the optimizer for some
  /// parameters.
  std::vector<std::string> groups;
  /// The largest norm of all gradients, of type `2` or `inf`, and the largest
  /// element; 0: no limit.
  double clipNorm = 0;
  std::string clipNormType = "2";
  double clipValue = 0;
  /// The decay of moving averages of the parameters; 0: none are kept.
  double ema = 0;
  /// A number or dynamic(..), by which the loss is multiplied for the backward;
  /// empty: no scale.
  std::string lossScale;
  /// True if a step in which a gradient is not finite is skipped, also without
  /// a dynamic loss scale.
  bool skipNonfinite = false;
  /// The layers of the model are in training or in evaluation mode; neither: as
  /// the model was saved.
  bool trainLayers = false, evalLayers = false;
  /// `batch`, `local=G` or `frozen`; empty: as the model says.
  std::string batchNorm;
  /// A rate or `off`; empty: as the model says.
  std::string dropout;
  /// Patterns over modules and values through which no gradient passes.
  std::vector<std::string> detach;
  /// Patterns over parameters that are not trained, and over those that alone
  /// are.
  std::vector<std::string> freeze, trainOnly;
  /// True if copies of a tied matrix stay separate parameters.
  bool noTie = false;
  /// A file with the names of parameters that the export lost; empty: none.
  std::string params;
  /// True if the file may lack its weights.
  bool abstractWeights = false;
  int64_t threads = 1;
  /// NAME or NAME:MACHINE: what the plan is compiled for. Without MACHINE it
  /// is `cpu` or, for the target cuda, `gpuArch`; without `target` a CPU.
  std::string target, cpu = "native", gpuArch;
  std::string targetText() const {
    if (given.count("gpu-arch"))
      return target + ":" + gpuArch;
    return given.count("target") ? target : "cpu:" + cpu;
  }
  bool isForCuda() const {
    return target == "cuda" || target.starts_with("cuda:");
  }
  /// CUDA's assembler; empty: it is looked for; "none": there is none.
  std::string ptxas;
  lowering::AttentionKind attention = lowering::AttentionKind::Auto;
  /// True if devices take denormal numbers for zero.
  bool flushDenormals = true;
  /// AXIS=MICROSECONDS:GB_PER_S. With several machines the axis "machine" means
  /// all axes that cross machines.
  std::vector<std::string> links;
  /// How many machines are to share the ranks of the plan.
  int machines = 1;
  /// compute=GFLOPS,memory=GB_PER_S of a rank; empty: those of the machine
  /// file, or else the target's.
  std::string rates;
  /// A machine file (support/MachineFile.h); empty: none.
  std::string machine;
  /// import, training, propagate, partition or rank: prints MLIR after this
  /// stage of the compiler and stops.
  std::string stopAfter;
  std::string dumpDirectory;
  /// A folder that keeps the code of kernels; empty: that of the environment,
  /// POLYRANK_KERNEL_CACHE, or else none.
  std::string kernelCache;
  bool why = false;
  bool timing = false;
  bool quiet = false;
  /// True to describe the model instead of compiling it.
  bool describe = false;
  /// True to print a JSON object on standard output at the end.
  bool json = false;
  /// The names of the options that the user gave, whatever their values:
  /// `zero`.
  std::set<std::string> given;
};

/// Compiles. Messages go to standard error; MLIR (`stopAfter`), reasons (`why`)
/// or the report (`json`) to standard output. Returns the exit status: 0, or 1
/// if the user's input is wrong; then no plan is written.
int compile(const Options &options);

} // namespace polyrank::driver
