// Progress line, JSON lines, summaries.

#include "runtime/report/Progress.h"

#include "runtime/report/LogFile.h"
#include "runtime/report/Messages.h"
#include "support/ByteText.h"
#include "support/Failpoint.h"
#include "support/Names.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <stdexcept>
#include <unistd.h>

namespace polyrank::runtime {
namespace {

/// A smaller share of a step is not shown: it is that of copying the samples.
constexpr double leastDataShare = 0.01;

std::string durationText(double seconds) {
  auto whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole >= 3600)
    return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string rateText(double rate) {
  if (rate >= 1e6)
    return fmt::format("{:.2f}M", rate / 1e6);
  if (rate >= 1e4)
    return fmt::format("{:.1f}k", rate / 1e3);
  return fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0);
}

std::string countText(double count) {
  if (count >= 1e9)
    return fmt::format("{:.2f}B", count / 1e9);
  if (count >= 1e6)
    return fmt::format("{:.1f}M", count / 1e6);
  if (count >= 1e4)
    return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

} // namespace

void to_json(nlohmann::json &json, const ReadyReport &ready) {
  json = {{"memory", ready.memorySeconds}, {"weights", ready.weightsSeconds}};
}

void from_json(const nlohmann::json &json, ReadyReport &ready) {
  json.at("memory").get_to(ready.memorySeconds);
  json.at("weights").get_to(ready.weightsSeconds);
}

void to_json(nlohmann::json &json, const SaveReport &saving) {
  json = {{"path", saving.path},
          {"done", saving.done},
          {"bytes", saving.bytes},
          {"seconds", saving.seconds}};
}

void from_json(const nlohmann::json &json, SaveReport &saving) {
  json.at("path").get_to(saving.path);
  json.at("done").get_to(saving.done);
  json.at("bytes").get_to(saving.bytes);
  json.at("seconds").get_to(saving.seconds);
}

const double *StepReport::metric(std::string_view name) const {
  for (auto &[known, value] : metrics)
    if (known == name)
      return &value;
  return nullptr;
}

const double *StepReport::targetsOf(std::string_view name) const {
  return metric(countName(name));
}

bool StepReport::isCount(std::string_view name) const {
  return std::any_of(metrics.begin(), metrics.end(), [&](const auto &metric) {
    return countName(metric.first) == name;
  });
}

void StepReport::countOnce() {
  for (auto &[name, value] : metrics)
    if (isCount(name))
      value *= share;
}

std::string_view StepReport::withoutTargets() const {
  for (auto &[name, value] : metrics)
    if (const double *targets = targetsOf(name); targets && *targets == 0)
      return name;
  return {};
}

bool StepReport::hasTargets() const {
  // With a single term the count is the loss's own.
  const double *targets = targetsOf("loss");
  return targets ? *targets != 0 : withoutTargets().empty();
}

bool StepReport::isSkipped() const {
  const double *skipped = metric("skipped");
  return skipped && *skipped != 0;
}

bool StepReport::isStuck() const {
  const double *skipped = metric("skipped");
  return skipped && *skipped == 2;
}

bool StepReport::lossIsNan() const {
  const double *loss = metric("loss");
  return loss && std::isnan(*loss) && hasTargets() && !isSkipped();
}

static nlohmann::ordered_json toJson(int rank, const RankStep &step) {
  return {{"rank", rank},
          {"seconds", step.seconds},
          {"compute_seconds", step.computeSeconds},
          {"communication_seconds", step.communicationSeconds},
          {"waiting_seconds", step.waitingSeconds},
          {"data_seconds", step.dataSeconds}};
}

/// Returns a number as text, because JSON has no NaN.
static std::string numberText(double value) { return fmt::format("{}", value); }

static double numberFrom(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end)
    throw std::invalid_argument(fmt::format("'{}' is no number", text));
  return value;
}

static nlohmann::json
toTexts(const std::vector<std::pair<std::string, double>> &numbers) {
  nlohmann::json texts = nlohmann::json::array();
  for (auto &[name, value] : numbers)
    texts.push_back({name, numberText(value)});
  return texts;
}

