// Runs one rank: loads, runs the steps, saves, reports.

#include "runtime/session/Rank.h"

#include "runtime/comm/shm/ShmMemory.h"
#include "runtime/device/IdleDevice.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/exec/CheckpointSaver.h"
#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/exec/ResidentMemory.h"
#include "runtime/exec/SaveWeights.h"
#include "runtime/job/local/LocalJob.h"
#include "runtime/report/RankSteps.h"
#include "runtime/session/Committer.h"
#include "runtime/session/NotFinite.h"
#include "runtime/session/Prepare.h"
#include "runtime/session/RankEvaluate.h"
#include "runtime/session/RunPage.h"
#include "runtime/session/StepMeter.h"
#include "support/Failpoint.h"
#include "support/OutOfMemory.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <sys/stat.h>
#include <system_error>
#include <thread>

namespace polyrank::runtime {
namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

class Rank {
public:
  Rank(const SessionOptions &given, const RankConnection &connection)
      : options(given), connection(connection) {}

  Result<void> run() {
    failpoint("load.before");
    if (Result<void> done = load(); !done)
      return done;
    failpoint("load.after");
    if (Result<void> measured = measureRates(); !measured)
      return measured;
    if (!options.profile.empty() && connection.rank() == 0)
      program->startProfile();
    if (!options.trace.empty())
      program->startTrace(trace.emplace(*plan, connection.rank()));
    if (page->facts().savesAtOnce)
      if (Result<void> saved = saveCheckpoint(steps); !saved)
        return saved;
    if (evaluation)
      if (Result<void> done = evaluateFirst(); !done)
        return done;
    for (uint64_t step = page->facts().step; step < steps && !badData; ++step) {
      if (stopsHere(step))
        return endEarly(step);
      page->begin(step + 1);
      failpoint("step.before");
      if (Result<void> done = runStep(step); !done)
        return done;
      if (badData)
        break;
      // The checkpoint is first, so that a run that ends while it evaluates has
      // it.
      if (Result<void> saved = checkpointAfter(step + 1); !saved)
        return saved;
      if (evaluation && isEvaluated(options, step + 1, steps))
        if (Result<void> done = evaluate(step + 1); !done)
          return done;
      failpoint("step.after");
    }
    if (Result<void> finite = checkWeights(); !finite)
      return finite;
    // Without it, the weights of the last possible step are saved below.
    if (badData && saver && steps > page->facts().step && savedStep != steps)
      if (Result<void> saved = saveCheckpoint(steps); !saved)
        return saved;
    if (Result<void> saved = saveAll(); !saved)
      return saved;
    if (saver)
      report(saver->finish([this] { job->beat(); }));
    if (badData) {
      if (connection.rank() == 0 && options.savesAny())
        connection.report({{"kept", steps}});
      failpoint("kept.after");
      if (Result<void> all = job->barrier(); !all)
        return all;
      return *badData;
    }
    if (Result<void> measured = measureRates(); !measured)
      return measured;
    // No rank leaves, and unmaps its arena, before all are done.
    if (Result<void> all = job->barrier(); !all)
      return all;
    failpoint("end.before");
    reportUse();
    if (Result<void> written = writeTrace(); !written)
      return written;
    return writeProfile();
  }

private:
  Result<void> load() {
    POLYRANK_ASSIGN(loaded,
                    loadPlan(options, connection.descriptors()[planFile]));
    plan.emplace(std::move(loaded));
    POLYRANK_ASSIGN(completed, completeOptions(options, *plan->plan));
    options = completed;
    POLYRANK_ASSIGN(shared, RunPage::map(connection.descriptors()[pageFile]));
    page.emplace(std::move(shared));
    POLYRANK_ASSIGN(joined,
                    local::joinJob(connection.job(), connection.rank()));
    job = std::move(joined);
    POLYRANK_ASSIGN(attached,
                    shm::attach(transportFiles(connection, job->worldSize(), 0),
                                *job, plan->bytes.hash));
    transport = std::move(attached);
    POLYRANK_ASSIGN(times, timesOf(options, *plan));
    if (Result<void> made = makeDevice(times.has_value()); !made)
      return made;
    // From here on this thread has the floating-point mode of the device's
    // threads.
    transport->setCommThreads(options.commThreads);
    auto start = std::chrono::steady_clock::now();
    POLYRANK_ASSIGN(links, linksOf(options, *plan->plan));
    if (times) {
      Rehearsal::makePunctual();
      rehearsal.emplace(
          links.timesOver(*std::move(times), *plan)[programNumber()],
          *transport);
    }
    POLYRANK_ASSIGN(
        created, RankProgram::create(*plan->plan, *device, *transport,
                                     options.seed, rehearsal ? Links() : links,
                                     rehearsal ? &*rehearsal : nullptr));
    program = std::move(created);
    POLYRANK_ASSIGN(rates, ratesOf(options, *plan->plan));
    program->setLearningRates(std::move(rates));
    if (options.measuresRanks())
      meter.emplace(*program, *transport);
    double memorySeconds = secondsSince(start);
    start = std::chrono::steady_clock::now();
    if (!rehearsal)
      if (Result<void> loaded =
              page->facts().resume[0] ? resume() : loadWeights();
          !loaded)
        return loaded;
    if (Result<void> prepared = prepareCheckpoints(); !prepared)
      return prepared;
    double weightsSeconds = secondsSince(start);
    steps = options.steps;
    if (!options.samples().empty()) {
      POLYRANK_ASSIGN(source, openData(options, *plan->plan));
      data.emplace(std::move(source));
      if (Result<void> same =
              checkSameData(page->facts().data, *data, *plan->plan);
          !same)
        return same;
      // The fingerprint knows a few samples; these are all of the same files.
      if (Result<void> same = checkSameFile(
              fmt::format("--data {}", fmt::join(options.samples(), ",")),
              page->facts().samples, identityOf(*data));
          !same)
        return same;
      steps = stepsOf(options, *plan->plan, *data);
      batches = evaluatedBatchesOf(options, *plan->plan, *data);
    }
    if (Result<void> mapped = mapOutputs(); !mapped)
      return mapped;
    if (options.savesAny()) {
      if (Result<void> mapped = mapWindow(saveMemoryBytes, "what is saved");
          !mapped)
        return mapped;
      saveRounds.emplace(window.data(), saveMemoryParts, *job);
    }
    if (options.evalEvery != 0) {
      POLYRANK_ASSIGN(made,
                      RankEvaluation::create(
                          options, connection,
                          {*plan, *program, *weights, *job, *device,
                           [this](uint64_t step) { return mayEvaluate(step); },
                           page->facts().init, page->facts().evaluated},
                          page->facts().evaluation));
      evaluation = std::move(made);
    }
    if (Result<void> all = job->barrier(); !all)
      return all;
    if (connection.rank() == 0)
      connection.report(
          {{"ready", toJson(ReadyReport{memorySeconds, weightsSeconds})}});
    return {};
  }

