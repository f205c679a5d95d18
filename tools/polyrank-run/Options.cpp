// The command line, and the options that follow from it and from the plan.

#include "tools/polyrank-run/Options.h"

#include "runtime/exec/RankProgram.h"
#include "support/Bytes.h"
#include "tools/Help.h"
#include "tools/polyrank-run/DataOptions.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <sys/stat.h>

namespace polyrank::runtime {

std::variant<RunOptions, int> parseOptions(int argc, char **argv) {
  RunOptions options;
  std::string transport = "shm", denormals = "flush", binding, saveDtype,
              shardSize = "5GB";
  CLI::App app{
      "Runs a plan that polyrank-compile wrote: starts its ranks on this "
      "machine, trains (or runs forward), logs and saves.\n"
      "Today ranks are processes on the CPUs of one machine, and floats are "
      "float32; low precision, GPUs and several machines come later.\n"
      "Exit status: 0 done, 1 the input is wrong, 2 a rank failed or the run "
      "was interrupted, 3 no rank made progress, 4 ended by a signal and "
      "saved, 5 the "
      "disk was full or failed, 6 the loss or weights became NaN (nothing is "
      "saved).",
      "polyrank-run"};
  useHelpFormatter(app);
  app.add_option("PLAN", options.plan, "The plan file")
      ->required()
      ->type_name("FILE");
  DataOptionTexts dataTexts;
  auto *data = addDataOptions(app, options, dataTexts);
  auto *steps =
      app.add_option("--steps", options.steps,
                     "Steps to run (forward plans: default all samples once)")
          ->check(CLI::Range(uint64_t(1), uint64_t(1) << 40))
          ->type_name("N");
  app.get_option("--epochs")->excludes(steps);
  app.add_option("--lr", options.learningRate,
                 "The learning rate, instead of the one that the plan was "
                 "compiled with; groups that are relative to it follow")
      ->type_name("X");
  app.add_option("--lr-schedule", options.schedule,
                 "How it depends on the step, instead of the plan's: " +
                     scheduleNames() +
                     ", as in 'cosine(warmup=100,total=1000,min=1e-5)'. "
                     "docs/learning-rates.md has their options")
      ->type_name("SCHEDULE");
  app.add_option("--seed", options.seed,
                 "Seed of sampling and of the model's randomness (default 0)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 62))
      ->type_name("N");
  app.add_option("--init", options.init,
                 "Start from the weights in this safetensors file instead of "
                 "those in the model's file, or from those in a folder as "
                 "transformers' save_pretrained writes it")
      ->type_name("FILE|FOLDER");
  app.add_option("--save", options.save,
                 "Save the weights after the last step, as safetensors with "
                 "the model's names; into a folder that from_pretrained of "
                 "transformers loads, where the path ends in /")
      ->type_name("FILE|FOLDER/");
  app.add_option("--save-trained", options.saveTrained,
                 "Save the trained tensors alone, such as adapters beside "
                 "frozen weights")
      ->type_name("FILE|FOLDER/");
  app.add_option("--save-ema", options.saveEma,
                 "Save the weights with moving means in place of the trained "
                 "ones, of a plan compiled with --ema")
      ->type_name("FILE|FOLDER/");
  app.add_option("--save-dtype", saveDtype,
                 "The type of floats in saved weights: fp32 (default), bf16, "
                 "fp16, or file for that of each tensor in the model's file. "
                 "Checkpoints always have fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "file"}))
      ->type_name("TYPE");
  app.add_option("--save-shard-size", shardSize,
                 "How large the files in a folder of weights become at most, "
                 "as in 500MB or 2GiB (default 5GB); a tensor that is larger "
                 "has a file of its own")
      ->check(CLI::Validator(
          [](const std::string &given) {
            Result<uint64_t> bytes = parseBytes(given);
            return bytes ? std::string() : bytes.error().message;
          },
          ""))
      ->type_name("SIZE");
  addCheckpointOptions(app, options.checkpoints);
  app.add_option(
         "--log", options.log,
         "Write JSON lines: what was started, and per step loss and all "
         "metrics, learning rates, tokens per second, and the time of "
         "the slowest and the fastest rank (docs/reports.md)")
      ->type_name("FILE");
  app.add_option(
         "--tensorboard", options.tensorboard,
         "Write the same numbers to an event file in this folder, which "
         "TensorBoard shows")
      ->type_name("FOLDER");
  app.add_option("--profile", options.profile,
                 "Write where the time of a step goes on rank 0, by kernel, "
                 "product and collective, each with its floor on this machine, "
                 "to this file")
      ->type_name("FILE");
  app.add_option("--trace", options.trace,
                 "Write what ran when on all ranks, every command and every "
                 "collective in flight, to this file, as Perfetto and "
                 "chrome://tracing read it (docs/time.md)")
      ->type_name("FILE");
  auto *inputs = app.add_option("--inputs", options.inputs,
                                "Forward plans: a .npz set of inputs")
                     ->type_name("FILE");
  auto *outputs = app.add_option("--outputs", options.outputs,
                                 "Forward plans: write the outputs of all "
                                 "samples to this .npz file")
                      ->type_name("FILE");
  inputs->excludes(data);
  outputs->needs(inputs);
  app.add_option("--threads", options.threads,
                 "Threads per rank; a plan is compiled for a number of "
                 "threads, and another is an error")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option("--comm-threads", options.commThreads,
                 "Threads of each rank, up to 8 and beside those that compute, "
                 "that move and sum what is in flight meanwhile (default 0: "
                 "ranks do that when they wait). Needs free cores; changes no "
                 "bits")
      ->check(CLI::Range(0, 8))
      ->type_name("N");
  app.add_option("--bind-to,--bind", binding,
                 "Bind threads to cores that no other run has taken: core (one "
                 "to a thread; the default, where there are enough), numa "
                 "(ranks to memory nodes) or none")
      ->check(oneOf({"core", "numa", "none"}))
      ->type_name("WHAT");
  app.add_option("--transport", transport,
                 "How ranks communicate: shm (shared memory, one machine)")
      ->check(oneOf({"shm"}))
      ->type_name("NAME");
  app.add_option(
         "--link", options.links,
         "AXIS=MICROSECONDS:GB_PER_S: hold collectives along an axis "
         "back to a link of this latency and bandwidth, as "
         "polyrank-compile --link reckons with it: a run on one machine "
         "then takes as long as over such links. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("SPEC");
  app.add_option(
         "--rehearse", options.rehearse,
         "Compute nothing: sleep for as long as this file of times "
         "says that each command takes (polyrank-inspect PLAN --times "
         "FILE), and wait for collectives over --link. Shows how long a "
         "step of many ranks takes on few cores; there is no loss, and "
         "nothing is saved (docs/time.md)")
      ->type_name("FILE");
  app.add_option("--denormals", denormals,
                 "flush denormal numbers to zero (default) or keep them, "
                 "which can be many times slower")
      ->check(oneOf({"flush", "keep"}))
      ->type_name("MODE");
  app.add_option("--sha256", options.sha256,
                 "Run the plan only if its file has this SHA-256, as sha256sum "
                 "prints it")
      ->check(CLI::Validator(
          [](const std::string &given) -> std::string {
            if (given.size() == 64 &&
                given.find_first_not_of("0123456789abcdefABCDEF") ==
                    std::string::npos)
              return "";
            return "'" + given + "' is not 64 hex digits";
          },
          ""))
      ->type_name("HASH");
  app.add_option(
         "--timeout", options.timeout,
         "End the run when no rank has made progress for this many seconds: "
         "one is stopped, or goes round in circles (default 60, or as "
         "long as 20 steps take where that is longer, and 300 before "
         "the first step; 0: never)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("SECONDS");
  app.add_option(
         "--restarts", options.restarts,
         "When a rank fails or none gets on, start all again from the "
         "newest checkpoint, or from the start where there is none, up "
         "to this many times (default 0), after 1, 2, 4 .. 60 seconds. "
         "The weights are the same as without the failure. Wrong input, "
         "a full disk and a loss of NaN are no reason, nor is what "
         "fails in the same step twice")
      ->check(CLI::Range(0, 1000000))
      ->type_name("N");
  auto *check = app.add_flag(
      "--check", options.check,
      "Run nothing: say whether plan, CPU, cores, memory, weights, data and "
      "the "
      "files to write are all right, every byte and value read; exit status 1 "
      "where one is not");
  app.add_flag("--no-check", options.noCheck,
               "Start although the machine has less memory than the ranks need")
      ->excludes(check);
  app.add_flag("--json", options.json,
               "Print what the run did as one JSON object on standard output, "
               "and write --profile as JSON. docs/reports.md has the fields");
  app.add_flag("--allow-nan", options.allowNan,
               "Start although weights are NaN, and go on and save where the "
               "loss or weights become NaN");
  app.add_flag("-q,--quiet", options.quiet, "No progress and no summary");
  addConfigOptions(app);
  addDocumentOptions(app);
  group(app, "Samples",
        {"--data", "--token-type", "--documents", "--eos", "--mask-eos",
         "--reset-position-ids", "--pad-token", "--order", "--holdout",
         "--inputs"});
  group(app, "Steps",
        {"--steps", "--epochs", "--lr", "--lr-schedule", "--seed",
         "--allow-nan"});
  group(app, "Evaluation",
        {"--eval-every", "--eval-data", "--eval-plan", "--eval-ema",
         "--patience"});
  group(app, "Weights and outputs",
        {"--init", "--save", "--save-trained", "--save-ema", "--save-dtype",
         "--save-shard-size", "--outputs"});
  group(app, "Checkpoints",
        {"--checkpoint", "--every", "--keep", "--keep-best", "--resume",
         "--reset-optimizer", "--reset-data", "--restarts"});
  group(app, "Ranks",
        {"--threads", "--comm-threads", "--bind-to", "--transport",
         "--denormals", "--timeout", "--sha256", "--check", "--no-check",
         "--link", "--rehearse"});
  group(
      app, "Reports",
      {"--log", "--tensorboard", "--profile", "--trace", "--json", "--quiet"});
  group(app, "The command line",
        {"--config", "--write-config", "--completions", "--man"});
  app.footer("Example:\n"
             "  polyrank-run model.plan --data text.txt --steps 100 \\\n"
             "      --save trained.safetensors --log log.jsonl");
  app.get_option("--resume")->excludes(app.get_option("--init"));
  try {
    app.parse(argc, argv);
    refuseEmptyPaths(app);
    for (const char *option : {"--data",
                               "--token-type",
                               "--documents",
                               "--eos",
                               "--epochs",
                               "--eval-every",
                               "--lr",
                               "--lr-schedule",
                               "--order",
                               "--holdout",
                               "--seed",
                               "--init",
                               "--save",
                               "--save-trained",
                               "--save-ema",
                               "--save-dtype",
                               "--save-shard-size",
                               "--checkpoint",
                               "--resume",
                               "--profile",
                               "--inputs",
                               "--outputs",
                               "--denormals",
                               "--allow-nan"})
      if (app.count("--rehearse") && app.count(option))
        throw CLI::ValidationError(
            option, "--rehearse computes no values: it reads no samples and no "
                    "weights, has no loss and nothing to save; leave " +
                        std::string(option) +
                        " out, or run without "
                        "--rehearse");
    takeDataOptions(app, options, dataTexts);
    writeConfigIfAsked(app);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  options.given = givenOptions(app);
  options.arguments = effectiveArguments(app, argv[0]);
  options.commandLine.assign(argv, argv + argc);
  if (!saveDtype.empty())
    options.saveFloats = saveDtype == "bf16"   ? ElementType::BF16
                         : saveDtype == "fp16" ? ElementType::F16
                         : saveDtype == "file" ? ElementType::UNDEFINED
                                               : ElementType::F32;
  if (!binding.empty())
    options.binding = binding == "core"   ? Binding::Core
                      : binding == "numa" ? Binding::Numa
                                          : Binding::None;
  options.flushDenormals = denormals == "flush";
  options.saveShardBytes = *parseBytes(shardSize);
  for (char &digit : options.sha256)
    digit = static_cast<char>(std::tolower(static_cast<unsigned char>(digit)));
  return options;
}

Result<LoadedPlan> loadPlan(const RunOptions &options, int descriptor) {
  POLYRANK_ASSIGN(plan, loadPlan(descriptor, options.plan));
  if (!options.sha256.empty())
    if (std::string found = plan.bytes.sha256(); found != options.sha256)
      return Error{
          fmt::format("plan '{}' has SHA-256 {}, not {} (--sha256): it "
                      "is another plan, or was changed on its way",
                      options.plan, found, options.sha256)};
  return std::move(plan);
}

/// Returns true if any collective has a request.
static bool startsAny(const plan::Plan &plan) {
  for (const plan::Program *program : *plan.programs())
    for (const plan::Segment *segment : *program->segments())
      if (segment->commands())
        for (const plan::Command *command : *segment->commands())
          if (const plan::Collective *each = command->body_as_Collective())
            if (each->request())
              return true;
  return false;
}

Result<RunOptions> completeOptions(RunOptions options, const plan::Plan &plan) {
  bool train = plan.mode() == plan::Mode::Train;
  if (options.threads != 0 && uint32_t(options.threads) != plan.threads())
    return Error{fmt::format("--threads {}: the plan was compiled for {} "
                             "threads; compile it with --threads {}",
                             options.threads, plan.threads(), options.threads)};
  if (train && (!options.inputs.empty() || !options.outputs.empty()))
    return Error{"--inputs and --outputs are for forward plans, and this is a "
                 "training plan: give --data, or compile with --mode forward"};
  for (const SaveFile &save : options.saves()) {
    if (save.path.empty())
      continue;
    if (!train)
      return Error{fmt::format("{} is for training plans; a forward plan "
                               "changes no weights",
                               save.option)};
    std::vector<SavedTensor> saved = savedTensorsOf(plan, save.what);
    struct stat status;
    if (!save.path.ends_with('/') && stat(save.path.c_str(), &status) == 0 &&
        S_ISDIR(status.st_mode))
      return Error{
          fmt::format("{} '{}': is a folder; '{}/' saves the weights "
                      "into it, as safetensors that from_pretrained of "
                      "transformers loads",
                      save.option, save.path, save.path)};
    if (!save.what.state.empty() &&
        std::none_of(saved.begin(), saved.end(),
                     [](const SavedTensor &each) { return each.isState; }))
      return Error{fmt::format("{}: the plan keeps no moving means of its "
                               "weights; compile it with --ema DECAY",
                               save.option)};
  }
  for (auto [option, given] :
       {std::pair("--checkpoint", &options.checkpoints.folder),
        std::pair("--resume", &options.checkpoints.resume)})
    if (!train && !given->empty())
      return Error{fmt::format("{} is for training plans; a forward plan "
                               "changes no weights",
                               option)};
  if (options.checkpoints.everySeconds > 0 && options.steps >> 31)
    return Error{
        "--every with a time is for runs of less than 2^31 steps: give "
        "a number of steps"};
  if (options.commThreads != 0 && !startsAny(plan))
    return Error{fmt::format(
        "--comm-threads {}: no collective of this plan is in flight while its "
        "ranks compute, so these threads would have nothing to do; compile it "
        "with --overlap on and for more than one rank, or leave them out",
        options.commThreads)};
  if (Result<LearningRates> rates = ratesOf(options, plan); !rates)
    return rates.error();
  if (Result<Links> links = linksOf(options, plan); !links)
    return links.error();
  bool needsSamples = options.rehearse.empty() && !inputSpecsOf(plan).empty();
  if (needsSamples && options.samples().empty())
    return Error{train ? "the plan needs samples: give --data FILE"
                       : "the plan needs samples: give --inputs IN.npz or "
                         "--data FILE"};
  if (options.evalEvery != 0 && !train)
    return Error{"--eval-every is for training plans; a forward plan evaluates "
                 "all samples"};
  if (options.epochs > 0 && !train)
    return Error{"--epochs is for training plans; a forward plan takes all "
                 "samples once"};
  if (options.epochs > 0 && !needsSamples)
    return Error{"--epochs: the plan reads no samples; give --steps N"};
  if (options.steps == 0 && options.epochs == 0 && (train || !needsSamples))
    return Error{"give the number of steps: --steps N" +
                 std::string(needsSamples ? ", or of epochs: --epochs N" : "")};
  if (!train)
    options.order = SampleOrder::Sequential;
  return options;
}

Result<LearningRates> ratesOf(const RunOptions &options,
                              const plan::Plan &plan) {
  return LearningRates::of(plan, options.learningRate, options.schedule);
}

Result<Links> linksOf(const RunOptions &options, const plan::Plan &plan) {
  return Links::parse(Mesh(plan), options.links);
}

Result<std::optional<StepTimes>> timesOf(const RunOptions &options,
                                         const LoadedPlan &plan) {
  if (options.rehearse.empty())
    return std::optional<StepTimes>();
  POLYRANK_ASSIGN(times, readTimes(options.rehearse, plan));
  return std::optional<StepTimes>(std::move(times));
}

bool stopsAtNan(const RunOptions &options, const plan::Plan &plan) {
  return plan.mode() == plan::Mode::Train && !options.allowNan;
}

std::optional<Error> findNotFinite(const RunOptions &options,
                                   const plan::Plan &plan,
                                   const StepReport &report,
                                   const DataSource *data, uint64_t origin) {
  if (!stopsAtNan(options, plan) || !report.lossIsNan())
    return std::nullopt;
  std::string place =
      data ? data->findNan(splitOf(options, plan), report.step - 1 - origin)
           : "";
  return Error{
      fmt::format("step {}: the loss is NaN{}; {}, or go on with --allow-nan",
                  report.step,
                  place.empty() ? "" : ", and so is what it reads: " + place,
                  place.empty() ? "lower the learning rate" : "mend the data"),
      Error::Fault::NotFinite};
}

} // namespace polyrank::runtime
