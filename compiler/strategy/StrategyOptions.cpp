// The options of a strategy: what each rank has and does, and when ranks
// communicate.

#include "compiler/strategy/Strategy.h"

#include "compiler/stage_order/Schedule.h"
#include "llvm/ADT/StringExtras.h"

using namespace polyrank;
using namespace polyrank::strategy;

static OptionGroup rankOptions(Strategy &strategy, const bool &isForward) {
  return {
      "Ranks",
      {
          {"--mesh", "AXES",
           TextField{[&strategy](const std::string &text) {
                       auto axes = parseMeshAxes(text);
                       if (axes)
                         strategy.mesh = *std::move(axes);
                       return axes ? "" : axes.error().message;
                     },
                     [&strategy] { return toString(strategy.mesh); }},
           "The devices, as named axes: data=2,tensor=2. An axis called data "
           "splits the batch. Without a mesh: one device"},
          {"--shard", "SPEC", &strategy.shards,
           "PATTERN=DIMS: how parameters, inputs or a module's output "
           "(out(SCOPE)) are laid out. DIMS has one entry per dim: - not "
           "split, ? as the compiler likes, axis or a+b split. Example: "
           "'*.c_fc.weight=[-,tensor]'"},
          {"--shard-file", "FILE", &strategy.shardFile,
           "A file with one PATTERN=DIMS a line (# comments)"},
          {"--batch-axes", "AXES", &strategy.batchAxes,
           "The axes of the mesh that split the batch of inputs that no "
           "--shard names: A+B; default: replica and data, where the mesh has "
           "them"},
          {"--microbatches",
           "M",
           &strategy.microbatches,
           "Microbatches whose gradients one step adds up",
           {.check = between(int64_t(1), int64_t(1) << 20)}},
          {"--recompute",
           "WHAT",
           &strategy.recompute,
           "What the backward computes again instead of keeping it: full (all "
           "but what enters a repeated block), selective (what takes few FLOPs "
           "for each byte), PATTERN[,PATTERN] (all but what enters these "
           "modules), or none",
           {.refuse =
                [&isForward] {
                  return isForward ? "a forward plan has no gradients" : "";
                }}},
          {"--recompute-gathers",
           "",
           &strategy.recomputeGathers,
           "With --recompute, communicate again too, instead of keeping what "
           "was received",
           {.needs = "--recompute"}},
      }};
}

static OptionGroup precisionOptions(Strategy &strategy, const bool &isForward) {
  return {
      "Precision",
      {
          {"--precision", "TYPE",
           oneOfWords(&strategy.precision, {"fp32", "bf16", "fp16"}),
           "The type of the operands of matrix products, convolutions and "
           "attention; their sums, norms, losses, the update and checkpoints "
           "are f32 (docs/precision.md)"},
          {"--fp32",
           "PATTERN[,PATTERN]",
           &strategy.fp32,
           "Modules that compute in f32 although --precision is bf16 or fp16, "
           "such as lm_head",
           {.needs = "--precision"}},
          {"--reduce-dtype",
           "TYPE",
           oneOfWords(&strategy.reduceDtype, {"fp32", "bf16", "fp16"}),
           "The type in which ranks send the gradients of parameters to add "
           "them up: fp32, or that of --precision, which halves the bytes. "
           "Each rank rounds its part once",
           {.refuse =
                [&isForward] {
                  return isForward ? "a forward plan has no gradients" : "";
                }}},
      }};
}

static OptionGroup stageOptions(Strategy &strategy) {
  return {
      "Pipeline stages",
      {
          {"--pipe-axis", "AXIS", &strategy.pipeAxis,
           "The axis of the mesh along which the model is cut into stages; "
           "default: an axis called pipe"},
          {"--stages", "auto|N", &strategy.stages,
           "How many stages the model is cut into: auto (default), or the size "
           "of the pipe axis times --chunks. Where it is cut is what takes the "
           "slowest stage the least time; docs/cutting.md"},
          {"--stage", "SPEC", &strategy.stagePatterns,
           "PATTERN=K: the modules or ops of that name are on stage K, and "
           "what is left is cut around them: 'transformer.h.[0-5].*=0'. "
           "Repeatable"},
          {"--chunks",
           "V",
           &strategy.chunks,
           "Stages of each rank of the pipe axis: the model is cut into as "
           "many times more. Default: 2 with --schedule interleaved and "
           "zero-bubble-v, else 1",
           {.check = between(int64_t(1), int64_t(4096))}},
          {"--schedule", "SCHEDULE", &strategy.schedule,
           "In which order ranks run their stages: " +
               llvm::join(stage_order::getScheduleNames(), ", ") +
               " or file:PATH. Default: interleaved with --chunks, else 1f1b; "
               "docs/schedules.md"},
      }};
}