  /// The number of the program that this rank runs.
  uint32_t programNumber() const {
    return programOf(*plan->plan, Mesh(*plan->plan), connection.rank());
  }

  /// A rehearsal launches no kernels, so they may be for another machine.
  Result<void> makeDevice(bool rehearses) {
    if (rehearses) {
      device = std::make_unique<IdleDevice>();
      return {};
    }
    POLYRANK_ASSIGN(
        made, runtime::makeDevice(*plan->plan, plan->program(programNumber())));
    device = std::move(made);
    return {};
  }

  Result<void> loadWeights() {
    POLYRANK_ASSIGN(opened, Weights::open(*plan, options.init));
    weights.emplace(std::move(opened));
    if (Result<void> same =
            weights->checkDigests(job->rank(), job->worldSize());
        !same)
      return same;
    std::vector<StoredSource> sources =
        options.allowNan ? weights->sources() : weights->sourcesWithoutNan();
    for (StoredSource &source : sources)
      if (source.read)
        source.read = [this, read = source.read](uint64_t offset, void *into,
                                                 uint64_t length) {
          job->beat();
          return read(offset, into, length);
        };
    if (Result<void> loaded = program->loadParameters(sources); !loaded)
      return loaded;
    return checkSameFile("--init " + options.init, page->facts().init,
                         weights->identity());
  }

