// What a rank has once it has loaded.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Links.h"
#include "runtime/exec/LoadCheckpoint.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/Rehearsal.h"
#include "runtime/exec/Weights.h"
#include "runtime/host/HostTeam.h"
#include "runtime/job/Job.h"
#include "runtime/job/Window.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/JobFiles.h"
#include "runtime/session/OutputArrays.h"
#include "runtime/session/RankMessage.h"
#include "runtime/session/RankParts.h"
#include "runtime/session/RunPage.h"
#include "runtime/session/SessionData.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Filled by RankLoader, and used by all that a rank does after it. Each member
/// may refer to those before it.
struct LoadedRank {
  LoadedRank(const SessionOptions &given, const RankConnection &connection,
             RankParts parts = {})
      : options(given), connection(connection), parts(std::move(parts)) {}

  SessionOptions options; // completed from the plan
  const RankConnection &connection;
  RankParts parts;
  std::optional<LoadedPlan> loaded;
  std::optional<RunPage> page;
  std::unique_ptr<JobMember> job;
  std::shared_ptr<const HostTeam> team;
  std::unique_ptr<Device> device;
  /// Keeps memory of the device.
  std::unique_ptr<Communicator> communicator;
  Group everyone;                     // all ranks, in their order
  std::optional<Rehearsal> rehearsal; // set with --rehearse
  std::optional<DataSource> data;     // if the plan needs samples
  std::unique_ptr<RankProgram> program;
  /// The weights before the first step, and the checkpoint from which they
  /// come. A rehearsal has none.
  std::optional<CheckpointReader> resumed;
  std::optional<Weights> weights;
  /// The batches of the steps if each sample is taken once. Otherwise empty,
  /// and step s takes batch s.
  std::vector<Batch> batches;
  uint64_t steps = 0; // of the run, those before a checkpoint included
  /// The tensors of --outputs for so many samples.
  std::vector<OutputArray> outputs;
  uint64_t samples = 0;
  /// Memory that all ranks fill: the outputs, or what is saved, in rounds.
  Window window;
  std::optional<WindowRounds> saveRounds;

  int rank() const { return connection.rank(); }
  const plan::Plan &plan() const { return *loaded->plan; }
  const RunPage::Facts &facts() const { return page->facts(); }
  /// The number of the program that this rank runs.
  uint32_t programNumber() const {
    return programOf(plan(), Mesh(plan()), rank());
  }
  bool isFirstOfProgram() const { return rank() == program->firstRank(); }

  /// The batch of a step, counted from 0.
  Batch batchOf(uint64_t step) const;
  void report(const RankMessage &message) const;
  /// Reports from rank 0 alone what is the same on all ranks.
  void reportOnce(const RankMessage &message) const;
  /// Returns when all ranks have called it.
  Result<void> awaitAll() { return job->barrier(); }
  /// Returns what each rank gave, once all have called it.
  Result<std::vector<uint64_t>> exchange(uint64_t value) {
    return communicator->exchange(everyone, value);
  }
  /// Tells the launcher that this rank makes progress outside commands.
  void beat() const { job->beat(); }
  /// The threads of `team`.
  ParallelFor parallelFor() const;
};

/// The same sources, which signal progress with each part that is read.
std::vector<StoredSource> beating(std::vector<StoredSource> sources,
                                  JobMember &job);

/// Fails if a file is not the one that the launcher found under its name, or
/// was written to since. `what` is the option, `launchers` the identity that
/// the launcher found; empty if it opened none.
Result<void> checkSameFile(const std::string &what, std::string_view launchers,
                           const Result<std::string> &found);

} // namespace polyrank::runtime
