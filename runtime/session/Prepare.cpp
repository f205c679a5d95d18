// The checks before a run, in order.

#include "runtime/session/Prepare.h"

#include "runtime/device/MakeDevice.h"
#include "runtime/exec/CheckpointSaver.h"
#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/exec/SaveWeights.h"
#include "runtime/launch/ControlGroups.h"
#include "runtime/report/Messages.h"
#include "runtime/session/IdleOptions.h"
#include "support/ByteText.h"
#include "support/Cores.h"
#include "support/Names.h"
#include "support/Outputs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

std::string plural(uint64_t count, const char *thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

/// Returns a tensor output without a batch dim, of which each batch makes one,
/// or null.
const plan::Output *findOutputWithoutBatch(const plan::Plan &plan) {
  for (const plan::Program *program : *plan.programs())
    for (const plan::Output *output : *program->outputs())
      if (output->kind() == plan::OutputKind::Tensor &&
          output->batch_dim() == noBatch)
        return output;
  return nullptr;
}

/// Returns "4 ranks x 1 thread".
std::string crewOf(const PlanReport &report) {
  return plural(report.ranks, "rank") + " x " +
         plural(report.threads, "thread");
}

} // namespace

std::vector<OutputArray> outputArraysOf(const plan::Plan &plan,
                                        uint64_t samples) {
  std::vector<OutputArray> arrays;
  uint64_t end = 0;
  std::set<std::string> seen; // if several programs have one, the first is
  for (uint32_t program = 0; program < plan.programs()->size(); ++program) {
    const auto &outputs = *plan.programs()->Get(program)->outputs();
    for (uint32_t number = 0; number < outputs.size(); ++number) {
      const plan::Output &output = *outputs.Get(number);
      if (output.kind() != plan::OutputKind::Tensor ||
          !seen.insert(output.name()->str()).second)
        continue;
      OutputArray array{program,
                        number,
                        output.name()->str(),
                        ElementType(output.dtype()),
                        {},
                        (end + 63) / 64 * 64,
                        uint64_t(elementSize(output.dtype()))};
      for (uint32_t d = 2; d < output.dims()->size(); ++d)
        array.shape.push_back(output.dims()->Get(d)->size());
      if (output.batch_dim() != noBatch)
        array.shape.insert(array.shape.begin() + output.batch_dim(),
                           int64_t(samples));
      for (int64_t size : array.shape)
        array.bytes *= size;
      end = array.offset + array.bytes;
      arrays.push_back(std::move(array));
    }
  }
  return arrays;
}

/// A check, and the checks that must hold before it can be made.
struct Preparation::Check {
  const char *name;
  Result<std::string> (Preparation::*make)(bool whole);
  std::vector<std::string_view> needs;
};

const std::vector<Preparation::Check> Preparation::checks{
    {"plan", &Preparation::checkPlan, {}},
    {"options", &Preparation::checkOptions, {"plan"}},
    {"device", &Preparation::checkDevice, {"plan"}},
    {"cores", &Preparation::checkCores, {"plan"}},
    {"weights", &Preparation::checkWeights, {"plan", "options"}},
    {"files", &Preparation::checkFiles, {"plan", "weights"}},
    {"data", &Preparation::checkData, {"plan", "options"}},
    {"memory", &Preparation::checkMemory, {"plan", "options"}},
    {"disk", &Preparation::checkDisk, {"plan", "files"}}};

Result<void> Preparation::run() {
  for (const Check &check : checks) {
    if (Result<std::string> found = (this->*check.make)(false); !found)
      return found.error();
    if (&check != &checks.front())
      continue;
    // The locks come first: what the other checks find in files and folders
    // must not change.
    POLYRANK_ASSIGN(uses, outputUses());
    POLYRANK_ASSIGN(taken, OutputLocks::take(options.checkpoints.folder, uses));
    locks = std::move(taken);
  }
  if (!options.quiet)
    for (const std::string &idle :
         findIdle(options, *plan, steps, stepsBefore()))
      tell(fmt::format("polyrank-run: {}\n", idle));
  return {};
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
    Result<std::string> found = (this->*check.make)(true);
    lines.push_back(
        {check.name, bool(found), found ? *found : found.error().message});
  }
  // The number of steps is known only after the data.
  if (held("options") && held("data") && held("weights"))
    for (CheckLine &line : lines)
      if (std::string_view(line.name) == "options")
        for (const std::string &idle :
             findIdle(options, *plan, steps, stepsBefore()))
          line.text += "; " + idle;
  return lines;
}

