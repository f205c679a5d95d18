// What the ranks of a run have told the launcher.

#pragma once

#include "runtime/session/EvaluationResults.h"
#include "runtime/session/RunCheckpoints.h"
#include "runtime/session/StepResults.h"

#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Takes the messages of ranks, shows what is whole, and keeps the rest until
/// the end of the run.
class RankReports {
public:
  /// All must outlive this object.
  RankReports(const Prepared &run, Progress &progress,
              RunCheckpoints &checkpoints);

  /// The ranks of the next attempt begin after evaluations with this result.
  void begin(const ManifestEvaluation &until);
  /// Takes a message. Returns the seconds of a step, if it is about one.
  Result<std::optional<double>> receive(int rank, const TaggedMessage &message);
  /// Discards what the ranks of a failed attempt have told.
  void forget();
  /// Shows the steps that have no times of all ranks, and ends the trace, once
  /// all ranks have ended.
  Result<void> finish();

  /// Set if no rank may go on (StepResults::failure), or if what they have
  /// traced cannot be written.
  const std::optional<Error> &failure() const {
    return notWritten ? notWritten : steps.failure();
  }
  /// Why a rank of this attempt could not load its checkpoint; empty if all
  /// could.
  const std::string &damage() const { return damaged; }
  /// By rank.
  const std::vector<RankUse> &uses() const { return used; }
  uint64_t tracedSteps() const { return traced; }
  /// True if the files of weights are written, although the run failed.
  bool isKept() const { return kept; }

private:
  void take(int rank, const ReadyReport &message);
  void take(int rank, const StepMessage &message);
  void take(int rank, const RankStep &message);
  void take(int rank, const SaveReport &message);
  void take(int rank, const ShardReport &message);
  void take(int rank, const DamageMessage &message);
  void take(int rank, const EvaluationReport &message);
  void take(int rank, const StuckMessage &message);
  void take(int rank, const PatienceReport &message);
  void take(int rank, const SkippedSaveMessage &message);
  void take(int rank, const KeptMessage &message);
  void take(int rank, const TracedMessage &message);
  void take(int rank, const TracePieceMessage &message);
  void take(int rank, const RankUse &message);
  Result<void> appendToTrace(std::string_view text) const;

  const Prepared &run;
  Progress &progress;
  RunCheckpoints &checkpoints;
  StepResults steps;
  EvaluationResults evaluations;
  std::string damaged;
  std::vector<RankUse> used;
  uint64_t traced = 0;
  std::optional<Error> notWritten;
  bool kept = false;
};

} // namespace polyrank::runtime