  /// Loads the checkpoint that the launcher has chosen. If it is damaged,
  /// reports that, since the launcher may find another one.
  Result<void> resume() {
    Result<void> loaded = loadResumed();
    if (!loaded && isDamage(loaded.error()))
      connection.report({{"damaged", loaded.error().message}});
    return loaded;
  }

  Result<void> loadResumed() {
    POLYRANK_ASSIGN(found, openCheckpoint(page->facts().resume));
    resumed.emplace(std::move(found));
    POLYRANK_ASSIGN(loaded, weightsOf(*plan, *resumed));
    weights.emplace(std::move(loaded));
    return loadCheckpoint(*program, *plan->plan, *resumed,
                          page->facts().resetOptimizer,
                          [this] { job->beat(); });
  }

  Result<void> prepareCheckpoints() {
    if (options.checkpoints.folder.empty())
      return {};
    POLYRANK_ASSIGN(computed, checkpointLayoutOf(*plan->plan));
    layout.emplace(std::move(computed));
    POLYRANK_ASSIGN(created, CheckpointSaver::create(
                                 *layout, connection.rank(), *program, *weights,
                                 [this](int64_t range, int64_t grain,
                                        const RangeBody &body) {
                                   device->parallelFor(range, grain, body);
                                 },
                                 files));
    saver = std::move(created);
    return {};
  }

  void report(const std::optional<ShardReport> &shard) const {
    if (shard)
      connection.report({{"shard", toJson(*shard)}});
  }

  /// Saves if --checkpoint requires it after this step, which is the same on
  /// all ranks.
  Result<void> checkpointAfter(uint64_t step) {
    if (!saver)
      return {};
    report(saver->poll());
    uint64_t every = options.checkpoints.everySteps;
    if (step == steps || page->isSaveAfter(step))
      return saveCheckpoint(step);
    if (every == 0 || step % every != 0)
      return {};
    POLYRANK_ASSIGN(saves, isSavedInTurn(step));
    return saves ? saveCheckpoint(step) : Result<void>();
  }

