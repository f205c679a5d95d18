// Assembles the reports of a step.

#include "runtime/report/RankSteps.h"

#include <algorithm>

namespace polyrank::runtime {

void to_json(nlohmann::json &json, const RankStep &step) {
  json = nlohmann::json::array({step.step, step.seconds, step.computeSeconds,
                                step.communicationSeconds, step.waitingSeconds,
                                step.dataSeconds, step.residentBytes});
}

void from_json(const nlohmann::json &json, RankStep &step) {
  json.at(0).get_to(step.step);
  json.at(1).get_to(step.seconds);
  json.at(2).get_to(step.computeSeconds);
  json.at(3).get_to(step.communicationSeconds);
  json.at(4).get_to(step.waitingSeconds);
  json.at(5).get_to(step.dataSeconds);
  json.at(6).get_to(step.residentBytes);
}

std::optional<StepReport> StepCollector::add(int rank, StepReport report) {
  Pending &step = pending[report.step];
  if (step.programs == 0) {
    step.report = std::move(report);
  } else {
    if (rank == 0)
      step.report.communicationShare = report.communicationShare;
    step.report.add(report);
  }
  if (++step.programs < programs)
    return std::nullopt;
  return step.report;
}

void StepCollector::add(int rank, const RankStep &step) {
  Pending &of = pending[step.step];
  of.ranks.push_back(step);
  of.numbers.push_back(rank);
}

StepReport StepCollector::finish(Pending step) const {
  StepReport report = std::move(step.report);
  if (static_cast<int64_t>(step.ranks.size()) < ranks)
    return report;
  // The slowest rank is the one for which the others wait.
  auto isLess = [](const RankStep &a, const RankStep &b) {
    return a.busySeconds() < b.busySeconds();
  };
  auto numberOf = [&](auto found) {
    return step.numbers[static_cast<size_t>(found - step.ranks.begin())];
  };
  auto slowest = std::max_element(step.ranks.begin(), step.ranks.end(), isLess),
       fastest = std::min_element(step.ranks.begin(), step.ranks.end(), isLess);
  RankSpread spread{numberOf(slowest), numberOf(fastest), *slowest, *fastest};
  for (const RankStep &rank : step.ranks) {
    spread.residentBytes = std::max(spread.residentBytes, rank.residentBytes);
    report.dataSeconds = std::max(report.dataSeconds, rank.dataSeconds);
  }
  // The step is that of the first rank, and others begin theirs at other times.
  report.dataSeconds = std::min(report.dataSeconds, report.seconds);
  report.spread = spread;
  return report;
}

std::vector<StepReport> StepCollector::takeWhole() {
  std::vector<StepReport> whole;
  while (!pending.empty()) {
    Pending &first = pending.begin()->second;
    if (first.programs < programs ||
        (everyRank && static_cast<int64_t>(first.ranks.size()) < ranks))
      break;
    whole.push_back(finish(std::move(first)));
    pending.erase(pending.begin());
  }
  return whole;
}

std::vector<StepReport> StepCollector::takeRest() {
  std::vector<StepReport> rest;
  for (auto &[number, step] : pending)
    if (step.programs == programs)
      rest.push_back(finish(std::move(step)));
  pending.clear();
  return rest;
}

} // namespace polyrank::runtime
