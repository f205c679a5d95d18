// polyrank-run: checks what the user gave, starts the ranks and shows how they
// get on. The same program is the ranks' (Rank.cpp).

#include "runtime/plan/StepTimeline.h"
#include "runtime/report/Messages.h"
#include "runtime/report/RunReport.h"
#include "support/Json.h"
#include "support/arrays/Npz.h"
#include "tools/polyrank-run/Prepare.h"
#include "tools/polyrank-run/Rank.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

class Run : Preparation {
public:
  Run(const RunOptions &given, int argc, char **argv)
      : Preparation(given), arguments(argv, argv + argc) {}

  Result<void> run() {
    if (Result<void> done = Preparation::run(); !done)
      return done;
    POLYRANK_ASSIGN(
        opened, Progress::open(report, {options.quiet, options.log, steps,
                                        !options.allowNan, times.has_value()}));
    progress = std::move(opened);
    POLYRANK_ASSIGN(rates, ratesOf(options, *plan->plan));
    if (!options.quiet) {
      tell(describeStart(report));
      if (data)
        tell(data->describe() + "\n");
    }
    if (uint64_t total = rates.getTotal(); total && steps > total)
      tell(fmt::format("polyrank-run: --steps {} is more than the {} steps "
                       "that the learning rate's schedule is for (total={}); "
                       "it stays as it is then\n",
                       steps, total, total));
    POLYRANK_ASSIGN(links, linksOf(options, *plan->plan));
    if (std::string text = links.describe(); !text.empty() && !options.quiet)
      tell(text + "\n");
    if (times) {
      rehearsedSeconds =
          1e-12 *
          static_cast<double>(
              planTimelineOf(*plan, links.timesOver(*times, *plan)).makespan);
      if (!options.quiet)
        tell(fmt::format(
            "--rehearse {}: nothing is computed, no weights are read and there "
            "is no loss; by these times{} a step takes {:.2f} ms\n",
            options.rehearse,
            options.links.empty() ? ", if communication takes no time,"
                                  : " and links",
            1e3 * *rehearsedSeconds));
    }
    if (options.commThreads != 0 && !options.quiet)
      tell(fmt::format("--comm-threads {}: so many threads of each rank move "
                       "what is in flight\n",
                       options.commThreads));
    if (std::string warning = data ? data->findUnshifted() : "";
        !warning.empty())
      tell("polyrank-run: " + warning + "\n");

    shm::JobOptions jobOptions;
    for (int64_t rank = 0; rank < report.ranks; ++rank)
      jobOptions.sharedSizes.push_back(report.programOf(rank).sharedBytes);
    // A rehearsal sleeps: it needs no cores, and must not take others'.
    int threads = times ? 1 : int(report.threads);
    Binding binding = times ? Binding::None : Binding::Core;
    jobOptions.threadsPerRank = threads + options.commThreads;
    jobOptions.program = plan->bytes.hash;
    POLYRANK_ASSIGN(cores, chooseCores(int(report.ranks), threads,
                                       options.commThreads,
                                       options.binding.value_or(binding),
                                       options.binding.has_value()));
    jobOptions.alone = cores.alone && !times;
    if (!cores.note.empty() && !options.quiet)
      tell(cores.note + "\n");
    POLYRANK_ASSIGN(signals, EndSignals::block());
    POLYRANK_ASSIGN(job, shm::Job::create(jobOptions));

    uses.resize(report.ranks);
    LaunchOptions launch;
    launch.ranks = int(report.ranks);
    launch.threads = threads;
    launch.cores = std::move(cores);
    launch.arguments = arguments;
    if (data) {
      POLYRANK_ASSIGN(fingerprint, data->fingerprint());
      launch.arguments.push_back("--data-fingerprint=" + fingerprint);
    }
    auto numberOf = [](const std::optional<OutputFile> &file) {
      return file ? file->descriptor().get() : -1;
    };
    launch.descriptors = {planDescriptor.get(), sharedMemory.get()};
    for (const std::optional<OutputFile> &file : saveOutputs)
      launch.descriptors.push_back(numberOf(file));
    launch.descriptors.push_back(numberOf(profileOutput));
    launch.descriptors.push_back(numberOf(traceOutput));
    POLYRANK_ASSIGN(evalJob, createEvaluationJob(jobOptions));
    launch.descriptors.insert(
        launch.descriptors.end(),
        {evalPlanDescriptor.get(), evalMemory.get(),
         evalJob ? evalJob->descriptors().control : -1});
    if (evalJob)
      for (int arena : evalJob->descriptors().arenas)
        launch.descriptors.push_back(arena);
    launch.timeout = std::chrono::milliseconds(int64_t(1e3 * options.timeout));
    launch.nameOf = [&](int rank) { return mesh->describeRank(rank); };
    launch.placeOf = [&](int rank, uint32_t number) {
      return describeCommand(
          plan->program(programOf(*plan->plan, *mesh, rank)), number);
    };
    launch.onWarning = [&](const std::string &text) { progress->warn(text); };
    launch.onReport = [&](int rank, const nlohmann::json &message) {
      if (message.contains("step"))
        take(rank, stepFromJson(message["step"]), job);
      else if (message.contains("ready"))
        progress->ready(readyFromJson(message["ready"]));
      else if (message.contains("saving"))
        progress->saving(saveFromJson(message["saving"]));
      else if (message.contains("eval"))
        takeEvaluation(evaluationFromJson(message["eval"]));
      else if (message.contains("stopped"))
        progress->stopped(message["stopped"]);
      else if (message.contains("kept"))
        isKept = true;
      else if (message.contains("traced_steps"))
        tracedSteps = message["traced_steps"];
      else if (message.contains("use"))
        uses[rank] = useFromJson(message["use"]);
    };
    Result<void> ran = launchRanks(launch, job, signals);
    Result<void> logged = progress->close();
    if (!ran && isKept)
      for (std::optional<OutputFile> &file : saveOutputs)
        if (file)
          if (Result<void> committed = file->commit(); !committed)
            return committed;
    if (!ran) {
      const Error &error = notFinite ? *notFinite : ran.error();
      return Error{progress->stepsDone()
                       ? fmt::format("{} (after {} steps{})", error.message,
                                     progress->stepsDone(), keptFiles())
                       : error.message,
                   error.fault};
    }
    signals.letOne();
    if (Result<void> written = writeOutputs(); !written)
      return written;
    if (!options.quiet)
      summarise();
    if (int signal = EndSignals::late())
      tell(fmt::format("polyrank-run: {} came when all steps were done; the run "
                       "is complete\n",
                       strsignal(signal)));
    if (!logged)
      return logged;
    std::string text;
    if (options.json)
      text = toText(reportOf(report, *mesh, *progress, uses, files(),
                             options.links, rehearsedSeconds));
    else if (plan->plan->mode() == plan::Mode::Forward && !options.quiet)
      for (auto &[name, value] : progress->means())
        text += fmt::format("{} {:.6g} (mean of {} steps)\n", name, value,
                            progress->stepsDone());
    if (!print(text))
      return Error{fmt::format("cannot write to standard output: {}",
                               std::strerror(errno)),
                   Error::Fault::Rank};
    return {};
  }