Result<std::string> Preparation::checkPlan(bool) {
  planDescriptor = Descriptor(open(options.plan.c_str(), O_RDONLY | O_CLOEXEC));
  if (planDescriptor.get() < 0)
    return Error{fmt::format("cannot open plan '{}': {}", options.plan,
                             std::strerror(errno))};
  POLYRANK_ASSIGN(loaded, loadPlan(options, planDescriptor.get()));
  plan.emplace(std::move(loaded));
  mesh.emplace(*plan->plan);
  report = reportOf(*plan);
  return fmt::format("{} for {}{}, verified; SHA-256 {}",
                     report.mode == "train" ? "training" : "forward",
                     plural(report.ranks, "rank"),
                     report.mesh.empty() ? "" : " (" + report.mesh + ")",
                     plan->bytes.sha256());
}

/// Checks the options against the plan, and opens files that depend on the
/// options alone.
Result<std::string> Preparation::checkOptions(bool) {
  POLYRANK_ASSIGN(completed, completeOptions(options, *plan->plan));
  options = completed;
  POLYRANK_ASSIGN(given, timesOf(options, *plan));
  times = std::move(given);
  return std::string("they fit the plan");
}

Result<std::string> Preparation::checkDevice(bool whole) {
  if (times)
    return std::string("no kernel runs (--rehearse)");
  if (!whole) // the ranks find out
    return std::string();
  POLYRANK_ASSIGN(machines, checkDevices(*plan->plan));
  return fmt::format("{} for {}, which this machine runs",
                     plural(report.kernels.size(), "kernel"),
                     machines.empty()
                         ? "any machine"
                         : fmt::format("{}", fmt::join(machines, ", ")));
}

Result<std::string> Preparation::checkCores(bool whole) {
  Crowd crowd = crowdOf(report.ranks, report.threads);
  if (times)
    return crewOf(report) + " sleep (--rehearse)";
  std::string text = "the plan's " + crewOf(report);
  if (crowd == Crowd::Senseless)
    return Error{fmt::format("{} cannot run on the {} cores of this machine: "
                             "compile it for fewer",
                             text, usableCores())};
  if (crowd == Crowd::Slow && !options.quiet && !whole)
    tell(fmt::format("polyrank-run: {} take turns on {} cores\n", text,
                     usableCores()));
  if (!whole)
    return std::string();
  // The cores are chosen again when a run starts; until then they are not
  // claimed.
  POLYRANK_ASSIGN(choice, chooseCores(int(report.ranks), int(report.threads),
                                      options.commThreads,
                                      options.binding.value_or(Binding::Core),
                                      options.binding.has_value()));
  return choice.note.empty()
             ? fmt::format("{} have a core to each thread", crewOf(report))
             : choice.note;
}

Result<std::string> Preparation::checkWeights(bool whole) {
  if (times)
    return std::string("none are read (--rehearse)");
  if (!options.checkpoints.folder.empty()) {
    POLYRANK_ASSIGN(layout, checkpointLayoutOf(*plan->plan));
    checkpoint.emplace(std::move(layout));
  }
  POLYRANK_ASSIGN(chosen, findResumed(options.checkpoints));
  resumed = std::move(chosen);
  if (resumed)
    return checkResumed(whole);
  POLYRANK_ASSIGN(opened, Weights::open(*plan, options.init));
  weights.emplace(std::move(opened));
  // The ranks check all blocks; a model that was exported again is refused
  // here, before this run's log replaces an older one.
  if (Result<void> same = whole ? weights->checkAll(options.allowNan)
                                : weights->checkDigests(0, 64);
      !same)
    return same.error();
  if (Result<void> same = weights->checkTied(); !same)
    return same.error();
  std::string unread;
  if (!weights->unread().empty())
    unread = fmt::format("the model has no tensor {}, so nothing reads what {} "
                         "has of it",
                         groupNames(weights->unread()), options.init);
  if (!unread.empty() && !whole)
    tell(fmt::format("polyrank-run: --init: {}\n", unread));
  std::set<std::string> files = weights->files();
  if (weights->sources().empty())
    return std::string("none");
  return fmt::format(
      "{} in {}{}, all read{}", bytesText(weights->bytes()),
      files.empty()          ? "the plan"
      : options.init.empty() ? fmt::format("{}", fmt::join(files, ", "))
                             : options.init,
      options.init.empty() ? ", as when the plan was compiled" : "",
      unread.empty() ? "" : "; " + unread);
}

