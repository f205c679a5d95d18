// The options of a session that follow from others and from the plan.

#include "runtime/session/SessionOptions.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/stat.h>

namespace polyrank::runtime {

Result<LoadedPlan> loadPlan(const SessionOptions &options, int descriptor) {
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

std::vector<FeedSource> SessionOptions::feeds() const {
  Result<std::vector<FeedSource>> found = findFeeds(data);
  return found ? *std::move(found) : std::vector<FeedSource>();
}

/// Checks the options of a run whose samples come from feeds, and that no
/// other samples do.
static Result<void> checkFeed(const SessionOptions &options, bool train) {
  for (const std::string &given : options.evalData)
    if (feedNameOf(given))
      return Error{fmt::format(
          "--eval-data {}: an evaluation takes the same samples each time, and "
          "a feed gives each once: give files",
          given)};
  POLYRANK_ASSIGN(feeds, findFeeds(options.data));
  if (feeds.empty())
    return {};
  std::string name = "--data " + feeds[0].name.given;
  if (!train)
    return Error{fmt::format(
        "{}: a forward plan takes each sample of files once; a feed is for "
        "training: write the samples to a .npz set",
        name)};
  struct Refused {
    bool isGiven;
    const char *what;
  };
  for (auto [isGiven, what] :
       {Refused{options.epochs > 0,
                "--epochs: a feed has no length; give --steps N, or let the "
                "feed end"},
        {options.holdout > 0,
         "--holdout: a feed has no last samples; give --eval-data FILE"},
        {options.given.contains("order"),
         "--order: a feed gives samples in its own order"},
        {!options.tokenType.empty() || options.documents.isAny(),
         "options about tokens and documents: a feed gives rows as they are"},
        {options.restarts > 0 && std::any_of(feeds.begin(), feeds.end(),
                                             [](const FeedSource &feed) {
                                               return !feed.name.isCommand();
                                             }),
         "--restarts: nobody starts the writer of a FIFO again; give "
         "command:.."}})
    if (isGiven)
      return Error{fmt::format("{} excludes {}", name, what)};
  return {};
}

Result<SessionOptions> completeOptions(SessionOptions options,
                                       const plan::Plan &plan) {
  bool train = plan.mode() == plan::Mode::Train;
  if (Result<RankRange> share = shareOf(options.place, int(Mesh(plan).ranks()),
                                        options.machines.wholePlan);
      !share)
    return share.error();
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
  if (Result<void> fits = checkFeed(options, train); !fits)
    return fits.error();
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
  if (options.steps == 0 && options.epochs == 0 && !options.hasFeeds() &&
      (train || !needsSamples))
    return Error{"give the number of steps: --steps N" +
                 std::string(needsSamples ? ", or of epochs: --epochs N" : "")};
  if (!train)
    options.order = SampleOrder::Sequential;
  return options;
}

Result<LearningRates> ratesOf(const SessionOptions &options,
                              const plan::Plan &plan) {
  return LearningRates::of(plan, options.learningRate, options.schedule);
}

Result<Links> linksOf(const SessionOptions &options, const plan::Plan &plan) {
  return Links::parse(Mesh(plan), options.links);
}

Result<std::optional<StepTimes>> timesOf(const SessionOptions &options,
                                         const LoadedPlan &plan) {
  if (options.rehearse.empty())
    return std::optional<StepTimes>();
  POLYRANK_ASSIGN(times, readTimes(options.rehearse, plan));
  return std::optional<StepTimes>(std::move(times));
}

} // namespace polyrank::runtime