static std::vector<std::pair<std::string, double>>
fromTexts(const nlohmann::json &texts) {
  std::vector<std::pair<std::string, double>> numbers;
  for (const nlohmann::json &entry : texts)
    numbers.emplace_back(entry.at(0).get<std::string>(),
                         numberFrom(entry.at(1).get<std::string>()));
  return numbers;
}

void to_json(nlohmann::json &json, const StepReport &step) {
  json = {{"step", step.step},
          {"seconds", step.seconds},
          {"data", step.dataSeconds},
          {"communication", step.communicationShare},
          {"metrics", toTexts(step.metrics)},
          {"learning_rates", toTexts(step.learningRates)},
          {"share", step.share}};
}

void from_json(const nlohmann::json &json, StepReport &step) {
  json.at("step").get_to(step.step);
  json.at("seconds").get_to(step.seconds);
  json.at("data").get_to(step.dataSeconds);
  json.at("communication").get_to(step.communicationShare);
  step.metrics = fromTexts(json.at("metrics"));
  step.learningRates = fromTexts(json.at("learning_rates"));
  json.at("share").get_to(step.share);
}

Result<std::unique_ptr<Progress>>
Progress::open(const PlanReport &plan, const ProgressOptions &options) {
  std::unique_ptr<Progress> progress(new Progress(plan, options));
  progress->terminal = isatty(STDERR_FILENO);
  if (!options.log.empty()) {
    if (Result<void> opened = progress->openLog(); !opened)
      return opened.error();
  }
  if (!options.tensorboard.empty())
    if (Result<void> opened = progress->openEvents(); !opened)
      return opened.error();
  return progress;
}

Result<void> Progress::openLog() {
  if (options.stepsBefore)
    if (Result<void> dropped = dropRecordsAfter(
            options.log, options.stepsBefore, options.evaluatesAgain);
        !dropped)
      return dropped;
  log = std::fopen(options.log.c_str(), options.stepsBefore ? "ae" : "we");
  if (!log)
    return Error{fmt::format("cannot write the log '{}': {}", options.log,
                             std::strerror(errno))};
  if (!options.run.is_null())
    append(options.run);
  return {};
}

Result<void> Progress::openEvents() {
  POLYRANK_ASSIGN(
      created, EventFile::create(options.tensorboard, options.stepsBefore + 1));
  events.emplace(std::move(created));
  return {};
}

Result<void> Progress::startAfter(uint64_t step, bool evaluatesAgain) {
  options.stepsBefore = latest = step;
  options.evaluatesAgain = evaluatesAgain;
  repeatsUpTo = evaluatedUpTo = 0;
  if (log && logFailure == 0) {
    std::fclose(log);
    log = nullptr;
    if (!options.run.is_null())
      options.run["run"]["first_step"] = step + 1;
    if (Result<void> opened = openLog(); !opened)
      return opened;
  }
  return events ? openEvents() : Result<void>();
}

Progress::~Progress() {
  if (log)
    std::fclose(log);
}

void Progress::startAgain(uint32_t time) {
  complete.clear();
  repeatsUpTo = latest;
  append({{"restart", time}});
}

