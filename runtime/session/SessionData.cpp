// Opens samples, and counts steps.

#include "runtime/session/SessionData.h"

#include "runtime/checkpoint/Checksum.h"
#include "runtime/exec/DataFingerprint.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace polyrank::runtime {

uint64_t stepsOfEpochs(double epochs, uint64_t samples, uint64_t batch) {
  double exact =
             epochs * static_cast<double>(samples) / static_cast<double>(batch),
         whole = std::round(exact);
  // 0.1 of 30 samples are 3, although the double is a little more.
  bool isWhole = std::abs(exact - whole) <= 1e-12 * exact;
  return std::max<uint64_t>(1, uint64_t(isWhole ? whole : std::ceil(exact)));
}

FeedLayout feedLayoutOf(const plan::Plan &plan) {
  return {inputSpecsOf(plan), plan.samples_per_step()};
}

DataSource openFeeds(const SessionOptions &options, const plan::Plan &plan,
                     std::shared_ptr<SampleStream> stream) {
  std::vector<FeedSource> feeds = options.feeds();
  return DataSource::ofStream(std::move(stream), describe(feeds),
                              mixtureOf(feeds), plan.samples_per_step());
}

Result<DataSource> openData(const SessionOptions &options,
                            const plan::Plan &plan) {
  if (options.hasFeeds())
    return openFeeds(options, plan, nullptr);
  DataOptions data;
  data.paths = options.samples();
  data.tokenType = options.tokenType;
  data.documents = options.documents;
  data.batch = plan.samples_per_step();
  data.order = options.order;
  data.seed = options.seed;
  data.holdout = options.holdout;
  data.allowPart = evaluatesAll(options, plan);
  std::vector<InputSpec> specs = inputSpecsOf(plan);
  POLYRANK_ASSIGN(source, DataSource::open(data, specs));
  if (source.hasWeights() && plan.mode() == plan::Mode::Forward)
    return Error{"a forward plan takes each sample once, so weights of sources "
                 "say nothing: give --data without them"};
  return std::move(source);
}

Result<DataSource> openEvaluationData(const SessionOptions &options,
                                      const plan::Plan &plan) {
  DataOptions data;
  bool own = options.evalData.empty();
  data.paths = own ? options.samples() : options.evalData;
  data.tokenType = options.tokenType;
  data.documents = options.documents;
  data.batch = plan.samples_per_step();
  data.order = SampleOrder::Sequential;
  data.holdout = own ? options.holdout : 0;
  data.allowPart = true;
  std::vector<InputSpec> specs = inputSpecsOf(plan);
  POLYRANK_ASSIGN(source, DataSource::open(data, specs));
  if (source.hasWeights() && !own)
    return Error{"--eval-data: each sample counts once, so weights of sources "
                 "say nothing: leave them out"};
  return std::move(source);
}

Result<std::string> fingerprintOf(const DataSource &data,
                                  const plan::Plan &plan) {
  if (data.isStream())
    return digestOf(data.mixture());
  return fingerprintOf(data, inputSpecsOf(plan), plan.samples_per_step());
}

Result<std::string> identityOf(const DataSource &data) {
  POLYRANK_ASSIGN(files, data.identity());
  return digestOf(files);
}

Result<void> checkSameData(std::string_view launchers, const DataSource &data,
                           const plan::Plan &plan) {
  POLYRANK_ASSIGN(found, fingerprintOf(data, plan));
  if (found != launchers)
    return Error{fmt::format("the data files changed while the run started: "
                             "this rank finds {}, the launcher found {}",
                             found, launchers)};
  return {};
}

Split splitOf(const SessionOptions &options, const plan::Plan &plan) {
  return plan.mode() == plan::Mode::Forward && options.holdout > 0
             ? Split::Holdout
             : Split::Train;
}

bool evaluatesAll(const SessionOptions &options, const plan::Plan &plan) {
  if (plan.mode() != plan::Mode::Forward || options.steps || options.epochs > 0)
    return false;
  for (const plan::Program *program : *plan.programs())
    for (const plan::Output *output : *program->outputs())
      if (output->kind() == plan::OutputKind::Metric)
        return true;
  return false;
}

std::vector<Batch> evaluatedBatchesOf(const SessionOptions &options,
                                      const plan::Plan &plan,
                                      const DataSource &data) {
  if (!evaluatesAll(options, plan))
    return {};
  return data.batchesOfAll(splitOf(options, plan));
}

uint64_t stepsOf(const SessionOptions &options, const plan::Plan &plan,
                 const DataSource &data) {
  if (options.steps)
    return options.steps;
  if (data.isStream())
    return SessionOptions::stepsUntilTheEnd;
  uint64_t batch = plan.samples_per_step();
  if (options.epochs > 0)
    return stepsOfEpochs(options.epochs, data.samples(Split::Train), batch);
  if (evaluatesAll(options, plan))
    return evaluatedBatchesOf(options, plan, data).size();
  uint64_t samples = data.samples(splitOf(options, plan));
  // With --outputs every sample needs an output.
  return options.outputs.empty() ? samples / batch
                                 : (samples + batch - 1) / batch;
}

uint64_t outputSamplesOf(const SessionOptions &options, const plan::Plan &plan,
                         const DataSource &data) {
  uint64_t samples = data.samples(splitOf(options, plan)), upTo = 0;
  if (evaluatesAll(options, plan))
    return samples;
  bool all = __builtin_mul_overflow(stepsOf(options, plan, data),
                                    plan.samples_per_step(), &upTo);
  return all ? samples : std::min(samples, upTo);
}

} // namespace polyrank::runtime
