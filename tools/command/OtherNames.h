// Suggests our options for the names that other tools have for them.

#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank {

/// Returns the replacement of an option of torchrun, accelerate, DeepSpeed,
/// Megatron-LM or transformers, such as "; that is --microbatches of
/// polyrank-compile"; empty for any other name.
inline std::string explainOtherName(std::string_view option) {
  struct OtherName {
    std::vector<std::string_view> names;
    const char *here;
  };
  static const std::array<OtherName, 10> all{{
      {{"batch-size", "train-batch-size", "micro-batch-size",
        "per-device-train-batch-size"},
       "the batch is a size of the model's inputs: --dim or --input of "
       "polyrank-compile"},
      {{"gradient-accumulation-steps", "accumulate-grad-batches",
        "grad-accum-steps"},
       "that is --microbatches of polyrank-compile"},
      {{"learning-rate"},
       "that is --lr of polyrank-run, or lr in --optimizer of "
       "polyrank-compile"},
      {{"weight-decay", "momentum", "beta1", "beta2"},
       "that stands in --optimizer of polyrank-compile, as in "
       "'adamw(weight_decay=0.1)'"},
      {{"warmup-steps", "warmup", "lr-scheduler-type"},
       "that is --lr-schedule, as in 'cosine(warmup=100,total=1000)'"},
      {{"tp", "dp", "pp", "tensor-parallel-size", "pipeline-parallel-size",
        "data-parallel-size", "tensor-model-parallel-size",
        "pipeline-model-parallel-size", "nproc-per-node", "world-size"},
       "the ranks are axes of --mesh of polyrank-compile, as in "
       "data=2,tensor=2,pipe=2"},
      {{"fsdp", "zero-stage", "deepspeed"},
       "that is --zero of polyrank-compile"},
      {{"precision", "mixed-precision", "bf16", "fp16", "amp", "half", "dtype",
        "autocast"},
       "that is --precision of polyrank-compile, bf16 or fp16"},
      {{"device", "gpus", "gpu", "cuda"},
       "ranks run on the CPU of this machine"},
      {{"shuffle"}, "that is --order random of polyrank-run, the default"},
  }};
  std::string name(
      option.substr(std::min(option.find_first_not_of('-'), option.size())));
  std::replace(name.begin(), name.end(), '_', '-');
  for (const OtherName &each : all)
    if (std::find(each.names.begin(), each.names.end(), name) !=
        each.names.end())
      return std::string("; ") + each.here;
  return "";
}

} // namespace polyrank
