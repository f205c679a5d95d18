// From a model file to a plan: the whole way through, in its one order.

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace polyrank::driver {

/// What the user asked for, in the user's words; each field is one option of
/// polyrank-compile.
struct Options {
  std::string model;
  std::string output;
  /// `data=2,tensor=2`; empty: one device.
  std::string mesh;
  std::vector<std::string> inputs;
  /// NAME=SIZE: a dim that the export left open, in all inputs.
  std::vector<std::string> dims;
  /// NAME=VALUE of inputs that are known now.
  std::vector<std::string> binds;
  std::vector<std::string> shards;
  std::string shardFile;
  /// The axis of the mesh along which the stages of a pipeline lie; empty:
  /// `pipe`, where the mesh has it.
  std::string pipeAxis;
  /// How many stages: empty or `auto`, or as many as the axis and the chunks
  /// make.
  std::string stages;
  /// PATTERN=K: what is on stage K.
  std::vector<std::string> stagePatterns;
  /// Stages of each rank; 0: as many as the schedule needs.
  int64_t chunks = 0;
  /// In which order ranks run their stages; empty: `1f1b`, with chunks
  /// `interleaved`.
  std::string schedule;
  bool forward = false;
  std::string loss;
  /// What is logged beside the loss.
  std::vector<std::string> metrics;
  std::string optimizer =
      "adamw(lr=1e-3,betas=(0.9,0.999),eps=1e-8,weight_decay=0.01)";
  /// How the learning rate depends on the step; empty: not at all.
  std::string lrSchedule;
  /// `PATTERN: KEY=VALUE, ..`: other options of the optimizer for some
  /// parameters.
  std::vector<std::string> groups;
  /// The largest norm of all gradients, of type `2` or `inf`, and the largest
  /// element; 0: any.
  double clipNorm = 0;
  std::string clipNormType = "2";
  double clipValue = 0;
  /// The decay of moving means of the parameters; 0: none are kept.
  double ema = 0;
  int64_t microbatches = 1;
  /// The mode of the model's layers, `train` or `eval`; empty: as saved.
  std::string layerMode;
  /// `batch`, `local=G` or `frozen`; empty: as the model says.
  std::string batchNorm;
  /// A rate or `off`; empty: as the model says.
  std::string dropout;
  /// Patterns over modules and values through which no gradient passes.
  std::vector<std::string> detach;
  /// Patterns over parameters that are not trained, or that alone are.
  std::vector<std::string> freeze, trainOnly;
  /// Copies of a tied matrix stay parameters of their own.
  bool noTie = false;
  /// A file with the names of parameters that the export lost; empty: none.
  std::string params;
  /// The file may lack its weights.
  bool abstractWeights = false;
  /// As sharding::parseBucketSizes reads them.
  std::string bucketMegabytes = "25";
  /// ZeRO stage: 1 splits updates and optimizer state over the devices that
  /// would all do the same, for parameters of at least `zeroThreshold`
  /// elements, 2 sums of gradients too, 3 also parameters.
  int64_t zero = 1;
  /// `A+B`: over which axes, instead of those over which gradients are sums.
  std::string zeroAxes;
  /// "none", "full", "selective", or globs over modules.
  std::string recompute = "none";
  bool recomputeGathers = false;
  /// What splits the batch: "a+b"; by default `replica` and `data`.
  std::string batchAxes;
  int64_t zeroThreshold = 65536;
  /// Stages 2 and 3: `parts`, or `full` to reduce once a step.
  std::string zeroAccumulate = "parts";
  /// Stage 3: `use`, `step` or `keep=PATTERN[,PATTERN]`.
  std::string zeroGather = "use";
  /// Collectives are started early and waited for late; gathers of parameters
  /// so many ahead of the one in use.
  bool overlap = true;
  int64_t prefetch = 1;
  int64_t threads = 1;
  std::string cpu = "native";
  /// AXIS=MICROSECONDS:GB_PER_S.
  std::vector<std::string> links;
  /// GFLOPS:GB_PER_S of a rank; empty: what the target says.
  std::string rates;
  /// import, training, propagate, partition or rank: print MLIR and stop.
  std::string stopAfter;
  std::string dumpDirectory;
  bool why = false;
  bool timing = false;
  bool quiet = false;
  /// Say what the model holds, and compile nothing.
  bool describe = false;
  /// Print a JSON object on standard output at the end.
  bool json = false;
  /// The options that the user gave, whatever their values: `zero`.
  std::set<std::string> given;
};

/// Compiles. Messages go to standard error; MLIR (`stopAfter`), reasons (`why`)
/// or the report (`json`) to standard output. Returns the exit status: 0, or 1
/// where the user's input is wrong; the plan is then not written.
int compile(const Options &options);

} // namespace polyrank::driver