  /// Of a run without an error.
  int status() const {
    return progress->meanLossIsNan() ? int(Error::Fault::NotFinite) : 0;
  }

  uint64_t stepsDone() const { return progress ? progress->stepsDone() : 0; }
  RunFiles files() const {
    return {options.plan,
            fmt::format("{}", fmt::join(options.samples(), ",")),
            options.init,
            options.save,    options.saveTrained, options.saveEma,
            options.outputs, options.log,         options.profile,
            options.trace,   options.rehearse};
  }

private:
  /// A step is done when the first ranks of all programs have said so. One program
  /// may be steps ahead of another.
  void take(int rank, StepReport report, const shm::Job &job) {
    auto &[whole, count] = reported[report.step];
    if (count == 0) {
      whole = std::move(report);
    } else {
      if (rank == 0)
        whole.communicationShare = report.communicationShare;
      whole.add(report);
    }
    if (++count < plan->programs())
      return;
    StepReport step = std::move(whole);
    reported.erase(step.step);
    progress->step(step);
    if (plan->programs() > 1 && !notFinite)
      if (auto fault = findNotFinite(options, *plan->plan, step,
                                     data ? &*data : nullptr)) {
        notFinite = std::move(fault);
        job.abort(notFinite->message);
      }
  }

  /// The memory of a plan that evaluates, on the same processes.
  Result<std::optional<shm::Job>>
  createEvaluationJob(const shm::JobOptions &training) const {
    if (!evaluation || !evaluation->plan)
      return std::optional<shm::Job>();
    shm::JobOptions job = training;
    PlanReport own = reportOf(*evaluation->plan);
    job.sharedSizes.clear();
    for (int64_t rank = 0; rank < own.ranks; ++rank)
      job.sharedSizes.push_back(own.programOf(rank).sharedBytes);
    job.program = evaluation->plan->bytes.hash;
    POLYRANK_ASSIGN(made, shm::Job::create(job));
    return std::optional<shm::Job>(std::move(made));
  }

