// The time that each rank took for a step, and the slowest rank.

#pragma once

#include "runtime/report/Progress.h"

#include <map>
#include <optional>

namespace polyrank::runtime {

/// A rank's report of each step, if a log is kept. The text is short, since the
/// launcher reads one from every rank in every step.
void to_json(nlohmann::json &json, const RankStep &step);
void from_json(const nlohmann::json &json, RankStep &step);

/// Assembles a step from the reports of its ranks: the metrics of each
/// program's first rank and, with `everyRank`, the times of each rank. One rank
/// may be steps ahead of another.
class StepCollector {
public:
  StepCollector(int64_t ranks, uint32_t programs, bool everyRank)
      : ranks(ranks), programs(programs), everyRank(everyRank) {}

  /// Adds the metrics of one program. Once all programs have reported, returns
  /// the whole step, without the ranks' times.
  std::optional<StepReport> add(int rank, StepReport report);
  void add(int rank, const RankStep &step);

  /// Returns the steps with all reports, in order, each once.
  std::vector<StepReport> takeWhole();
  /// Returns the remaining steps of a run that has ended. Those that some ranks
  /// have not reported have no times.
  std::vector<StepReport> takeRest();

private:
  struct Pending {
    StepReport report;
    uint32_t programs = 0;       // that have reported the step
    std::vector<RankStep> ranks; // in the order in which they came
    std::vector<int> numbers;    // the ranks' numbers
  };
  StepReport finish(Pending pending) const;

  int64_t ranks;
  uint32_t programs;
  bool everyRank;
  std::map<uint64_t, Pending> pending; // by step
};

} // namespace polyrank::runtime
