// The folder of checkpoints, and the checkpoint from which all begin.

#include "runtime/session/SharedStart.h"

#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/session/Resume.h"
#include "runtime/session/SharedPlan.h"

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

using namespace std::chrono_literals;
using Interrupted = std::function<bool()>;

/// A network's file system may show late what another machine has written.
constexpr auto mostDelay = 2s;
constexpr auto pause = 20ms;

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

/// The machines whose marks are not found.
std::vector<int> missingMarks(const std::string &folder, int machines,
                              uint64_t incarnation) {
  std::vector<int> missing;
  for (auto end = std::chrono::steady_clock::now() + mostDelay;;
       std::this_thread::sleep_for(pause)) {
    missing.clear();
    for (int machine = 0; machine < machines; ++machine)
      if (std::ifstream file(Mark::nameOf(folder, machine, incarnation)); !file)
        missing.push_back(machine);
    if (missing.empty() || std::chrono::steady_clock::now() >= end)
      return missing;
  }
}

/// Machine 0's choice, as it tells it to the others.
struct Choice {
  std::string checkpoint, path; // as describeWithDigest names it
  bool resetOptimizer = false, resetData = false;

  std::string text() const {
    return fmt::format("{}\n{}{}{}", checkpoint, resetOptimizer ? 'r' : '-',
                       resetData ? 'r' : '-', path);
  }
  static Result<Choice> parse(const std::string &text) {
    size_t end = text.find('\n');
    if (end == std::string::npos || text.size() < end + 3)
      return Error{"machine 0 does not say from which checkpoint all begin",
                   Error::Fault::Rank};
    Choice choice;
    choice.checkpoint = text.substr(0, end);
    choice.resetOptimizer = text[end + 1] == 'r';
    choice.resetData = text[end + 2] == 'r';
    choice.path = text.substr(end + 3);
    return choice;
  }
};

Result<std::string> choiceOf(const Prepared &run) {
  POLYRANK_ASSIGN(checkpoint, describeWithDigest(run.resumed));
  const CheckpointOptions &options = run.options.checkpoints;
  return Choice{checkpoint, run.resumed ? run.resumed->path : "",
                options.resetOptimizer, options.resetData}
      .text();
}

/// Opens the checkpoint that machine 0 has chosen, as soon as this machine sees
/// it as it is there.
Result<FoundCheckpoint> openChosen(const Choice &choice) {
  std::string seen;
  for (auto end = std::chrono::steady_clock::now() + mostDelay;;
       std::this_thread::sleep_for(pause)) {
    Result<FoundCheckpoint> found = openCheckpoint(choice.path);
    if (found) {
      std::optional<FoundCheckpoint> one(*std::move(found));
      POLYRANK_ASSIGN(here, describeWithDigest(one));
      if (here == choice.checkpoint)
        return *std::move(one);
      seen = "that is " + here + " here";
    } else {
      seen = found.error().message;
    }
    if (std::chrono::steady_clock::now() >= end)
      return Error{fmt::format("machine 0 begins from {}, {}: {}", choice.path,
                               choice.checkpoint, seen),
                   Error::Fault::Rank};
  }
}

Result<void> follow(Prepared &run, const Choice &choice) {
  CheckpointOptions &options = run.options.checkpoints;
  options.resetOptimizer = choice.resetOptimizer;
  options.resetData = choice.resetData;
  // That of the start before may have been set aside, or removed.
  Result<std::string> mine = describeWithDigest(run.resumed);
  if (mine && *mine == choice.checkpoint)
    return {};
  if (choice.path.empty())
    return Error{fmt::format("machine 0 begins from the start, and this "
                             "machine would go on from {}",
                             run.resumed->path),
                 Error::Fault::Rank};
  POLYRANK_ASSIGN(found, openChosen(choice));
  if (Result<void> fits =
          checkResume(*run.plan->plan, found, options.resetOptimizer);
      !fits)
    return fits;
  run.resumed = std::move(found);
  return continueData(run.options, *run.resumed, run.dataState);
}

/// See settleStart.
Result<void> checkFolderIsShared(const Prepared &run, OtherMachines &others,
                                 const Interrupted &isInterrupted) {
  const std::string &folder = run.options.checkpoints.folder;
  if (folder.empty())
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

} // namespace

Result<void> settleStart(Prepared &run, OtherMachines &others,
                         const Interrupted &isInterrupted) {
  if (Result<void> shared = checkFolderIsShared(run, others, isInterrupted);
      !shared)
    return shared;
  POLYRANK_ASSIGN(mine, others.machine() == 0 ? choiceOf(run) : std::string());
  POLYRANK_ASSIGN(all, others.exchange(mine, isInterrupted));
  if (others.machine() == 0)
    return {};
  POLYRANK_ASSIGN(choice, Choice::parse(all[0]));
  return follow(run, choice);
}

} // namespace polyrank::runtime