  /// One is done when the first ranks of all programs have said so.
  void takeEvaluation(EvaluationReport report) {
    auto &[whole, count] = evaluated[report.step];
    if (count == 0)
      whole = std::move(report);
    else
      whole.add(report);
    if (++count < evaluation->planOr(*plan).programs()->size())
      return;
    progress->evaluated(whole);
    evaluated.erase(whole.step);
  }

  /// What a run that ended early has not written.
  std::string keptFiles() const {
    if (!options.savesAny())
      return "";
    std::string kept;
    for (const SaveFile &save : options.saves())
      if (!save.path.empty() && isKept)
        kept += fmt::format("; '{}' has the weights after step {}", save.path,
                            progress->stepsDone());
      else if (!save.path.empty() && access(save.path.c_str(), F_OK) == 0)
        kept += fmt::format("; '{}' is as it was", save.path);
    return kept.empty() ? "; nothing is saved" : kept;
  }

  /// Gives what the ranks have written its name, and writes the rest.
  Result<void> writeOutputs() {
    std::vector<std::optional<OutputFile> *> files;
    for (std::optional<OutputFile> &file : saveOutputs)
      files.push_back(&file);
    files.insert(files.end(), {&profileOutput, &traceOutput});
    for (std::optional<OutputFile> *file : files)
      if (*file)
        if (Result<void> committed = (*file)->commit(); !committed)
          return committed;
    if (!npzOutput)
      return {};
    uint64_t size = outputs.back().offset + outputs.back().bytes;
    void *memory =
        mmap(nullptr, size, PROT_READ, MAP_SHARED, sharedMemory.get(), 0);
    if (memory == MAP_FAILED)
      return Error{"cannot map the outputs", Error::Fault::Rank};
    NpzWriter writer(*std::move(npzOutput));
    for (const OutputArray &output : outputs) {
      auto *data = static_cast<const std::byte *>(memory) + output.offset;
      if (Result<void> added = writer.add(output.name, output.dtype,
                                          output.shape, {data, output.bytes});
          !added)
        return added;
    }
    munmap(memory, size);
    return writer.commit();
  }