void Progress::step(const StepReport &report) {
  StepReport step = report;
  step.countOnce();
  if (step.step <= repeatsUpTo) {
    if (isDue())
      show(step);
    return;
  }
  latest = step.step;
  ++done;
  updates += !step.isSkipped();
  timeInSteps += step.seconds;
  timeOfData += step.dataSeconds;
  samplesDone += plan.samplesPerStep * step.share;
  if (done == 1)
    firstSeconds = step.seconds;
  else if (done == 2 || step.seconds < leastSeconds)
    leastSeconds = step.seconds;
  lastMetrics = step.metrics;
  nlohmann::ordered_json line{{"step", step.step}};
  if (options.isRehearsal)
    line["rehearsed"] = true;
  std::vector<std::string> notFinite;
  for (size_t i = 0; i < step.metrics.size(); ++i) {
    auto &[name, value] = step.metrics[i];
    bool isCount = step.isCount(name);
    if (std::isfinite(value))
      line[name] = value;
    else
      line[name] = nullptr, notFinite.push_back(name);
    if (sums.size() <= i)
      sums.push_back({name, 0, 0, isCount});
    if (isCount) {
      sums[i].sum += value;
      continue;
    }
    const double *targets = step.targetsOf(name);
    // A loss of several terms has no count; if one of the terms has no targets
    // it is NaN.
    bool ofNothing = name == "loss" && std::isnan(value) && !step.hasTargets();
    double weight = targets ? *targets : ofNothing ? 0 : step.share;
    if (step.isSkipped() && !std::isfinite(value))
      weight = 0;    // a mean over the other steps
    if (weight != 0) // else it is a mean over nothing
      sums[i].sum += (isGeometric(name) ? std::log(value) : value) * weight;
    sums[i].weight += weight;
  }
  if (!notFinite.empty())
    line["not_finite"] = notFinite;
  for (auto &[name, rate] : step.learningRates)
    line[name] = rate;
  line["seconds"] = step.seconds;
  double samples =
      step.seconds > 0 ? plan.samplesPerStep * step.share / step.seconds : 0;
  line["samples_per_second"] = samples;
  if (plan.tokensPerSample)
    line["tokens_per_second"] = samples * plan.tokensPerSample;
  line["communication_share"] = step.communicationShare;
  line["data_seconds"] = step.dataSeconds;
  if (step.spread) {
    line["slowest"] = toJson(step.spread->slowest, step.spread->ofSlowest);
    line["fastest"] = toJson(step.spread->fastest, step.spread->ofFastest);
    line["resident_bytes"] = step.spread->residentBytes;
  }
  append(line);
  addEvents(step, samples);
  // Numbers of a skipped step that are not finite harm nothing.
  if (!notFinite.empty() && !step.isSkipped() &&
      !(options.endsAtNan && step.lossIsNan()))
    warn(step, notFinite);
  if (isDue() || (!options.quiet && (done == 1 || step.step == options.steps)))
    show(step);
}

void EvaluationReport::add(const EvaluationReport &other) {
  seconds = std::max(seconds, other.seconds);
  for (const auto &metric : other.metrics)
    if (std::none_of(metrics.begin(), metrics.end(), [&](const auto &known) {
          return known.first == metric.first;
        }))
      metrics.push_back(metric);
}

void to_json(nlohmann::json &json, const EvaluationReport &report) {
  json = {{"step", report.step},
          {"samples", report.samples},
          {"seconds", report.seconds},
          {"metrics", toTexts(report.metrics)}};
}

void from_json(const nlohmann::json &json, EvaluationReport &report) {
  json.at("step").get_to(report.step);
  json.at("samples").get_to(report.samples);
  json.at("seconds").get_to(report.seconds);
  report.metrics = fromTexts(json.at("metrics"));
}

void to_json(nlohmann::json &json, const PatienceReport &report) {
  json = {{"step", report.step},
          {"best_step", report.bestStep},
          {"best_loss", numberText(report.bestLoss)}};
}

void from_json(const nlohmann::json &json, PatienceReport &report) {
  json.at("step").get_to(report.step);
  json.at("best_step").get_to(report.bestStep);
  report.bestLoss = numberFrom(json.at("best_loss").get<std::string>());
}

void Progress::evaluated(const EvaluationReport &report) {
  // An evaluation that is repeated after a restart was logged before, unless a
  // rank died before it was complete.
  if (report.step <= evaluatedUpTo)
    return;
  evaluatedUpTo = report.step;
  evaluation = report;
  nlohmann::ordered_json values{{"step", report.step}};
  std::string text = fmt::format("after step {}:", report.step);
  for (auto &[name, value] : report.metrics) {
    if (std::isfinite(value))
      values[name] = value;
    else
      values[name] = nullptr;
    text += fmt::format("  {} {:.6g}", name, value);
  }
  values["samples"] = report.samples;
  values["seconds"] = report.seconds;
  append({{"eval", values}});
  std::vector<std::pair<std::string, double>> scalars;
  for (auto &[name, value] : report.metrics)
    scalars.emplace_back("eval/" + name.substr(name.find('_') + 1), value);
  addEvents(report.step, scalars);
  if (!options.quiet)
    tell(fmt::format("{}{}  ({} samples in {:.2f} s)\n", lineOpen ? "\n" : "",
                     text, report.samples, report.seconds));
  lineOpen = false;
}

