// The command line, and the options that follow from it and from the plan.

#include "tools/polyrank-run/Options.h"

#include "runtime/exec/RankProgram.h"
#include "tools/Help.h"
#include "tools/command/OptionRows.h"
#include "tools/polyrank-run/DataOptions.h"
#include "tools/polyrank-run/OptionTable.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/stat.h>

namespace polyrank::runtime {

std::variant<RunOptions, int> parseOptions(int argc, char **argv) {
  RunOptions options;
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
  OptionTable table = optionTable(options);
  addOptions(app, table);
  app.get_option("PLAN")->required();
  // The files into which a shell expands an unquoted pattern follow --data.
  std::vector<std::string> more;
  app.add_option("more", more)->expected(-1)->group("");
  addConfigOptions(app);
  addDocumentOptions(app);
  app.footer("Example:\n"
             "  polyrank-run model.plan --data text.txt --steps 100 \\\n"
             "      --save trained.safetensors --log log.jsonl");
  try {
    app.parse(argc, argv);
    refuseEmptyPaths(app);
    refuseContradictions(app, table);
    takeFiles(app, options, more);
    writeConfigIfAsked(app);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  options.given = givenOptions(app);
  options.arguments = effectiveArguments(app, argv[0]);
  options.commandLine.assign(argv, argv + argc);
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
  if (options.denormals && *options.denormals != plan.denormals())
    return Error{fmt::format("--denormals {0}: the plan was compiled with "
                             "--denormals {1}; compile it again with "
                             "--denormals {0}",
                             EnumNameDenormals(*options.denormals),
                             EnumNameDenormals(plan.denormals()))};
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

/// Returns the error for a step in which `what` happened, with the NaN in the
/// data that it read.
static Error describeNotFinite(const RunOptions &options,
                               const plan::Plan &plan, uint64_t step,
                               const std::string &what, const DataSource *data,
                               uint64_t origin) {
  std::string place =
      data ? data->findNan(splitOf(options, plan), step - 1 - origin) : "";
  return Error{
      fmt::format("step {}: {}{}; {}, or go on with --allow-nan", step, what,
                  place.empty() ? "" : ", and so is what it reads: " + place,
                  place.empty() ? "lower the learning rate" : "mend the data"),
      Error::Fault::NotFinite};
}

std::optional<Error> findNotFinite(const RunOptions &options,
                                   const plan::Plan &plan,
                                   const StepReport &report,
                                   const DataSource *data, uint64_t origin) {
  if (!stopsAtNan(options, plan) || !report.lossIsNan())
    return std::nullopt;
  return describeNotFinite(options, plan, report.step, "the loss is NaN", data,
                           origin);
}

Error describeStuck(const RunOptions &options, const plan::Plan &plan,
                    uint64_t step, const std::string &where,
                    const DataSource *data, uint64_t origin) {
  return describeNotFinite(
      options, plan, step,
      where + " is not finite, and the loss scale is as small as it may be",
      data, origin);
}

} // namespace polyrank::runtime