  void summarise() const {
    tell(describeEnd(report, *mesh, uses));
    if (rehearsedSeconds)
      tell(fmt::format(
          "rehearsed: a step took {:.2f} ms, and at least {:.2f}; by times and "
          "links {:.2f}, of which {:.2f} ms are {:.3f} times as long\n",
          1e3 * progress->secondsPerStep(),
          1e3 * progress->leastSecondsPerStep(), 1e3 * *rehearsedSeconds,
          1e3 * progress->secondsPerStep(),
          progress->secondsPerStep() / std::max(*rehearsedSeconds, 1e-12)));
    for (const SaveReport &saved : progress->saved())
      tell(fmt::format("saved {} ({} in {:.2f} s, {}/s)\n", saved.path,
                       bytesText(saved.bytes), saved.seconds,
                       bytesText(static_cast<uint64_t>(
                           static_cast<double>(saved.bytes) /
                           std::max(saved.seconds, 1e-9)))));
    if (!options.outputs.empty()) {
      uint64_t all = data->samples(splitOf(options, *plan->plan)),
               some = outputSamplesOf(options, *plan->plan, *data);
      tell(some < all ? fmt::format("wrote {}: {} of {} samples (--steps {})\n",
                                    options.outputs, some, all, options.steps)
                      : fmt::format("wrote {}\n", options.outputs));
    }
    if (!options.profile.empty())
      tell(fmt::format("wrote {}\n", options.profile));
    if (!options.trace.empty())
      tell(tracedSteps < progress->stepsDone()
               ? fmt::format("wrote {}: the first {} of {} steps, which is as "
                             "much as a trace holds\n",
                             options.trace, tracedSteps, progress->stepsDone())
               : fmt::format("wrote {}\n", options.trace));
  }

  std::vector<std::string> arguments;
  std::unique_ptr<Progress> progress;
  std::optional<double> rehearsedSeconds; // of a step, by times and links
  std::vector<RankUse> uses;
  /// Steps that not all programs have done, with how many have.
  std::map<uint64_t, std::pair<StepReport, uint32_t>> reported;
  std::optional<Error> notFinite; // the loss, for which the job was ended
  uint64_t tracedSteps = 0;
  std::map<uint64_t, std::pair<EvaluationReport, uint32_t>> evaluated;
  bool isKept = false; // the weights, by a run whose data has an error
};

/// What --check says, and the exit status.
int checkMain(const RunOptions &options) {
  std::vector<CheckLine> lines = Preparation(options).checkAll();
  bool ok = std::all_of(lines.begin(), lines.end(),
                        [](const CheckLine &line) { return line.holds; });
  std::string text;
  if (options.json) {
    nlohmann::ordered_json report = newReport("check");
    report["status"] = ok ? "ok" : "error";
    report["checks"] = nlohmann::ordered_json::array();
    for (const CheckLine &line : lines)
      report["checks"].push_back({{"check", line.name},
                                  {"holds", line.holds},
                                  {"text", line.text}});
    text = toText(report);
  } else {
    for (const CheckLine &line : lines)
      text += fmt::format("{:<7} {:<5} {}\n", line.name,
                          line.holds ? "ok" : "WRONG", line.text);
  }
  if (!print(text)) {
    tell(fmt::format("polyrank-run: cannot write to standard output: {}\n",
                     std::strerror(errno)));
    return 2;
  }
  return ok ? 0 : 1;
}

int launcherMain(const RunOptions &options, int argc, char **argv) {
  try {
    if (options.check)
      return checkMain(options);
    Run run(options, argc, argv);
    Result<void> result = run.run();
    if (result)
      return run.status();
    tell(fmt::format("polyrank-run: {}\n", result.error().message));
    if (options.json)
      print(toText(
          reportOfFailure(result.error(), run.stepsDone(), run.files())));
    return int(result.error().fault);
  } catch (const std::exception &exception) {
    tell(fmt::format("polyrank-run: {}\n", exception.what()));
    return 2;
  }
}

} // namespace
} // namespace polyrank::runtime

int main(int argc, char **argv) {
  using namespace polyrank::runtime;
  takeStandardDescriptors();
  // A file that reaches the limit of `ulimit -f`, and a reader that is gone, are
  // write errors and no signals.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  std::variant<RunOptions, int> options = parseOptions(argc, argv);
  if (const int *status = std::get_if<int>(&options))
    return *status;
  if (auto connection = RankConnection::fromEnvironment())
    return rankMain(std::get<RunOptions>(options), *connection);
  int status = launcherMain(std::get<RunOptions>(options), argc, argv);
  finishTelling();
  return status;
}