void Progress::stopped(const PatienceReport &report) {
  warn(fmt::format("the run ends after step {}: eval_loss is not smaller than "
                   "after step {} any more, when it was {:.6g} (--patience)",
                   report.step, report.bestStep, report.bestLoss));
}

/// Appends to the log, if there is one and it can be written.
void Progress::append(const nlohmann::ordered_json &record) {
  if (!log || logFailure)
    return;
  std::string text =
      record.dump(-1, ' ', false,
                  nlohmann::ordered_json::error_handler_t::replace) +
      "\n";
  int failing = failpoint("log.before_write");
  if (failing)
    errno = failing;
  if (failing || std::fwrite(text.data(), 1, text.size(), log) != text.size() ||
      std::fflush(log) != 0) {
    logFailure = errno;
    tell(fmt::format("{}polyrank-run: cannot write the log '{}': {}; the run "
                     "goes on without it\n",
                     lineOpen ? "\n" : "", options.log,
                     std::strerror(logFailure)));
    lineOpen = false;
  }
}

void Progress::addEvents(const StepReport &step, double samplesPerSecond) {
  if (!events)
    return;
  std::vector<std::pair<std::string, double>> scalars;
  for (auto &[name, value] : step.metrics)
    scalars.emplace_back("train/" + name, value);
  for (auto &[name, value] : step.learningRates)
    scalars.emplace_back("train/" + name, value);
  scalars.emplace_back("speed/seconds", step.seconds);
  scalars.emplace_back("speed/samples_per_second", samplesPerSecond);
  if (plan.tokensPerSample)
    scalars.emplace_back("speed/tokens_per_second",
                         samplesPerSecond *
                             static_cast<double>(plan.tokensPerSample));
  scalars.emplace_back("speed/communication_share", step.communicationShare);
  scalars.emplace_back("speed/data_seconds", step.dataSeconds);
  if (step.spread) {
    scalars.emplace_back("speed/busy_seconds_of_slowest",
                         step.spread->ofSlowest.busySeconds());
    scalars.emplace_back("speed/busy_seconds_of_fastest",
                         step.spread->ofFastest.busySeconds());
    scalars.emplace_back("memory/resident_bytes",
                         static_cast<double>(step.spread->residentBytes));
  }
  addEvents(step.step, scalars);
}

void Progress::addEvents(
    uint64_t step, const std::vector<std::pair<std::string, double>> &scalars) {
  if (!events || eventFailure)
    return;
  if (Result<void> added = events->add(step, scalars); !added) {
    eventFailure = added.error();
    tell(fmt::format("{}polyrank-run: {}; the run goes on without events\n",
                     lineOpen ? "\n" : "", added.error().message));
    lineOpen = false;
  }
}

void Progress::checkpoint(const CheckpointReport &report) {
  checkpointed.push_back(report);
  append({{"checkpoint",
           {{"step", report.step},
            {"path", report.path},
            {"bytes", report.bytes},
            {"copy_seconds", report.copySeconds},
            {"write_seconds", report.writeSeconds}}}});
}

bool Progress::isGeometric(const std::string &metric) const {
  return plan.geometricMetrics.contains(metric);
}

bool Progress::isDue() {
  return !options.quiet && std::chrono::steady_clock::now() - lastShown >=
                               std::chrono::milliseconds(terminal ? 100 : 1000);
}

void Progress::ready(const ReadyReport &report) {
  if (!options.quiet)
    tell(
        fmt::format("ready: {}{} of memory on each rank in {:.1f} s{}\n",
                    plan.programs.size() > 1 ? "up to " : "",
                    bytesText(plan.valueBytes()), report.memorySeconds,
                    options.isRehearsal
                        ? ""
                        : fmt::format(", weights read and compared in {:.1f} s",
                                      report.weightsSeconds)));
}