static OptionGroup zeroOptions(Strategy &strategy, const bool &isForward) {
  return {
      "ZeRO",
      {
          {"--zero",
           "STAGE",
           &strategy.zero,
           "ZeRO stage: 1 splits each parameter's update and optimizer state "
           "over the ranks that have the same parameter, 2 also the sum of its "
           "gradients over microbatches, 3 the parameter too; 0 keeps them "
           "whole on each",
           {.check = between(int64_t(0), int64_t(3))}},
          {"--zero-axis",
           "A[+B]",
           &strategy.zeroAxes,
           "Split updates over these axes of the mesh; without this, over "
           "those along which ranks add up their gradients",
           {.refuse =
                [&strategy, &isForward] {
                  return isForward && strategy.zero < 3
                             ? "a forward plan has no gradients; --zero 3 "
                               "splits its parameters"
                             : "";
                }}},
          {"--zero-threshold",
           "N",
           &strategy.zeroThreshold,
           "A parameter of which a rank has fewer elements is updated whole: "
           "another collective would take longer",
           {.check = aboveZero()}},
          {"--zero-accumulate",
           "SUM",
           oneOfWords(&strategy.zeroAccumulate, {"parts", "full"}),
           "With --zero 2 or 3 and several microbatches: 'parts' reduces the "
           "gradients of each microbatch, and a rank adds up its part; 'full' "
           "adds up whole gradients and reduces them once",
           {.refuse = [&strategy, &isForward]() -> std::string {
             if (isForward)
               return "a forward plan has no gradients";
             return strategy.zero >= 2 ? ""
                                       : "needs --zero 2 or 3; --zero " +
                                             std::to_string(strategy.zero) +
                                             " adds up whole gradients";
           }}},
          {"--zero-gather",
           "WHEN",
           &strategy.zeroGather,
           "With --zero 3, when parameters are gathered: 'use', by the forward "
           "and again by the backward of each microbatch; 'step', once a step; "
           "'keep=PATTERN[,PATTERN]', these once a microbatch",
           {.refuse = [&strategy]() -> std::string {
             return strategy.zero >= 3 ? ""
                                       : "needs --zero 3; --zero " +
                                             std::to_string(strategy.zero) +
                                             " keeps parameters whole";
           }}},
      }};
}

static OptionGroup timeOptions(Strategy &strategy) {
  return {
      "Communication",
      {
          {"--bucket-mb", "MB", &strategy.bucketMegabytes,
           "Reductions of gradients and gathers of parameters are merged into "
           "buckets: auto chooses each by the times of the machine; a number "
           "is the most MiB of a bucket, fractions allowed; 0 keeps each "
           "apart. For some kinds alone: "
           "all-gather=50,reduce-scatter=25,all-reduce=25; first=1 is the "
           "first bucket of gradients, which is small so that its reduction "
           "starts early"},
          {"--overlap", "on|off",
           choice(&strategy.overlap, {{"on", true}, {"off", false}}),
           "on: communication is started as soon as it can be, and goes on "
           "while ranks compute; off: ranks wait for each of it at once. "
           "Results have the same bits"},
          {"--prefetch",
           "N",
           &strategy.prefetch,
           "With --zero 3, how many gathers of parameters are started ahead of "
           "the one in use: each takes the memory of what it gathers",
           {.check = between(int64_t(0), int64_t(1000)),
            .refuse =
                [&strategy] {
                  return strategy.overlap
                             ? ""
                             : "needs --overlap on; with --overlap "
                               "off nothing is started ahead";
                }}},
      }};
}

OptionTable Strategy::options(const bool &isForward) {
  return {rankOptions(*this, isForward), precisionOptions(*this, isForward),
          stageOptions(*this), zeroOptions(*this, isForward),
          timeOptions(*this)};
}
