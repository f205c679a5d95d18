// The options of polyrank-run about steps, weights, ranks and reports.

#include "tools/polyrank-run/OptionTable.h"

#include "runtime/launch/LocalSocket.h"
#include "support/Bytes.h"
#include "support/LearningRate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/ranges.h>
#include <string_view>

namespace polyrank::runtime {
namespace {

std::string checkBytes(const std::string &text) {
  Result<uint64_t> bytes = parseBytes(text);
  return bytes ? "" : bytes.error().message;
}

/// Returns why an option cannot be given to a guest, which has those of its
/// run; empty if none is.
std::string findOptionsOfRuns(const RunOptions &options) {
  constexpr std::array<std::string_view, 6> own{"guest-of", "rank",  "sha256",
                                                "timeout",  "quiet", "config"};
  for (const std::string &name : options.given)
    if (std::find(own.begin(), own.end(), name) == own.end())
      return fmt::format("a guest has the options of its run: give --{} to the "
                         "polyrank-run that has --guests {}",
                         name, options.guestOf);
  return "";
}

/// A SHA-256, in small letters.
TextField hashField(std::string *field) {
  return {[=](const std::string &text) -> std::string {
            constexpr size_t digits = 64;
            if (text.size() != digits ||
                text.find_first_not_of("0123456789abcdefABCDEF") != text.npos)
              return "'" + text + "' is not 64 hex digits";
            *field = text;
            for (char &digit : *field)
              digit = static_cast<char>(
                  std::tolower(static_cast<unsigned char>(digit)));
            return "";
          },
          [=] { return *field; }};
}

} // namespace

std::function<std::string()> unlessRehearsal(const RunOptions &options) {
  return [&options] {
    return options.rehearse.empty()
               ? ""
               : "--rehearse computes no values: it reads no samples and no "
                 "weights, has no loss and nothing to save; leave this option "
                 "out, or run without --rehearse";
  };
}

OptionGroup stepOptions(RunOptions &options) {
  auto refuse = unlessRehearsal(options);
  return {
      "Steps",
      {
          {"--steps",
           "N",
           &options.steps,
           "Steps to run (forward plans: default all samples once)",
           {.check = between(int64_t(1), int64_t(1) << 40)}},
          {"--epochs",
           "N",
           &options.epochs,
           "Instead of --steps: how often to go through the samples, as many "
           "whole batches as that takes",
           {.check = between(1e-6, 1e9),
            .excludes = {"--steps"},
            .refuse = refuse}},
          {"--lr",
           "X",
           &options.learningRate,
           "The learning rate, instead of the one that the plan was compiled "
           "with; groups that are relative to it follow",
           {.refuse = refuse}},
          {"--lr-schedule",
           "SCHEDULE",
           &options.schedule,
           fmt::format("How it depends on the step, instead of the plan's: {}; "
                       "as in 'cosine(warmup=100,total=1000,min=1e-5)'. "
                       "docs/learning-rates.md has their options",
                       fmt::join(LearningRateSchedule::getNames(), ", ")),
           {.refuse = refuse}},
          {"--seed",
           "N",
           &options.seed,
           "Seed of sampling and of the model's randomness (default 0)",
           {.check = between(int64_t(0), int64_t(1) << 62), .refuse = refuse}},
          {"--allow-nan",
           "",
           &options.allowNan,
           "Start although weights are NaN, and go on and save where the loss "
           "or weights become NaN",
           {.refuse = refuse}},
      }};
}

OptionGroup weightOptions(RunOptions &options) {
  auto refuse = unlessRehearsal(options);
  return {
      "Weights and outputs",
      {
          {"--init",
           "FILE|FOLDER",
           &options.init,
           "Start from the weights in this safetensors file instead of those "
           "in the model's file, or from those in a folder as transformers' "
           "save_pretrained writes it",
           {.refuse = refuse}},
          {"--save",
           "FILE|FOLDER/",
           &options.save,
           "Save the weights after the last step, as safetensors with the "
           "model's names; into a folder that from_pretrained of transformers "
           "loads, where the path ends in /",
           {.refuse = refuse}},
          {"--save-trained",
           "FILE|FOLDER/",
           &options.saveTrained,
           "Save the trained tensors alone, such as adapters beside frozen "
           "weights",
           {.refuse = refuse}},
          {"--save-ema",
           "FILE|FOLDER/",
           &options.saveEma,
           "Save the weights with moving means in place of the trained ones, "
           "of a plan compiled with --ema",
           {.refuse = refuse}},
          {"--save-dtype",
           "TYPE",
           choice(&options.saveFloats, {{"fp32", ElementType::F32},
                                        {"bf16", ElementType::BF16},
                                        {"fp16", ElementType::F16},
                                        {"file", ElementType::UNDEFINED}}),
           "The type of floats in saved weights, or file for that of each "
           "tensor in the model's file. Checkpoints always have fp32",
           {.refuse = refuse}},
          {"--save-shard-size",
           "SIZE",
           &options.saveShardSize,
           "How large the files in a folder of weights become at most, as in "
           "500MB or 2GiB; a tensor that is larger has a file of its own",
           {.check = checkBytes, .refuse = refuse}},
          {"--outputs",
           "FILE",
           &options.outputs,
           "Forward plans: write the outputs of all samples to this .npz file",
           {.needs = "--inputs", .refuse = refuse}},
      }};
}

OptionGroup rankOptions(RunOptions &options) {
  using MaybeBinding = std::optional<Binding>;
  using MaybeDenormals = std::optional<plan::Denormals>;
  return {
      "Ranks",
      {
          {"--threads",
           "N",
           &options.threads,
           "Threads per rank; a plan is compiled for a number of threads, and "
           "another is an error. With --calibrate those of each device, by "
           "default 1",
           {.check = between(int64_t(1), int64_t(4096))}},
          {"--comm-threads",
           "N",
           &options.commThreads,
           "Threads of each rank, up to 8 and beside those that compute, that "
           "move and sum what is in flight meanwhile (default 0: ranks do that "
           "when they wait). Needs free cores; changes no bits",
           {.check = between(int64_t(0), int64_t(8))}},
          {"--bind-to,--bind", "WHAT",
           choice(&options.binding, {{"core", MaybeBinding(Binding::Core)},
                                     {"numa", MaybeBinding(Binding::Numa)},
                                     {"none", MaybeBinding(Binding::None)}}),
           "Bind threads to cores that no other run has taken: core (one to a "
           "thread; the default, where there are enough), numa (ranks to "
           "memory nodes) or none"},
          {"--guests",
           "NAME",
           &options.guests,
           "Start no ranks, but wait for each to be started on this machine by "
           "somebody else, with --guest-of NAME. No other run on the machine "
           "has this name (docs/operating.md)",
           {.check = checkJobName,
            .refuse =
                [&options] {
                  return options.restarts == 0
                             ? ""
                             : "--restarts starts ranks again, and guests are "
                               "started by somebody else: leave it out, and "
                               "let whoever starts them start all again with "
                               "--resume auto";
                }}},
          {"--guest-of",
           "NAME",
           &options.guestOf,
           "Be one of the ranks of the run that has --guests NAME, with its "
           "options. PLAN and --sha256 may be given, and the run must then "
           "have that plan; --timeout says how long to wait for the run to "
           "begin",
           {.check = checkJobName,
            .needs = "--rank",
            .excludes = {"--guests"},
            .refuse = [&options] { return findOptionsOfRuns(options); }}},
          {"--rank",
           "I",
           &options.rank,
           "Which rank of that run to be, counted from 0",
           {.check = between(int64_t(0), int64_t(65535)),
            .needs = "--guest-of"}},
          {"--transport", "NAME", oneOfWords(&options.transport, {"shm"}),
           "How ranks communicate: shm (shared memory, one machine)"},
          {"--denormals",
           "MODE",
           choice(&options.denormals,
                  {{"flush", MaybeDenormals(plan::Denormals::flush)},
                   {"keep", MaybeDenormals(plan::Denormals::keep)}}),
           "flush or keep: what becomes of denormal numbers. A plan is "
           "compiled for one of them (polyrank-compile --denormals), and "
           "another is an error",
           {.refuse = unlessRehearsal(options)}},
          {"--timeout",
           "SECONDS",
           &options.timeout,
           "End the run when no rank has made progress for this many seconds: "
           "one is stopped, or goes round in circles (default 60, or as long "
           "as 20 steps take where that is longer, and 300 before the first "
           "step; 0: never)",
           {.check = between(0.0, 1e9)}},
          {"--sha256", "HASH", hashField(&options.sha256),
           "Run the plan only if its file has this SHA-256, as sha256sum "
           "prints it"},
          {"--check", "", &options.check,
           "Run nothing: say whether plan, CPU, cores, memory, weights, data "
           "and the files to write are all right, every byte and value read; "
           "exit status 1 where one is not"},
          {"--no-check",
           "",
           &options.noCheck,
           "Start although the machine has less memory than the ranks need",
           {.excludes = {"--check"}}},
          {"--link", "SPEC", &options.links,
           "AXIS=MICROSECONDS:GB_PER_S: hold collectives along an axis back to "
           "a link of this latency and bandwidth, as polyrank-compile --link "
           "reckons with it: a run on one machine then takes as long as over "
           "such links. Repeatable"},
          {"--rehearse", "FILE", &options.rehearse,
           "Compute nothing: sleep for as long as this file of times says that "
           "each command takes (polyrank-inspect PLAN --times FILE), and wait "
           "for collectives over --link. Shows how long a step of many ranks "
           "takes on few cores; there is no loss, and nothing is saved "
           "(docs/time.md)"},
      }};
}

OptionGroup reportOptions(RunOptions &options) {
  return {
      "Reports",
      {
          {"--log", "FILE", &options.log,
           "Write JSON lines: what was started, and per step loss and all "
           "metrics, learning rates, tokens per second, and the time of the "
           "slowest and the fastest rank (docs/reports.md)"},
          {"--tensorboard", "FOLDER", &options.tensorboard,
           "Write the same numbers to an event file in this folder, which "
           "TensorBoard shows"},
          {"--profile",
           "FILE",
           &options.profile,
           "Write where the time of a step goes on rank 0, by kernel, product "
           "and collective, each with its floor on this machine, to this file",
           {.refuse = unlessRehearsal(options)}},
          {"--trace", "FILE", &options.trace,
           "Write what ran when on all ranks, every command and every "
           "collective in flight, to this file, as Perfetto and "
           "chrome://tracing read it (docs/time.md)"},
          {"--json", "", &options.json,
           "Print what the run did as one JSON object on standard output, and "
           "write --profile as JSON. docs/reports.md has the fields"},
          {"-q,--quiet", "", &options.quiet, "No progress and no summary"},
      }};
}

OptionTable optionTable(RunOptions &options) {
  return {{"Arguments", {{"PLAN", "FILE", &options.plan, "The plan file"}}},
          sampleOptions(options),
          stepOptions(options),
          evaluationOptions(options),
          weightOptions(options),
          checkpointOptions(options),
          rankOptions(options),
          machineOptions(options),
          reportOptions(options),
          calibrationOptions(options)};
}

} // namespace polyrank::runtime