void Progress::saving(const SaveReport &report) {
  if (report.seconds > 0)
    complete.push_back(report);
  else if (isDue())
    print(report.done < report.bytes
              ? fmt::format("saving {}  {:.0f} % of {}", report.path,
                            100.0 * static_cast<double>(report.done) /
                                static_cast<double>(report.bytes),
                            bytesText(report.bytes))
              : fmt::format("saving {}  waiting for the disk", report.path));
}

void Progress::warn(const StepReport &step,
                    const std::vector<std::string> &notFinite) {
  std::string_view without = step.withoutTargets();
  bool &reported = without.empty() ? reportedNotFinite : reportedNoTargets;
  if (reported)
    return;
  reported = true;
  tell(fmt::format(
      "{}polyrank-run: step {}: {}\n", lineOpen ? "\n" : "", step.step,
      without.empty()
          ? fmt::format("{} is not finite; lower the learning rate, or look at "
                        "the data of this step",
                        fmt::join(notFinite, ", "))
      : without == "loss"
          ? "no label of this step counts, all are to be ignored: the loss is "
            "NaN and the gradients are zero"
          : fmt::format("no label of {} counts in this step, all are to be "
                        "ignored: it is NaN, and no gradient comes from it",
                        without)));
  lineOpen = false;
}

void Progress::show(const StepReport &step) {
  std::string line = options.steps
                         ? fmt::format("step {}/{}", step.step, options.steps)
                         : fmt::format("step {}", step.step);
  for (auto &[name, value] : step.metrics)
    if (name == "loss")
      line += fmt::format("  loss {:.4f}",
                          std::isnan(value) ? std::fabs(value) : value);
  double mean = secondsPerStep();
  if (options.isRehearsal)
    line += fmt::format("  {:.2f} ms", 1e3 * step.seconds);
  double samples = mean > 0 ? plan.samplesPerStep / mean : 0;
  line += plan.tokensPerSample
              ? fmt::format("  {} tokens/s",
                            rateText(samples * plan.tokensPerSample))
              : fmt::format("  {} samples/s", rateText(samples));
  line +=
      fmt::format("  communication {:.0f} %", 100 * step.communicationShare);
  if (double share = step.seconds > 0 ? step.dataSeconds / step.seconds : 0;
      share >= leastDataShare)
    line += fmt::format("  data {:.0f} %", 100 * share);
  if (const double *skipped = step.metric("skipped_total");
      skipped && *skipped > 0)
    line += fmt::format("  skipped {:.0f}", *skipped);
  if (options.steps > step.step)
    line += fmt::format("  left {}",
                        durationText(mean * (options.steps - step.step)));
  print(line);
}

void Progress::print(const std::string &line) {
  lastShown = std::chrono::steady_clock::now();
  if (terminal)
    tellProgress("\r\033[K" + line);
  else
    tellProgress(line + "\n");
  lineOpen = terminal;
}

double Progress::secondsPerStep() const {
  return done > 1 ? (timeInSteps - firstSeconds) / static_cast<double>(done - 1)
                  : timeInSteps;
}

void Progress::warn(const std::string &message) {
  tell(fmt::format("{}polyrank-run: {}\n", lineOpen ? "\n" : "", message));
  lineOpen = false;
}

Result<void> Progress::close() {
  if (lineOpen)
    tell("\n");
  lineOpen = false;
  if (log) {
    if (std::fclose(log) != 0 && logFailure == 0)
      logFailure = errno;
    log = nullptr;
  }
  if (logFailure)
    return Error{fmt::format("cannot write the log '{}': {}", options.log,
                             std::strerror(logFailure)),
                 Error::Fault::Disk};
  return eventFailure ? Result<void>(*eventFailure) : Result<void>();
}

std::vector<std::pair<std::string, double>> Progress::means() const {
  std::vector<std::pair<std::string, double>> result;
  for (const WeightedMean &mean : sums) {
    if (mean.isCount)
      continue;
    double value = mean.sum / mean.weight;
    result.emplace_back(mean.name,
                        isGeometric(mean.name) ? std::exp(value) : value);
  }
  return result;
}

