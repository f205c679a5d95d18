// How long each rank took for a step, and who was slowest.

#pragma once

#include "runtime/report/Progress.h"

#include <map>
#include <optional>

namespace polyrank::runtime {

/// What a rank reports of each step where a log is kept. As text it is short:
/// the launcher reads one from every rank in every step.
nlohmann::json toJson(const RankStep &step);
RankStep rankStepFromJson(const nlohmann::json &json);

/// Puts a step together from what ranks say of it: the first rank of each
/// program its metrics, and with `everyRank` each rank its times. One rank may
/// be steps ahead of another.
class StepCollector {
public:
  StepCollector(int64_t ranks, uint32_t programs, bool everyRank)
      : ranks(ranks), programs(programs), everyRank(everyRank) {}

  /// The metrics of one program. Where it is the last of them, the whole step,
  /// without the times of ranks.
  std::optional<StepReport> add(int rank, StepReport report);
  void add(int rank, const RankStep &step);

  /// The steps of which all is known, in order, each once.
  std::vector<StepReport> takeWhole();
  /// Of a run that has ended, also those of which some ranks have said nothing:
  /// they are without times.
  std::vector<StepReport> takeRest();

private:
  struct Pending {
    StepReport report;
    uint32_t programs = 0;       // that have reported it
    std::vector<RankStep> ranks; // in the order in which they came
    std::vector<int> numbers;    // theirs
  };
  StepReport finish(Pending pending) const;

  int64_t ranks;
  uint32_t programs;
  bool everyRank;
  std::map<uint64_t, Pending> pending; // by step
};

} // namespace polyrank::runtime