Result<std::string> Preparation::checkResumed(bool whole) {
  if (Result<void> fits = checkResume(*plan->plan, *resumed,
                                      options.checkpoints.resetOptimizer);
      !fits)
    return fits.error();
  if (whole) { // else the ranks do, each what it reads
    CheckpointReader reader(*resumed);
    if (Result<void> read = reader.checkAll(); !read)
      return read.error();
  }
  return fmt::format("those of step {} in {}{}", resumed->manifest.step,
                     resumed->path,
                     whole ? ", all read and as they were written" : "");
}

/// Returns all files that the run writes, except those of checkpoints.
Result<std::vector<OutputUse>> Preparation::outputUses() const {
  std::vector<OutputUse> written;
  for (const SaveFile &save : options.saves()) {
    if (save.path.empty())
      continue;
    POLYRANK_ASSIGN(
        uses, outputsOf(save, savedFilesOf(*plan->plan, save.what, save.path,
                                           options.saveShardBytes())));
    written.insert(written.end(), uses.begin(), uses.end());
  }
  for (auto &[option, path, kind] :
       {std::tuple("--outputs", &options.outputs, FileKind::Npz),
        {"--profile", &options.profile, FileKind::Profile},
        {"--trace", &options.trace, FileKind::Trace},
        {"--log", &options.log, FileKind::Log}})
    if (!path->empty())
      written.push_back({option, *path, kind});
  return std::move(written);
}

/// No output may be a file that this run reads, or that another output goes to.
Result<std::string> Preparation::checkFiles(bool) {
  std::vector<InputUse> inputs{{"the plan", options.plan},
                               {"the inputs (--inputs)", options.inputs},
                               {"the plan (--eval-plan)", options.evalPlan},
                               {"the weights (--init)", options.init},
                               {"the times (--rehearse)", options.rehearse}};
  if (weights)
    for (const std::string &path : weights->files())
      inputs.push_back({"the weights", path});
  // A missing file is reported when it is opened.
  for (auto &[what, given] : {std::pair("the data (--data)", &options.data),
                              {"the data (--eval-data)", &options.evalData}})
    if (Result<std::vector<DataFiles>> found = findDataFiles(*given))
      for (const DataFiles &files : *found)
        for (const std::string &path : files.paths)
          inputs.push_back({what, path});
  POLYRANK_ASSIGN(written, outputUses());
  if (Result<void> safe = checkOutputs(inputs, written); !safe)
    return safe.error();
  auto count = static_cast<uint64_t>(
      std::count_if(written.begin(), written.end(), [](const OutputUse &use) {
        return use.kind != FileKind::Folder;
      }));
  return count == 0 ? std::string("nothing is written")
                    : plural(count, "file") + " to write, none of them in use";
}

Result<std::string> Preparation::checkData(bool whole) {
  steps = options.steps;
  if (!options.samples().empty()) {
    POLYRANK_ASSIGN(source, openData(options, *plan->plan));
    data.emplace(std::move(source));
    steps = stepsOf(options, *plan->plan, *data);
  }
  if (checkpoint || resumed) {
    POLYRANK_ASSIGN(state,
                    dataOf(options, *plan->plan, data ? &*data : nullptr));
    dataState = std::move(state);
  }
  if (resumed) {
    if (Result<void> same = continueData(options, *resumed, dataState); !same)
      return same.error();
    if (steps < stepsBefore())
      return Error{
          fmt::format("--steps {}: '{}' is of step {}, which is later; "
                      "--steps is the number of all steps, those "
                      "before the checkpoint included",
                      steps, resumed->path, stepsBefore())};
  }
  if (!data)
    return std::string(times ? "none is read (--rehearse)"
                             : "the plan needs none");
  if (!options.outputs.empty()) {
    uint64_t samples = outputSamplesOf(options, *plan->plan, *data);
    outputs = outputArraysOf(*plan->plan, samples);
    const plan::Output *whole = findOutputWithoutBatch(*plan->plan);
    if (whole && samples > report.samplesPerStep)
      return Error{fmt::format(
          "--outputs: output '{}' has no batch, so that each batch of {} "
          "samples makes another one, and there are {} samples; give one "
          "batch, or --steps 1",
          whole->name()->str(), report.samplesPerStep, samples)};
    // Scalar outputs need no memory of their own.
    bool hasAny = std::any_of(
        plan->plan->programs()->begin(), plan->plan->programs()->end(),
        [](const plan::Program *each) { return each->outputs()->size() > 0; });
    if (!hasAny)
      return Error{"--outputs: the plan has no outputs"};
  }
  if (Result<void> done = checkEvaluation(whole); !done)
    return done.error();
  if (!whole) {
    // The values are checked before this run's log replaces an older one, and
    // before any step.
    if (Result<void> values = data->checkRanges(); !values)
      return values.error();
    return std::string();
  }
  if (Result<void> values = data->checkAll(); !values)
    return values.error();
  uint64_t batch = report.samplesPerStep,
           samples = data->samples(splitOf(options, *plan->plan));
  return fmt::format("{}; every value read; {} of {} are {:.2f} epochs",
                     data->describe(), plural(steps, "step"),
                     plural(batch, "sample"),
                     static_cast<double>(steps) * static_cast<double>(batch) /
                         static_cast<double>(samples));
}