std::vector<std::pair<std::string, double>> Progress::totals() const {
  std::vector<std::pair<std::string, double>> result;
  for (const WeightedMean &mean : sums)
    if (mean.isCount)
      result.emplace_back(mean.name, mean.sum);
  return result;
}

bool Progress::meanLossIsNan() const {
  for (auto &[name, mean] : means())
    if (name == "loss" && options.endsAtNan && updates > 0)
      return std::isnan(mean);
  return false;
}

void to_json(nlohmann::json &json, const RankUse &use) {
  json = {{"peak_resident", use.peakResident},
          {"peak_own", use.peakOwn},
          {"compute_seconds", use.computeSeconds},
          {"communication_seconds", use.communicationSeconds},
          {"data_seconds", use.dataSeconds},
          {"starting_seconds", use.startingSeconds},
          {"waiting_seconds", use.waitingSeconds},
          {"sent_bytes", use.sentBytes}};
}

void from_json(const nlohmann::json &json, RankUse &use) {
  json.at("peak_resident").get_to(use.peakResident);
  json.at("peak_own").get_to(use.peakOwn);
  json.at("compute_seconds").get_to(use.computeSeconds);
  json.at("communication_seconds").get_to(use.communicationSeconds);
  json.at("data_seconds").get_to(use.dataSeconds);
  json.at("starting_seconds").get_to(use.startingSeconds);
  json.at("waiting_seconds").get_to(use.waitingSeconds);
  json.at("sent_bytes").get_to(use.sentBytes);
}

void StepReport::add(const StepReport &other) {
  seconds = std::max(seconds, other.seconds);
  dataSeconds = std::max(dataSeconds, other.dataSeconds);
  auto addNew = [](auto &to, const auto &from) {
    for (auto &entry : from)
      if (std::none_of(to.begin(), to.end(),
                       [&](auto &known) { return known.first == entry.first; }))
        to.push_back(entry);
  };
  addNew(metrics, other.metrics);
  addNew(learningRates, other.learningRates);
}

std::string describeStart(const PlanReport &plan) {
  std::string text = fmt::format(
      "{} on {} rank{}{} x {} thread{}: {} parameters, {} samples per step in "
      "{} microbatch{}\n",
      plan.model.empty() ? "plan" : plan.model, plan.ranks,
      plan.ranks == 1 ? "" : "s",
      plan.mesh.empty() ? "" : " (" + plan.mesh + ")", plan.threads,
      plan.threads == 1 ? "" : "s",
      countText(static_cast<double>(plan.parameterElements)),
      plan.samplesPerStep, plan.microbatches,
      plan.microbatches == 1 ? "" : "es");
  for (const ProgramReport &program : plan.programs)
    text += fmt::format(
        "each rank{}: {} parameters, {} state, {} for all values\n",
        program.place.empty() ? "" : " at " + program.place,
        bytesText(program.parameterBytes), bytesText(program.stateBytes),
        bytesText(program.valueBytes()));
  return text;
}

std::string describeEnd(const PlanReport &plan, const Mesh &mesh,
                        const std::vector<RankUse> &ranks) {
  std::string text =
      fmt::format("{:<30}{:>12}{:>12}{:>12}{:>14}{:>9}\n", "", "planned",
                  "memory", "sent", "communication", "data");
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankUse &use = ranks[rank];
    double all =
        use.computeSeconds + use.communicationSeconds + use.dataSeconds;
    text += fmt::format(
        "{:<30}{:>12}{:>12}{:>12}{:>12.1f} %{:>7.1f} %\n",
        mesh.describeRank(static_cast<int64_t>(rank)),
        bytesText(plan.programOf(static_cast<int64_t>(rank)).valueBytes()),
        bytesText(use.peakOwn), bytesText(use.sentBytes),
        all > 0 ? 100 * use.communicationSeconds / all : 0,
        all > 0 ? 100 * use.dataSeconds / all : 0);
  }
  return text;
}

} // namespace polyrank::runtime
