// What several machines must have in common to share the ranks of a plan.

#include "runtime/session/SharedPlan.h"

#include "support/Fingerprint.h"
#include "support/RankShare.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace polyrank::runtime {
namespace {

/// An option that ranks of several machines cannot serve.
struct Refusal {
  bool isGiven;
  std::string option, instead;
};

uint64_t digestOfAll(const std::vector<uint64_t> &words) {
  return polyrank::digestOf(
      std::string_view(reinterpret_cast<const char *>(words.data()),
                       words.size() * sizeof(uint64_t)));
}

/// The digest of all bytes of the files from which the weights are read. Their
/// names do not count.
Result<std::string> digestOfInit(const Prepared &run) {
  if (run.options.init.empty() || !run.weights)
    return std::string("none");
  std::vector<uint64_t> words;
  for (const std::string &path : run.weights->files()) {
    POLYRANK_ASSIGN(file, InputFile::open(path));
    POLYRANK_ASSIGN(digests, digestsOf(file, 0, file.size()));
    words.push_back(file.size());
    words.insert(words.end(), digests.begin(), digests.end());
  }
  return fmt::format("{:016x}", digestOfAll(words));
}

} // namespace

Result<std::string>
describeWithDigest(const std::optional<FoundCheckpoint> &checkpoint) {
  if (!checkpoint)
    return std::string("none");
  POLYRANK_ASSIGN(file, InputFile::open(checkpoint->path + "/" + manifestName));
  POLYRANK_ASSIGN(digests, digestsOf(file, 0, file.size()));
  return fmt::format("step {} ({:016x})", checkpoint->manifest.step,
                     digestOfAll(digests));
}

Result<void> checkShared(const Prepared &run) {
  if (!run.isShared())
    return {};
  const SessionOptions &options = run.options;
  for (const auto &[isGiven, option, instead] : {
           Refusal{options.hasFeeds(), describe(options.feeds()),
                   "a feed gives its samples to the ranks of one machine; let "
                   "it write them to files that all machines read"},
           {!options.evalPlan.empty(), "--eval-plan",
            "weights get to another plan on one machine alone; evaluate what "
            "--save or --checkpoint has written"},
           {!options.rehearse.empty(), "--rehearse",
            "it rehearses the ranks of one machine; leave out --machines"},
           {options.checkpoints.everySeconds > 0, "--every with a time",
            "machines agree on steps, not on times; give a number of steps"},
           {options.commThreads > 0, "--comm-threads",
            "between machines each rank has a thread for the wire already"},
       })
    if (isGiven)
      return Error{fmt::format(
          "the ranks of the plan are shared out over {} machines, which "
          "excludes {}: {}",
          options.place.machines, option, instead)};
  return {};
}

Result<void> checkPlansIf(const Prepared &run) {
  for (const auto &[machines, path] : run.options.machines.plansIf) {
    std::string option = fmt::format("--plan-if {}={}", machines, path);
    Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
      return Error{fmt::format("{}: cannot open the plan: {}", option,
                               std::strerror(errno))};
    POLYRANK_ASSIGN(loaded, loadPlan(file.get(), path));
    const plan::Plan &plan = *loaded.plan;
    if (auto each = ranksOfEach("plan", Mesh(plan).ranks(), machines); !each)
      return Error{option + ": " + each.error().message};
    uint64_t mine = run.plan->plan->samples_per_step(),
             its = plan.samples_per_step();
    if (its != mine)
      return Error{fmt::format("{}: the plan takes {} samples per step, and {} "
                               "takes {}: compile it for as many",
                               option, its, run.options.plan, mine)};
  }
  return {};
}

Result<std::string> settingsOf(const Prepared &run) {
  const SessionOptions &options = run.options;
  POLYRANK_ASSIGN(init, digestOfInit(run));
  std::string fewer;
  for (const auto &[machines, path] : options.machines.plansIf)
    fewer += fmt::format("{}{}", fewer.empty() ? "" : " ", machines);
  std::vector<std::pair<std::string, std::string>> all{
      {"steps", fmt::format("{}", run.steps)},
      {"seed", fmt::format("{}", options.seed)},
      {"weights of --init", init},
      {"lr", options.learningRate ? fmt::format("{}", *options.learningRate)
                                  : "the plan's"},
      {"schedule", options.schedule},
      {"links", fmt::format("{}", fmt::join(options.links, " "))},
      {"order", options.order == SampleOrder::Random ? "random" : "sequential"},
      {"eval-every", fmt::format("{}", options.evalEvery)},
      {"patience", fmt::format("{}", options.patience)},
      {"allow-nan", options.allowNan ? "yes" : "no"},
      {"checkpoints", options.checkpoints.folder.empty() ? "no" : "yes"},
      {"every", fmt::format("{}", options.checkpoints.everySteps)},
      {"restarts", fmt::format("{}", options.restarts)},
      {"plans for fewer machines", fewer},
      {"reset-optimizer", options.checkpoints.resetOptimizer ? "yes" : "no"},
      {"reset-data", options.checkpoints.resetData ? "yes" : "no"},
      {"outputs", options.outputs.empty() ? "no" : "yes"},
      {"trace", options.trace.empty() ? "no" : "yes"},
      {"profile", options.profile.empty() ? "no" : "yes"},
      {"times of ranks", options.measuresRanks() ? "yes" : "no"},
      {"wire-check", options.machines.checksWire ? "on" : "off"},
      {"wire", nameOf(options.machines.wire)},
      {"save-dtype", fmt::format("{}", int(options.saveFloats))},
      {"save-shard-size", options.saveShardSize}};
  for (const SaveFile &save : options.saves())
    all.emplace_back(save.option + 2, save.path.empty()          ? "no"
                                      : save.path.ends_with('/') ? "a folder"
                                                                 : "a file");
  std::vector<std::string> parts;
  for (auto &[name, value] : all) {
    std::replace(value.begin(), value.end(), ',', ';');
    parts.push_back(name + "=" + value);
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

Result<std::string> dataOf(const Prepared &run) {
  std::string text;
  if (run.data) {
    POLYRANK_ASSIGN(fingerprint, fingerprintOf(*run.data, *run.plan->plan));
    text = fingerprint;
  }
  if (run.evaluation && !run.options.evalData.empty()) {
    POLYRANK_ASSIGN(fingerprint,
                    fingerprintOf(*run.evaluation->data,
                                  run.evaluation->planOr(*run.plan)));
    text += " and, of what is evaluated, " + fingerprint;
  }
  return text;
}

} // namespace polyrank::runtime