Result<void> Preparation::checkEvaluation(bool whole) {
  if (options.evalEvery == 0 || !data)
    return {};
  if (!options.evalPlan.empty()) {
    evalPlanDescriptor =
        Descriptor(open(options.evalPlan.c_str(), O_RDONLY | O_CLOEXEC));
    if (evalPlanDescriptor.get() < 0)
      return Error{fmt::format("cannot open --eval-plan '{}': {}",
                               options.evalPlan, std::strerror(errno))};
  }
  POLYRANK_ASSIGN(opened,
                  openEvaluation(options, *plan, evalPlanDescriptor.get()));
  evaluation.emplace(std::move(opened));
  return whole ? evaluation->data->checkAll() : evaluation->data->checkRanges();
}

uint64_t Preparation::evaluationBytes(const ProgramReport &program) const {
  if (!evaluation)
    return 0;
  uint64_t held = evaluation->data->memoryBytes();
  if (!evaluation->plan) // a copy of what the steps change
    return held + program.parameterBytes + program.stateBytes;
  PlanReport own = reportOf(*evaluation->plan);
  uint64_t most = 0; // the stage assignments may differ
  for (const ProgramReport &each : own.programs)
    most = std::max(most, each.arenaBytes() + each.libraryBytes());
  return held + most;
}

uint64_t Preparation::windowBytes() const {
  if (!outputs.empty())
    return outputs.back().offset + outputs.back().bytes;
  return options.savesAny() ? saveMemoryBytes : 0;
}

Result<std::string> Preparation::checkMemory(bool whole) {
  if (options.noCheck)
    return std::string();
  if (times)
    return std::string("the ranks' arenas stay empty (--rehearse)");
  // Arenas are touched before the first step, so a run that has started has its
  // memory.
  uint64_t held = data ? data->memoryBytes() : 0;
  auto bytesOf = [&](const ProgramReport &program) {
    return program.arenaBytes() + program.libraryBytes() + programBytes + held +
           evaluationBytes(program);
  };
  uint64_t each = 0, needed = held + windowBytes(); // each: the maximum
  uint64_t copies = 0; // made by the ranks for a checkpoint
  for (int64_t rank = 0; checkpoint && rank < report.ranks; ++rank)
    copies += CheckpointSaver::memoryBytes(*checkpoint, rank);
  needed += copies;
  if (evaluation)
    needed += evaluationMemoryOf(*evaluation);
  for (const ProgramReport &program : report.programs) {
    each = std::max(each, bytesOf(program));
    needed += bytesOf(program) * static_cast<uint64_t>(program.ranks);
  }
  std::string text =
      fmt::format("{} need up to {} ({}{} each, the arena {})",
                  plural(report.ranks, "rank"), bytesText(needed),
                  report.programs.size() > 1 ? "at most " : "", bytesText(each),
                  bytesText(report.arenaBytes()));
  if (copies)
    text += fmt::format(", {} of them for copies of what --checkpoint writes",
                        bytesText(copies));
  MemoryRoom room = memoryRoom();
  std::string source =
      room.limit ? fmt::format("its control group, limited to {}, has",
                               bytesText(room.limit))
                 : "this machine has";
  text += fmt::format(", and {} {} available", source, bytesText(room.bytes));
  if (needed <= room.bytes)
    return whole ? text : std::string();
  return Error{fmt::format(
      "{}: compile it for ranks that hold less ({}){}", text,
      report.mode == "train" ? "--zero 2 or 3 with several ranks along data, "
                               "--recompute selective "
                               "or full, more --microbatches of fewer samples, "
                               "a --mesh that splits "
                               "parameters"
                             : "fewer samples in --input or --dim, --zero 3 "
                               "with several ranks along "
                               "data, a --mesh that splits parameters",
      whole ? "" : ", or start it all the same with --no-check")};
}

