// The steps of loading, in their order.

#include "runtime/session/RankLoader.h"

#include "runtime/device/IdleDevice.h"
#include "runtime/device/MakeDevice.h"
#include "runtime/exec/SaveWeights.h"
#include "runtime/session/SessionJobs.h"

#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace polyrank::runtime {
namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

} // namespace

Result<std::unique_ptr<LoadedRank>> RankLoader::load() {
  if (Result<void> joined = join(); !joined)
    return joined.error();
  if (Result<void> made = makeProgram(); !made)
    return made.error();
  auto start = std::chrono::steady_clock::now();
  if (!rank->rehearsal) {
    bool resumes = rank->facts().resume[0];
    Result<void> loaded = resumes ? resume() : loadWeights();
    if (!loaded) {
      if (resumes && isDamage(loaded.error()))
        rank->report(DamageMessage{loaded.error().message});
      return loaded.error();
    }
  }
  took.weightsSeconds = secondsSince(start);
  if (Result<void> opened = openSamples(); !opened)
    return opened.error();
  if (Result<void> mapped = mapWindow(); !mapped)
    return mapped.error();
  return std::move(rank);
}

Result<void> RankLoader::join() {
  const std::vector<int> &files = rank->connection.descriptors();
  POLYRANK_ASSIGN(loaded, loadPlan(rank->options, files[planFile]));
  rank->loaded.emplace(std::move(loaded));
  POLYRANK_ASSIGN(completed, completeOptions(rank->options, rank->plan()));
  rank->options = completed;
  POLYRANK_ASSIGN(shared, RunPage::map(files[pageFile]));
  rank->page.emplace(std::move(shared));
  POLYRANK_ASSIGN(joined,
                  joinJob(rank->connection.job(), rank->connection.rank()));
  rank->job = std::move(joined);
  POLYRANK_ASSIGN(attached, rank->parts.attachCommunicator(
                                rank->connection, *rank->job, *rank->loaded,
                                /*evaluates=*/false));
  rank->communicator = std::move(attached);
  std::vector<int32_t> all(
      static_cast<size_t>(rank->communicator->worldSize()));
  std::iota(all.begin(), all.end(), 0);
  POLYRANK_ASSIGN(group, rank->communicator->createGroup(all));
  rank->everyone = group;
  return {};
}

Result<void> RankLoader::makeProgram() {
  const SessionOptions &options = rank->options;
  POLYRANK_ASSIGN(times, timesOf(options, *rank->loaded));
  if (Result<void> made = makeDevice(times.has_value()); !made)
    return made;
  // From here on this thread has the floating-point mode of the team's
  // threads.
  rank->communicator->setCommThreads(options.commThreads);
  auto start = std::chrono::steady_clock::now();
  POLYRANK_ASSIGN(links, linksOf(options, rank->plan()));
  if (times) {
    Rehearsal::makePunctual();
    rank->rehearsal.emplace(
        links.timesOver(*std::move(times),
                        *rank->loaded)[rank->programNumber()],
        *rank->communicator);
  }
  Rehearsal *rehearsal = rank->rehearsal ? &*rank->rehearsal : nullptr;
  POLYRANK_ASSIGN(created,
                  RankProgram::create(rank->plan(), *rank->device,
                                      *rank->communicator, options.seed,
                                      rehearsal ? Links() : links, rehearsal));
  rank->program = std::move(created);
  POLYRANK_ASSIGN(rates, ratesOf(options, rank->plan()));
  rank->program->setLearningRates(std::move(rates));
  took.memorySeconds = secondsSince(start);
  return {};
}

/// A rehearsal launches no kernels, so they may be for another machine.
Result<void> RankLoader::makeDevice(bool rehearses) {
  rank->team = makeTeam(rank->plan());
  rank->communicator->setParallelFor(rank->parallelFor());
  if (rehearses) {
    rank->device = std::make_unique<IdleDevice>();
    return {};
  }
  POLYRANK_ASSIGN(
      made, rank->parts.makeDevice(rank->plan(),
                                   rank->loaded->program(rank->programNumber()),
                                   rank->team));
  rank->device = std::move(made);
  return {};
}

Result<void> RankLoader::loadWeights() {
  const SessionOptions &options = rank->options;
  POLYRANK_ASSIGN(opened, Weights::open(*rank->loaded, options.init));
  const Weights &weights = rank->weights.emplace(std::move(opened));
  // Each machine has files of its own.
  RankRange here = rank->job->here();
  if (Result<void> same = weights.checkDigests(
          uint64_t(rank->rank() - here.first), uint64_t(here.count));
      !same)
    return same;
  if (Result<void> loaded = rank->program->loadParameters(beating(
          options.allowNan ? weights.sources() : weights.sourcesWithoutNan(),
          *rank->job));
      !loaded)
    return loaded;
  return checkSameFile("--init " + options.init, rank->facts().init,
                       weights.identity());
}

Result<void> RankLoader::resume() {
  POLYRANK_ASSIGN(found, openCheckpoint(rank->facts().resume));
  rank->resumed.emplace(std::move(found));
  POLYRANK_ASSIGN(loaded, weightsOf(*rank->loaded, *rank->resumed));
  rank->weights.emplace(std::move(loaded));
  return loadCheckpoint(*rank->program, rank->plan(), *rank->resumed,
                        rank->facts().resetOptimizer, [this] { rank->beat(); });
}

Result<void> RankLoader::openSamples() {
  const SessionOptions &options = rank->options;
  rank->steps = options.steps;
  if (options.samples().empty())
    return {};
  if (options.hasFeeds())
    return openFeed();
  POLYRANK_ASSIGN(source, openData(options, rank->plan()));
  const DataSource &data = rank->data.emplace(std::move(source));
  if (Result<void> same = checkSameData(rank->facts().data, data, rank->plan());
      !same)
    return same;
  // The fingerprint knows a few samples; these are all of the same files.
  if (Result<void> same = checkSameFile(
          fmt::format("--data {}", fmt::join(options.samples(), ",")),
          rank->facts().samples, identityOf(data));
      !same)
    return same;
  rank->steps = stepsOf(options, rank->plan(), data);
  rank->batches = evaluatedBatchesOf(options, rank->plan(), data);
  return {};
}

Result<void> RankLoader::openFeed() {
  FeedLayout layout = feedLayoutOf(rank->plan());
  POLYRANK_ASSIGN(ring, FeedRing::map(rank->connection.descriptors()[feedFile],
                                      layout, rank->job->worldSize()));
  rank->data.emplace(
      openFeeds(rank->options, rank->plan(),
                std::make_shared<RingStream>(std::move(ring), std::move(layout),
                                             rank->rank())));
  rank->steps = stepsOf(rank->options, rank->plan(), *rank->data);
  return {};
}

Result<void> RankLoader::mapWindow() {
  const SessionOptions &options = rank->options;
  uint64_t bytes = 0;
  const char *what = "outputs";
  if (!options.outputs.empty()) {
    rank->samples = outputSamplesOf(options, rank->plan(), *rank->data);
    rank->outputs = outputArraysOf(rank->plan(), rank->samples);
    bytes = bytesOf(rank->outputs);
  }
  if (options.savesAny()) {
    bytes = saveMemoryBytes;
    what = "what is saved";
  }
  if (bytes == 0)
    return {};
  POLYRANK_ASSIGN(
      mapped,
      Window::map(rank->connection.descriptors()[windowFile], bytes, what));
  rank->window = std::move(mapped);
  if (options.savesAny())
    rank->saveRounds.emplace(rank->window.data(), saveMemoryParts, *rank->job);
  return {};
}

} // namespace polyrank::runtime
