// The options of polyrank-compile about the model, the machine and what is
// printed.

#include "compiler/driver/OptionTable.h"

#include "llvm/ADT/STLExtras.h"

using namespace polyrank;
using namespace polyrank::driver;

std::function<std::string()>
polyrank::driver::unlessForward(const Options &options, std::string reason) {
  return [&options, reason] { return options.forward ? reason : ""; };
}

OptionGroup polyrank::driver::modelOptions(Options &options) {
  return {
      "What is compiled",
      {
          {"MODEL", "FILE", &options.model,
           "The exported model: ONNX, what torch.export.save writes (.pt2) or "
           "TorchScript (.pt). Floats of any width are computed in float32 "
           "(see --precision), integers narrower than 32 bits in int32"},
          {"-o,--output", "PLAN", &options.output, "Where to write the plan"},
          {"--mode", "MODE",
           choice(&options.forward, {{"train", false}, {"forward", true}}),
           "train, or forward: no loss is trained, and the outputs are "
           "written"},
          {"--input", "SPEC", &options.inputs,
           "Type and shape of an input, where the export leaves dims open: "
           "ids=int64[8,128]. The batch is one microbatch over all data ranks"},
          {"--dim", "SPEC", &options.dims,
           "NAME=SIZE: the size of a dim that the export left open under this "
           "name, in all inputs: batch=8"},
          {"--bind", "SPEC", &options.binds,
           "NAME=VALUE: the value that an input always has, a number, true, "
           "false or an array (FILE.npy), instead of one with each sample. It "
           "is a constant then, and decides control flow that depends on it. "
           "Repeatable"},
          {"--abstract-weights", "", &options.abstractWeights,
           "Compile a file without its weights (no external data, or weights "
           "left as inputs), to see layouts, memory and communication. Running "
           "it needs --init"},
          {"--params", "FILE", &options.params,
           "The state_dict of the exported model (safetensors): what an ONNX "
           "file holds of its tensors, or computed from them, is these "
           "parameters again, under their names"},
          {"--no-tie", "", &options.noTie,
           "Keep copies that the exporter made of a tied matrix apart: without "
           "this they are one parameter again"},
      }};
}

OptionGroup polyrank::driver::reportOptions(Options &options) {
  return {
      "What is said",
      {
          {"--describe", "", &options.describe,
           "Say what the model holds (inputs, parameters, ops, FLOPs, what is "
           "not supported) and print the command that compiles it; write "
           "nothing"},
          {"--why", "", &options.why,
           "Print each collective: what moves, from which layout to which, and "
           "which op and constraint forced it"},
          {"--timing", "", &options.timing,
           "Print the time of each pass at the end"},
          {"--json",
           "",
           &options.json,
           "Print one JSON object on standard output: messages, the time of "
           "each pass, checks, objective and bound, and what polyrank-inspect "
           "says of the plan. docs/reports.md has the fields",
           {.excludes = {"--stop-after"}}},
          {"-q,--quiet", "", &options.quiet, "Print warnings and errors only"},
          {"--stop-after", "STAGE",
           oneOfWords(&options.stopAfter,
                      {"import", "training", "propagate", "partition", "rank"}),
           "Print the MLIR after import, training, propagate, partition or "
           "rank, and stop"},
          {"--dump-passes", "DIR", &options.dumpDirectory,
           "Write the MLIR after each pass into this folder"},
      },
      /*isInCommand=*/false};
}

static constexpr const char *belongsToCuda =
    "it belongs to --target cuda; the target cpu has --cpu";

