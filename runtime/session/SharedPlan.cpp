// What several machines must have in common to share the ranks of a plan.

#include "runtime/session/SharedPlan.h"

#include "support/Fingerprint.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

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

/// Step and digest of the checkpoint's manifest, which has the checksums of all
/// its files.
Result<std::string> digestOfResumed(const Prepared &run) {
  if (!run.resumed)
    return std::string("none");
  POLYRANK_ASSIGN(file,
                  InputFile::open(run.resumed->path + "/" + manifestName));
  POLYRANK_ASSIGN(digests, digestsOf(file, 0, file.size()));
  return fmt::format("step {} ({:016x})", run.stepsBefore(),
                     digestOfAll(digests));
}

/// A file that a machine makes in a folder, until this object ends.
class Mark {
public:
  Mark(const std::string &folder, int machine, uint64_t incarnation)
      : path(nameOf(folder, machine, incarnation)) {}
  Mark(const Mark &) = delete;
  ~Mark() { unlink(path.c_str()); }

  static std::string nameOf(const std::string &folder, int machine,
                            uint64_t incarnation) {
    return fmt::format("{}/.machine-{}-{:016x}", folder, machine, incarnation);
  }
  bool make() const {
    return Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600))
               .get() >= 0;
  }

private:
  std::string path;
};

/// The machines whose marks are not found within two seconds: a network's file
/// system may show them late.
std::vector<int> missingMarks(const std::string &folder, int machines,
                              uint64_t incarnation) {
  using namespace std::chrono_literals;
  std::vector<int> missing;
  for (auto end = std::chrono::steady_clock::now() + 2s;;
       std::this_thread::sleep_for(20ms)) {
    missing.clear();
    for (int machine = 0; machine < machines; ++machine)
      if (std::ifstream file(Mark::nameOf(folder, machine, incarnation)); !file)
        missing.push_back(machine);
    if (missing.empty() || std::chrono::steady_clock::now() >= end)
      return missing;
  }
}

} // namespace

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

Result<std::string> settingsOf(const Prepared &run) {
  const SessionOptions &options = run.options;
  POLYRANK_ASSIGN(init, digestOfInit(run));
  POLYRANK_ASSIGN(resumed, digestOfResumed(run));
  std::vector<std::pair<std::string, std::string>> all{
      {"steps", fmt::format("{}", run.steps)},
      {"seed", fmt::format("{}", options.seed)},
      {"weights of --init", init},
      {"the checkpoint to resume from", resumed},
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
      {"reset-optimizer", options.checkpoints.resetOptimizer ? "yes" : "no"},
      {"reset-data", options.checkpoints.resetData ? "yes" : "no"},
      {"outputs", options.outputs.empty() ? "no" : "yes"},
      {"trace", options.trace.empty() ? "no" : "yes"},
      {"profile", options.profile.empty() ? "no" : "yes"},
      {"times of ranks", options.measuresRanks() ? "yes" : "no"},
      {"wire-check", options.machines.checksWire ? "on" : "off"},
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

Result<void> checkFolderIsShared(const Prepared &run, OtherMachines &others,
                                 const std::function<bool()> &isInterrupted) {
  const std::string &folder = run.options.checkpoints.folder;
  if (!run.isShared() || folder.empty())
    return {};
  // Where the folder does not exist yet, machine 0 has made it.
  Mark mark(folder, others.machine(), others.incarnation());
  bool isMade = mark.make();
  POLYRANK_ASSIGN(made, others.exchange(isMade ? "yes" : "no", isInterrupted));
  std::vector<int> missing =
      missingMarks(folder, others.machines(), others.incarnation());
  // Nobody removes its mark before all have looked.
  POLYRANK_ASSIGN(
      found, others.exchange(missing.empty() ? "yes" : "no", isInterrupted));
  std::vector<std::string> blind;
  for (int machine = 0; machine < others.machines(); ++machine)
    if (made[size_t(machine)] != "yes" ||
        (found[size_t(machine)] != "yes" && machine > 0))
      blind.push_back(others.describe(machine));
  if (blind.empty() && found[0] == "yes")
    return {};
  return Error{fmt::format(
      "--checkpoint {}: {} does not see there what the other machines write, "
      "or cannot write there: all machines write one checkpoint together, so "
      "give a folder of a file system that all have under this name",
      folder, fmt::join(blind, ", "))};
}

} // namespace polyrank::runtime
