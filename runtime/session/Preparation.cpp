// The checks before a run, in order.

#include "runtime/session/Preparation.h"

#include "runtime/data/DataFiles.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/report/Messages.h"
#include "runtime/session/Checks.h"
#include "runtime/session/IdleOptions.h"
#include "runtime/session/SharedPlan.h"
#include "support/Cores.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

namespace polyrank::runtime {
namespace {

/// Returns "4 ranks x 1 thread".
std::string crewOf(const Prepared &run) {
  return plural(uint64_t(run.here.count), "rank") + " x " +
         plural(run.report.threads, "thread");
}

Result<std::string> checkPlan(Prepared &run, bool) {
  run.planDescriptor =
      Descriptor(open(run.options.plan.c_str(), O_RDONLY | O_CLOEXEC));
  if (run.planDescriptor.get() < 0)
    return Error{fmt::format("cannot open plan '{}': {}", run.options.plan,
                             std::strerror(errno))};
  POLYRANK_ASSIGN(loaded, loadPlan(run.options, run.planDescriptor.get()));
  run.plan.emplace(std::move(loaded));
  run.mesh.emplace(*run.plan->plan);
  run.report = reportOf(*run.plan);
  // That they cannot be shared out is found with the options.
  run.here = {0, int(run.report.ranks)};
  // Until a spare has a place it checks what it needs in the last one.
  JobPlace place = run.options.place;
  place.machine = std::min(place.machine, place.machines - 1);
  if (Result<RankRange> share =
          shareOf(place, int(run.report.ranks), run.options.machines.wholePlan))
    run.here = *share;
  return fmt::format("{} for {}{}, verified; SHA-256 {}",
                     run.report.mode == "train" ? "training" : "forward",
                     plural(run.report.ranks, "rank"),
                     run.report.mesh.empty() ? ""
                                             : " (" + run.report.mesh + ")",
                     run.plan->bytes.sha256());
}

/// Checks the options against the plan, and opens files that depend on the
/// options alone.
Result<std::string> checkOptions(Prepared &run, bool) {
  POLYRANK_ASSIGN(completed, completeOptions(run.options, *run.plan->plan));
  run.options = completed;
  for (auto check : {checkShared, checkPlansIf})
    if (Result<void> can = check(run); !can)
      return can.error();
  POLYRANK_ASSIGN(given, timesOf(run.options, *run.plan));
  run.times = std::move(given);
  return std::string("they fit the plan");
}

Result<std::string> checkDevice(Prepared &run, bool whole) {
  if (run.times)
    return std::string("no kernel runs (--rehearse)");
  if (!whole) // the ranks find out
    return std::string();
  POLYRANK_ASSIGN(machines, checkDevices(*run.plan->plan));
  return fmt::format("{} for {}, which this machine runs",
                     plural(run.report.kernels.size(), "kernel"),
                     machines.empty()
                         ? "any machine"
                         : fmt::format("{}", fmt::join(machines, ", ")));
}

Result<std::string> checkCores(Prepared &run, bool whole) {
  Crowd crowd = crowdOf(run.here.count, run.report.threads);
  if (run.times)
    return crewOf(run) + " sleep (--rehearse)";
  if (run.options.place.hasTaskPerRank())
    return fmt::format("each rank has those of its task of {}",
                       run.options.place.launcher);
  std::string text = "the plan's " + crewOf(run);
  if (crowd == Crowd::Senseless)
    return Error{fmt::format("{} cannot run on the {} cores of this machine: "
                             "compile it for fewer",
                             text, usableCores())};
  if (crowd == Crowd::Slow && !run.options.quiet && !whole)
    tell(fmt::format("polyrank-run: {} take turns on {} cores\n", text,
                     usableCores()));
  if (!whole)
    return std::string();
  // The cores are chosen again when a run starts; until then they are not
  // claimed.
  POLYRANK_ASSIGN(choice,
                  chooseCores(run.here.count, int(run.report.threads),
                              run.options.commThreads,
                              run.options.binding.value_or(Binding::Core),
                              run.options.binding.has_value()));
  return choice.note.empty()
             ? fmt::format("{} have a core to each thread", crewOf(run))
             : choice.note;
}

/// No output may be a file that this run reads, or that another output goes to.
Result<std::string> checkFiles(Prepared &run, bool) {
  std::vector<InputUse> inputs{
      {"the plan", run.options.plan},
      {"the inputs (--inputs)", run.options.inputs},
      {"the plan (--eval-plan)", run.options.evalPlan},
      {"the weights (--init)", run.options.init},
      {"the times (--rehearse)", run.options.rehearse}};
  if (run.weights)
    for (const std::string &path : run.weights->files())
      inputs.push_back({"the weights", path});
  // A missing file is reported when it is opened.
  for (auto &[what, given] :
       {std::pair("the data (--data)", &run.options.data),
        {"the data (--eval-data)", &run.options.evalData}})
    if (Result<std::vector<DataFiles>> found = findDataFiles(*given))
      for (const DataFiles &files : *found)
        for (const std::string &path : files.paths)
          inputs.push_back({what, path});
  POLYRANK_ASSIGN(written, outputUsesOf(run));
  if (Result<void> safe = checkOutputs(inputs, written); !safe)
    return safe.error();
  if (!run.isWriter())
    return std::string("machine 0 writes them");
  auto count = static_cast<uint64_t>(
      std::count_if(written.begin(), written.end(), [](const OutputUse &use) {
        return use.kind != FileKind::Folder;
      }));
  return count == 0 ? std::string("nothing is written")
                    : plural(count, "file") + " to write, none of them in use";
}

/// A check, and the checks that must hold before it can be made.
struct Check {
  const char *name;
  Result<std::string> (*make)(Prepared &run, bool whole);
  std::vector<std::string_view> needs;
};

const std::vector<Check> checks{{"plan", checkPlan, {}},
                                {"options", checkOptions, {"plan"}},
                                {"device", checkDevice, {"plan"}},
                                {"cores", checkCores, {"plan"}},
                                {"weights", checkWeights, {"plan", "options"}},
                                {"files", checkFiles, {"plan", "weights"}},
                                {"data", checkData, {"plan", "options"}},
                                {"memory", checkMemory, {"plan", "options"}},
                                {"disk", checkDisk, {"plan", "files"}}};

/// Describes the options that have no effect.
std::vector<std::string> findIdle(const Prepared &run) {
  return findIdle(run.options, *run.plan, run.steps, run.stepsBefore());
}

} // namespace

Result<Prepared> Preparation::run() {
  for (const Check &check : checks) {
    if (Result<std::string> found = check.make(prepared, false); !found)
      return found.error();
    if (&check != &checks.front())
      continue;
    // The locks come first: what the other checks find in files and folders
    // must not change.
    POLYRANK_ASSIGN(uses, outputUsesOf(prepared));
    if (!prepared.isWriter())
      continue;
    POLYRANK_ASSIGN(
        taken, OutputLocks::take(prepared.options.checkpoints.folder, uses));
    prepared.locks = std::move(taken);
  }
  if (!prepared.options.quiet)
    for (const std::string &idle : findIdle(prepared))
      tell(fmt::format("polyrank-run: {}\n", idle));
  return std::move(prepared);
}

std::vector<CheckLine> Preparation::checkAll() {
  std::vector<CheckLine> lines;
  auto held = [&](std::string_view name) {
    return std::any_of(lines.begin(), lines.end(), [&](const CheckLine &line) {
      return line.name == name && line.holds;
    });
  };
  for (const Check &check : checks) {
    if (!std::all_of(check.needs.begin(), check.needs.end(), held))
      continue;
    Result<std::string> found = check.make(prepared, true);
    lines.push_back(
        {check.name, bool(found), found ? *found : found.error().message});
  }
  // The number of steps is known only after the data.
  if (held("options") && held("data") && held("weights"))
    for (CheckLine &line : lines)
      if (std::string_view(line.name) == "options")
        for (const std::string &idle : findIdle(prepared))
          line.text += "; " + idle;
  return lines;
}

std::string plural(uint64_t count, const char *thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

} // namespace polyrank::runtime
