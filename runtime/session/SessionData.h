// The samples of a session: which ones, and how many steps they are.

#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/feed/FeedRing.h"
#include "runtime/session/SessionOptions.h"

#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// The batches of a plan that a feed fills.
FeedLayout feedLayoutOf(const plan::Plan &plan);

/// The samples of the feeds that the options name, for whoever reads their
/// batches from `stream`.
DataSource openFeeds(const SessionOptions &options, const plan::Plan &plan,
                     std::shared_ptr<SampleStream> stream);

/// Opens the samples that a run reads, in the launcher and in all ranks. Feeds
/// are only named: ranks get their batches from the launcher.
Result<DataSource> openData(const SessionOptions &options,
                            const plan::Plan &plan);

/// Opens the samples that a training evaluates: those of --eval-data, or its
/// own holdout. `plan` is the evaluating plan.
Result<DataSource> openEvaluationData(const SessionOptions &options,
                                      const plan::Plan &plan);

/// Returns the fingerprint of the samples in the order in which the plan's
/// training takes them.
Result<std::string> fingerprintOf(const DataSource &data,
                                  const plan::Plan &plan);

/// Identifies the files of the samples, as 32 hex digits.
Result<std::string> identityOf(const DataSource &data);

/// Called in a rank. Fails unless the samples have the launcher's fingerprint:
/// a pattern may match other files a moment later.
Result<void> checkSameData(std::string_view launchers, const DataSource &data,
                           const plan::Plan &plan);

/// Returns the split that a run uses.
Split splitOf(const SessionOptions &options, const plan::Plan &plan);
/// True if each sample is taken once, including those that fill no whole batch:
/// for a forward plan with metrics, unless --steps or --epochs limit it.
bool evaluatesAll(const SessionOptions &options, const plan::Plan &plan);
/// Returns the batches of the steps of such a run. Empty for any other run,
/// whose step s takes batch s.
std::vector<Batch> evaluatedBatchesOf(const SessionOptions &options,
                                      const plan::Plan &plan,
                                      const DataSource &data);
uint64_t stepsOf(const SessionOptions &options, const plan::Plan &plan,
                 const DataSource &data);
/// Returns the number of samples for which these steps give outputs, each once.
uint64_t outputSamplesOf(const SessionOptions &options, const plan::Plan &plan,
                         const DataSource &data);

/// Returns the least number of steps that take `epochs` times `samples`
/// positions: the last batch may extend into the next epoch.
uint64_t stepsOfEpochs(double epochs, uint64_t samples, uint64_t batch);

} // namespace polyrank::runtime