Result<void> Preparation::checkCheckpointFolder(bool whole) {
  const std::string &folder = options.checkpoints.folder;
  auto cannot = [&](const std::string &why) {
    return Error{fmt::format("--checkpoint {}: {}", folder, why)};
  };
  struct stat status;
  bool exists = stat(folder.c_str(), &status) == 0;
  if (exists && !S_ISDIR(status.st_mode))
    return cannot("it is no folder");
  if (whole && !exists)
    return access(folderOf(folder).c_str(), W_OK) == 0
               ? Result<void>()
               : cannot(std::strerror(errno));
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot(std::strerror(errno));
  if (Result<void> free = checkFolder(options.checkpoints, stepsBefore());
      !free)
    return free;
  struct statvfs system;
  uint64_t bytes = checkpoint->bytes();
  if (statvfs(folder.c_str(), &system) == 0)
    if (uint64_t room = uint64_t(system.f_bavail) * system.f_frsize;
        room < bytes)
      return cannot(fmt::format("a checkpoint needs {}, and its file system "
                                "has {} left",
                                bytesText(bytes), bytesText(room)));
  if (whole)
    return {};
  FileOperations files;
  return removeLeftovers(files, folder);
}

Result<std::string> Preparation::checkDisk(bool whole) {
  std::string text;
  auto add = [&](const char *option, const std::string &path, uint64_t bytes) {
    struct statvfs system;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", option, path);
    if (bytes && statvfs(folderOf(path).c_str(), &system) == 0)
      text +=
          fmt::format(": {}, and {} are free", bytesText(bytes),
                      bytesText(uint64_t(system.f_bavail) * system.f_frsize));
  };
  for (const SaveFile &save : options.saves()) {
    if (save.path.empty())
      continue;
    std::vector<SavedFile> files = savedFilesOf(
        *plan->plan, save.what, save.path, options.saveShardBytes());
    uint64_t bytes = bytesOf(files);
    POLYRANK_ASSIGN(output, SaveOutput::create(save, std::move(files)));
    saveOutputs.push_back(std::move(output));
    add(save.option, save.path, bytes);
  }
  if (checkpoint) {
    if (Result<void> locked = checkCheckpointFolder(whole); !locked)
      return locked.error();
    add("--checkpoint", options.checkpoints.folder + "/", checkpoint->bytes());
  }
  if (!options.profile.empty()) {
    POLYRANK_ASSIGN(file, OutputFile::create(options.profile));
    profileOutput.emplace(std::move(file));
    add("--profile", options.profile, 0);
  }
  if (!options.trace.empty()) {
    POLYRANK_ASSIGN(file, OutputFile::create(options.trace));
    traceOutput.emplace(std::move(file));
    add("--trace", options.trace, 0);
  }
  if (!options.outputs.empty()) {
    POLYRANK_ASSIGN(file, OutputFile::create(options.outputs, windowBytes()));
    npzOutput.emplace(std::move(file));
    add("--outputs", options.outputs, windowBytes());
  }
  if (whole) // a run writes these in place
    for (auto &[option, path] : {std::pair("--log", options.log),
                                 {"--tensorboard", options.tensorboard}}) {
      if (path.empty())
        continue;
      bool exists = access(path.c_str(), F_OK) == 0;
      size_t end = path.find_last_not_of('/');
      std::string place = exists ? path : folderOf(path.substr(0, end + 1));
      if (access(place.c_str(), W_OK) != 0)
        return Error{fmt::format("{}: cannot write '{}': {}", option, path,
                                 std::strerror(errno))};
      add(option, path, 0);
    }
  if (whole)
    return text.empty() ? "nothing is written" : text;
  if (uint64_t bytes = windowBytes()) {
    POLYRANK_ASSIGN(
        made,
        Window::create(bytes, outputs.empty() ? "what is saved" : "outputs"));
    window.emplace(std::move(made));
  }
  if (evaluation) {
    POLYRANK_ASSIGN(
        made, Window::create(evaluationMemoryOf(*evaluation), "an evaluation"));
    evalWindow.emplace(std::move(made));
  }
  return text;
}

} // namespace polyrank::runtime