  /// Returns true if the disk keeps up, or false if all ranks skip the save
  /// after this step. The training waits for the disk at most 2 s plus 1 % of
  /// its time.
  Result<bool> isSavedInTurn(uint64_t step) {
    uint64_t number = due++;
    // Keeps every rank close enough to read what was decided.
    if (number % (RunPage::decisions / 2) == 0)
      if (Result<void> all = job->barrier(); !all)
        return all.error();
    auto start = std::chrono::steady_clock::now();
    for (;;) {
      double now = waitedForDisk + secondsSince(start);
      RunPage::SaveDecision decision =
          page->decideSave(number, step, now > 2 + 0.01 * secondsSince(began));
      if (decision == RunPage::SaveDecision::Wait) {
        job->beat();
        report(saver->poll());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      waitedForDisk = now;
      if (decision == RunPage::SaveDecision::SkipAndSay)
        connection.report({{"skipped_save", step}});
      return decision == RunPage::SaveDecision::Save;
    }
  }

  /// Called by all ranks after the same step.
  Result<void> saveCheckpoint(uint64_t step) {
    // Non-finite weights must not replace a good checkpoint.
    if (Result<void> finite = checkFiniteWeights(fmt::format("step {}", step));
        !finite)
      return finite;
    POLYRANK_ASSIGN(before,
                    saver->save(step,
                                unfinishedPath(options.checkpoints.folder, step,
                                               page->facts().run),
                                [this] { job->beat(); }));
    report(before);
    savedStep = step;
    return {};
  }

  Result<void> mapOutputs() {
    if (options.outputs.empty())
      return {};
    samples = outputSamplesOf(options, *plan->plan, *data);
    outputs = outputArraysOf(*plan->plan, samples);
    if (outputs.empty()) // all are scalars, which are reported
      return {};
    return mapWindow(outputs.back().offset + outputs.back().bytes, "outputs");
  }

  Result<void> mapWindow(uint64_t bytes, const std::string &what) {
    POLYRANK_ASSIGN(
        mapped, Window::map(connection.descriptors()[windowFile], bytes, what));
    window = std::move(mapped);
    return {};
  }

  /// Writes all files of weights, after the last step that ran.
  Result<void> saveAll() {
    // The descriptors of transports come before them.
    int transports = options.evalPlan.empty() ? 1 : 2;
    int descriptor =
        numJobFiles + transports * transportFilesOf(job->worldSize());
    for (const SaveFile &file : options.saves())
      if (!file.path.empty())
        if (Result<void> saved = save(file, descriptor); !saved)
          return saved;
    return {};
  }

  /// Evaluates after step `step`, counted from 1. The run ends if patience is
  /// exhausted.
  Result<void> evaluate(uint64_t step) {
    if (Result<void> done = evaluation->run(step); !done)
      return done;
    return endWithoutPatience(step);
  }

  /// Does what is due before the first step: the earlier run may have ended
  /// while it evaluated, or with its patience exhausted.
  Result<void> evaluateFirst() {
    uint64_t step = page->facts().step;
    return page->facts().evaluatesAgain ? evaluate(step)
                                        : endWithoutPatience(step);
  }

  Result<void> endWithoutPatience(uint64_t step) {
    const Patience &patience = evaluation->patience();
    if (!patience.isOver() || step >= steps)
      return {};
    if (connection.rank() == 0)
      connection.report(
          {{"patience",
            {{"step", step},
             {"best_step", patience.state().bestStep},
             {"best_loss",
              fmt::format("{:.6g}", patience.state().bestLoss)}}}});
    steps = step;
    return saver && savedStep != step && page->facts().step != step
               ? saveCheckpoint(step)
               : Result<void>();
  }

  /// Returns true if all ranks evaluate the next batch of the evaluation after
  /// this step.
  bool mayEvaluate(uint64_t step) {
    if (saver)
      report(saver->poll());
    if (job->isClosedBefore(step + 1))
      page->batches().close();
    return page->batches().mayBegin(++begunBatches);
  }

  /// The samples of a step, counted from 0.
  Batch batchOf(uint64_t step) const {
    return batches.empty() ? data->batchOf(splitOf(options, *plan->plan),
                                           step - page->facts().origin)
                           : batches[step];
  }

  /// Fills the samples of a step, or returns their error. Unless all samples
  /// were checked before the run, all ranks agree before any of them begins the
  /// step, so that the training up to there can be saved.
  Result<void> fillInputs(uint64_t step) {
    Result<void> filled = program->fillInputs(*data, batchOf(step));
    if (!filled)
      filled =
          Error{fmt::format("step {}: {}", step + 1, filled.error().message),
                filled.error().fault};
    if (step == page->facts().step || !(options.savesAny() || saver) ||
        data->isChecked())
      return filled;
    if (!filled)
      page->refuse(step + 1);
    if (Result<void> all = job->barrier(); !all)
      return all;
    if (!page->isRefused(step + 1))
      return {};
    steps = step;
    badData.emplace(filled);
    return {};
  }

  /// Writes to the descriptors from number `descriptor` on, and advances it
  /// past them.
  Result<void> save(const SaveFile &save, int &descriptor) {
    auto start = std::chrono::steady_clock::now();
    std::vector<SavedFile> files = savedFilesOf(
        *plan->plan, save.what, save.path, options.saveShardBytes());
    uint64_t bytes = bytesOf(files), before = 0;
    auto report = [&](uint64_t done, double seconds) {
      if (connection.rank() == 0)
        connection.report(
            {{"saving", toJson(SaveReport{save.path, done, bytes, seconds})}});
    };
    for (const SavedFile &file : files) {
      SaveOptions each{
          save.what,
          file,
          connection.descriptors()[descriptor++],
          *saveRounds,
          [&](int64_t range, int64_t grain, const RangeBody &body) {
            device->parallelFor(range, grain, body);
          },
          [&](uint64_t done, uint64_t) { report(before + done, 0); }};
      if (Result<void> saved =
              saveWeights(*plan, *program, *weights, *job, each);
          !saved)
        return saved;
      before += file.bytes;
    }
    report(bytes, secondsSince(start));
    return {};
  }

  Result<void> runStep(uint64_t step) {
    // Programs that communicate must begin a step together.
    if (rehearsal && plan->programs() > 1)
      if (Result<void> all = job->barrier(); !all)
        return all;
    auto start = std::chrono::steady_clock::now();
    CommandTimes before = program->times();
    if (meter)
      meter->begin();
    if (data)
      if (Result<void> filled = fillInputs(step); !filled)
        return filled;
    if (badData)
      return {};
    if (auto ran = program->runStep(step + 1); !ran)
      return ran.error();
    Batch batch;
    if (data)
      batch = batchOf(step);
    for (const OutputArray &output : outputs)
      if (output.program == program->programNumber())
        if (Result<void> stored =
                program->storeOutput(output.number, batch, samples,
                                     window.data().data() + output.offset);
            !stored)
          return stored;
    std::optional<RankStep> measured;
    if (meter)
      measured = meter->end(step + 1);
    StepReport report;
    report.step = step + 1;
    if (connection.rank() != program->firstRank()) {
      if (measured)
        connection.report({{"rank_step", toJson(*measured)}});
      return checkStuck(report);
    }
    report.seconds = secondsSince(start);
    if (!batches.empty())
      report.share = static_cast<double>(batch.count) /
                     static_cast<double>(plan->plan->samples_per_step());
    CommandTimes times = program->times();
    for (int kind = 0; kind < numCommandKinds; ++kind)
      times.nanoseconds[kind] -= before.nanoseconds[kind];
    report.communicationShare = times.communicationShare();
    if (!rehearsal) { // a rehearsal has no values
      POLYRANK_ASSIGN(metrics, program->metrics());
      for (const Metric &metric : metrics)
        report.metrics.emplace_back(metric.name, metric.value);
      for (const Metric &rate : program->learningRates(step + 1))
        report.learningRates.emplace_back(rate.name, rate.value);
    }
    nlohmann::json message{{"step", toJson(report)}};
    if (measured)
      message["rank_step"] = toJson(*measured);
    connection.report(message);
    if (Result<void> goesOn = checkStuck(report); !goesOn)
      return goesOn;
    // With several programs the launcher checks the loss: loss and count may be
    // in two programs.
    return plan->programs() == 1 ? checkLoss(report) : Result<void>();
  }

  /// If the step could neither be applied nor skipped, tells the launcher which
  /// is the first parameter of this rank whose gradient was not finite. All
  /// ranks do so, and the launcher then ends the run.
  Result<void> checkStuck(StepReport &report) {
    if (rehearsal || !stopsAtNan(options, *plan->plan) ||
        !program->hasMetric("skipped"))
      return {};
    if (report.metrics.empty()) {
      POLYRANK_ASSIGN(metrics, program->metrics());
      for (const Metric &metric : metrics)
        report.metrics.emplace_back(metric.name, metric.value);
    }
    if (!report.isStuck())
      return {};
    POLYRANK_ASSIGN(first, program->findNotFinite());
    connection.report(
        {{"stuck",
          {{"step", report.step},
           {"stored", first ? nlohmann::json(*first) : nlohmann::json()}}}});
    // The launcher ends the run once it has heard all ranks. Until then none
    // goes on: it would compute with NaN, and report the same of the next step.
    constexpr auto pause = std::chrono::milliseconds(1);
    for (;; std::this_thread::sleep_for(pause))
      if (Result<void> all = job->barrier(); !all)
        return all;
  }

  Result<void> checkLoss(const StepReport &report) const {
    auto fault = findNotFinite(options, *plan->plan, report,
                               data ? &*data : nullptr, page->facts().origin);
    return fault ? Result<void>(*fault) : Result<void>();
  }

  /// Returns true if the launcher has asked all ranks to end after this many
  /// steps.
  bool stopsHere(uint64_t done) { return !job->mayBegin(done + 1); }

  Result<void> endEarly(uint64_t done) {
    if (saver) {
      if (savedStep != done)
        if (Result<void> saved = saveCheckpoint(done); !saved)
          return saved;
      report(saver->finish([this] { job->beat(); }));
    }
    if (Result<void> all = job->barrier(); !all)
      return all;
    reportUse();
    connection.stopped(done);
    return {};
  }

  /// No rank begins to save before all have checked.
  Result<void> checkWeights() {
    if (Result<void> finite = checkFiniteWeights("the last step"); !finite)
      return finite;
    bool narrows = options.savesAny() && options.saveFloats != ElementType::F32;
    if (narrows)
      for (const SaveFile &save : options.saves())
        if (!save.path.empty())
          if (Result<void> fits = program->checkRange(save.what); !fits)
            return fits;
    return narrows || stopsAtNan(options, *plan->plan) ? job->barrier()
                                                       : Result<void>();
  }

  Result<void> checkFiniteWeights(const std::string &latest) const {
    if (!stopsAtNan(options, *plan->plan))
      return {};
    if (Result<void> finite = program->checkFinite(); !finite)
      return Error{finite.error().message + " after " + latest +
                       "; lower the learning rate, or go on with --allow-nan",
                   finite.error().fault};
    return {};
  }

  /// Measures the rates for the profile's floors. All ranks measure at the same
  /// time, as they also compute at the same time. The load by other processes
  /// varies, so the best of several measurements counts.
  Result<void> measureRates() {
    if (options.profile.empty())
      return {};
    if (Result<void> all = job->barrier(); !all)
      return all;
    POLYRANK_ASSIGN(measured, device->measureRates(narrowFactors(
                                  plan->program(programNumber()))));
    rates.flopsPerSecond =
        std::max(rates.flopsPerSecond, measured.flopsPerSecond);
    rates.bytesPerSecond =
        std::max(rates.bytesPerSecond, measured.bytesPerSecond);
    for (auto [factors, rate] : measured.narrow)
      rates.narrow[factors] = std::max(rates.narrow[factors], rate);
    return {};
  }

  Result<void> writeProfile() const {
    if (options.profile.empty() || connection.rank() != 0)
      return {};
    const Profile &profile = *program->profile();
    std::string text = options.json ? profile.json(*plan->plan, rates)
                                    : profile.table(*plan->plan, rates);
    Descriptor file(
        fcntl(connection.descriptors()[profileFile], F_DUPFD_CLOEXEC, 0));
    return writeAt(file, options.profile, 0, text.data(), text.size());
  }

  /// Ranks write one after another, each from the end of the file on.
  Result<void> writeTrace() {
    if (options.trace.empty())
      return {};
    Descriptor file(
        fcntl(connection.descriptors()[traceFile], F_DUPFD_CLOEXEC, 0));
    uint64_t position = 0;
    auto append = [&](std::string_view text) -> Result<void> {
      job->beat();
      Result<void> written =
          writeAt(file, options.trace, position, text.data(), text.size());
      position += text.size();
      return written;
    };
    int ranks = job->worldSize();
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == connection.rank()) {
        position = uint64_t(lseek(file.get(), 0, SEEK_END));
        if (rank == 0)
          if (Result<void> begun =
                  append(trace->prologue(rehearsal.has_value(), options.links));
              !begun)
            return begun;
        if (Result<void> written = trace->write(append); !written)
          return written;
        if (rank == ranks - 1)
          if (Result<void> ended = append(Trace::epilogue()); !ended)
            return ended;
      }
      if (Result<void> all = job->barrier(); !all)
        return all;
    }
    if (connection.rank() == 0)
      connection.report(
          {{"traced_steps",
            trace->firstLeftOut() ? trace->firstLeftOut() - 1 : steps}});
    return {};
  }