OptionGroup polyrank::driver::machineOptions(Options &options) {
  return {
      "Machine",
      {
          {"--threads",
           "N",
           &options.threads,
           "Threads of each rank",
           {.check = between(int64_t(1), int64_t(1024))}},
          {"--target", "TARGET", &options.target,
           "NAME or NAME:MACHINE: the devices that the plan is compiled for, "
           "cpu with the machines of --cpu (cpu:x86-64-v4) or cuda with those "
           "of --gpu-arch (cuda:sm_90a). Default: cpu:native"},
          {"--cpu",
           "CPU",
           &options.cpu,
           "The short form of --target cpu:CPU: native (this machine), "
           "x86-64-v3, x86-64-v4 or an LLVM CPU name",
           {.refuse =
                [&options] {
                  return options.isForCuda() ? "it belongs to the target cpu; "
                                               "--target cuda has --gpu-arch"
                                             : "";
                }}},
          {"--gpu-arch",
           "LIST",
           &options.gpuArch,
           "With --target cuda: the architectures of GPUs for which the plan "
           "has machine code, sm_80 or later. A GPU of another one compiles "
           "the plan's PTX. Default: sm_90a,sm_100a",
           {.refuse = [&options]() -> std::string {
             if (!options.isForCuda())
               return belongsToCuda;
             return options.target == "cuda"
                        ? ""
                        : "--target " + options.target +
                              " names architectures already; give one";
           }}},
          {"--ptxas",
           "FILE",
           &options.ptxas,
           "With --target cuda: CUDA's assembler. Without this it is looked "
           "for "
           "in PATH, in $CUDA_HOME/bin and in /usr/local/cuda/bin; if there is "
           "none, or with none, the plan has PTX alone",
           {.refuse =
                [&options] {
                  return options.isForCuda() ? "" : belongsToCuda;
                }}},
          {"--attention", "HOW",
           choice(&options.attention,
                  {{"auto", lowering::AttentionKind::Auto},
                   {"fused", lowering::AttentionKind::Fused},
                   {"parts", lowering::AttentionKind::Parts}}),
           "How attention is computed: fused by one library call, which needs "
           "no memory for queries x keys scores, parts by products and "
           "kernels, auto by what the target takes for faster"},
          {"--denormals", "MODE",
           choice(&options.flushDenormals, {{"flush", true}, {"keep", false}}),
           "What the ranks do with numbers below the least normal one, 1.2e-38 "
           "in float32: flush takes them for zero, keep computes with them, "
           "which can be many times slower"},
          {"--machine", "FILE", &options.machine,
           "What devices, nodes and the links between them reach, in TOML "
           "(docs/cost.md): rates by element type, memory, latency and "
           "bandwidth within a node and between nodes. --link and --rates "
           "override it. Default: 10 us and 10 GB/s along every axis, and the "
           "rates of a CPU of today"},
          {"--link", "SPEC", &options.links,
           "AXIS=MICROSECONDS:GB_PER_S: latency and bandwidth along an axis, "
           "for the choice of collectives and when they start. With --machines "
           "the axis machine stands for all axes that cross machines. "
           "Repeatable"},
          {"--machines",
           "N",
           &options.machines,
           "How many machines are to share the ranks (docs/machines.md): says "
           "at the end what crosses machines in a step, and --link "
           "machine=MICROSECONDS:GB_PER_S says how fast that is",
           {.check = between(int64_t(1), int64_t(1) << 20)}},
          {"--rates", "RATES", &options.rates,
           "compute=GFLOPS,memory=GB_PER_S: what a rank computes and reads "
           "from memory, for when communication starts; polyrank-run --profile "
           "measures it. Without this what a CPU of today reaches. bf16=GFLOPS "
           "and f16=GFLOPS state the rates of their products"},
      }};
}

/// Not of the printed command: the plan is the same with and without them.
static OptionGroup cacheOptions(Options &options) {
  return {"What is kept for other plans",
          {
              {"--kernel-cache",
               "DIR",
               &options.kernelCache,
               "Take compiled kernels from this folder where it has them, and "
               "keep the others there: a second plan of a model, with another "
               "mesh or batch, compiles faster. --timing says how many it had. "
               "The environment variable POLYRANK_KERNEL_CACHE may name the "
               "folder instead",
               {.excludes = {"--stop-after", "--describe"}}},
          },
          /*isInCommand=*/false};
}

OptionTable polyrank::driver::optionTable(Options &options) {
  OptionTable table{modelOptions(options)};
  llvm::append_range(table, options.strategy.options(options.forward));
  llvm::append_range(
      table, OptionTable{machineOptions(options), trainingOptions(options),
                         layerOptions(options), cacheOptions(options),
                         reportOptions(options)});
  return table;
}