  void reportUse() const {
    RankUse use;
    ResidentMemory memory = residentMemory();
    use.peakResident = memory.peak;
    // Of the shared memory, only this rank's own region counts.
    uint64_t own = transport->sharedMemory().size;
    use.peakOwn =
        memory.peak - std::min(memory.peak, std::max(memory.shared, own) - own);
    const CommandTimes &times = program->times();
    use.communicationSeconds = 1e-9 * times.communication();
    use.computeSeconds = 1e-9 * times.total() - use.communicationSeconds;
    for (const CollectiveStatistics &kind : transport->statistics()) {
      use.sentBytes += kind.bytes;
      use.startingSeconds += 1e-9 * kind.startingNanoseconds;
      use.waitingSeconds += 1e-9 * kind.waitingNanoseconds;
    }
    connection.report({{"use", toJson(use)}});
  }

  SessionOptions options;
  const RankConnection &connection;
  std::optional<LoadedPlan> plan;
  std::unique_ptr<JobMember> job;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Device> device;
  std::optional<Rehearsal> rehearsal;
  std::unique_ptr<RankProgram> program;
  std::optional<CheckpointReader> resumed;
  std::optional<Weights> weights;
  std::optional<RunPage> page;
  std::optional<CheckpointLayout> layout;
  FileOperations files;
  std::unique_ptr<CheckpointSaver> saver; // destroyed before what it refers to
  std::optional<DataSource> data;
  std::unique_ptr<RankEvaluation> evaluation;
  /// Set if the samples of step `steps` + 1 cannot be read; an error if this
  /// rank cannot read them.
  std::optional<Result<void>> badData;
  DeviceRates rates;
  std::optional<Trace> trace;
  std::optional<StepMeter> meter;
  std::vector<Batch> batches; // of the steps, if each sample is taken once
  uint64_t steps = 0, samples = 0;
  uint64_t begunBatches = 0; // of all evaluations, reached by this rank
  uint64_t savedStep = 0;    // of the latest checkpoint
  uint64_t due = 0;          // saves that were due
  double waitedForDisk = 0;  // seconds
  std::chrono::steady_clock::time_point began =
      std::chrono::steady_clock::now();
  std::vector<OutputArray> outputs;
  Window window; // of what is saved, or of `outputs`
  std::optional<WindowRounds> saveRounds;
};

} // namespace

std::string describe(const std::exception &exception) {
  if (dynamic_cast<const std::bad_alloc *>(&exception))
    return outOfMemoryText;
  if (dynamic_cast<const std::system_error *>(&exception))
    return fmt::format("the system gives no more threads or memory (ulimit -u "
                       "and -v, or the control group's pids.max): {}",
                       exception.what());
  return exception.what();
}

int rankMain(const SessionOptions &options, const RankConnection &connection) {
  try {
    Rank rank(options, connection);
    Result<void> result = rank.run();
    return result ? connection.finish() : connection.fail(result.error());
  } catch (const std::exception &exception) {
    return connection.fail({describe(exception), Error::Fault::Rank});
  }
}

} // namespace polyrank::runtime
