// Formats ranks; those in the same state share a line.

#include "runtime/launch/RankTable.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

// With more ranks, those in the same state share a line.
constexpr size_t mostAlone = 16;
constexpr size_t mostCulprits = 8, mostSorts = 12, mostNamed = 3;

/// "rank 2 (data=1)", "rank 2 (data=1), rank 3 (data=2) and 5 more".
std::string listOf(const std::vector<int> &ranks, const RankNames &names) {
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), mostNamed); ++i)
    text += (i == 0 ? "" : ", ") + names.rank(ranks[i]);
  if (ranks.size() > mostNamed)
    text += fmt::format(" and {} more", ranks.size() - mostNamed);
  return text;
}

std::string describeWait(const RankWait &wait, const RankNames &names) {
  using What = RankWait::What;
  switch (wait.what) {
  case What::Nothing:
    return "";
  case What::Starts:
  case What::Barrier:
    return wait.ranks.empty() ? ", waits"
                              : ", waits for " + listOf(wait.ranks, names);
  case What::Work:
    return ", waits for a part of it that others have in hand";
  case What::Value:
    return ", waits for what " + listOf(wait.ranks, names) + " sends";
  case What::Room:
    return ", waits until " + listOf(wait.ranks, names) +
           " receives what it was sent";
  }
  return "";
}

std::string lineOf(const std::string &who, bool isCulprit,
                   const std::string &what, const RankSnapshot &rank) {
  double seconds = std::chrono::duration<double>(rank.still).count();
  return fmt::format(
      "\n{} {}  {} (for {:.1f} s{})", isCulprit ? '>' : ' ', who, what, seconds,
      rank.isGone() || rank.pid < 0 ? ""
                                    : fmt::format(", process {}", rank.pid));
}

} // namespace

std::string describeRank(int rank, const std::vector<RankSnapshot> &ranks,
                         const RankNames &names) {
  const RankSnapshot &each = ranks[rank];
  const RankReport &report = each.report;
  std::string text;
  if (report.phase == RankPhase::Left)
    return "has left the job";
  if (report.phase == RankPhase::Starting || report.phase == RankPhase::Joining)
    text = "has not joined the job";
  else if (report.step == 0)
    text = "has not begun its first step";
  else
    text = report.isBeside ? fmt::format("evaluates after step {}", report.step)
                           : fmt::format("is in step {}, {}", report.step,
                                         names.command(rank, report.command));
  if (!report.isBeside && report.issued > Position{report.step, report.command})
    text += fmt::format(" (issued up to {}{})",
                        report.issued.step == report.step
                            ? ""
                            : fmt::format("step {}, ", report.issued.step),
                        names.command(rank, report.issued.command));
  if (each.isGone())
    return "is dead; it " + (report.step == 0
                                 ? (report.phase == RankPhase::Running
                                        ? "had not begun its first step"
                                        : "had not joined the job")
                                 : "was" + text.substr(2));
  if (each.isStopped())
    return (each.state == 'T' ? "is stopped; it "
                              : "is stopped by a debugger; it ") +
           text;
  return text + describeWait(each.wait, names);
}

std::vector<int> findCulprits(const std::vector<RankSnapshot> &ranks) {
  auto those = [&](auto which) {
    std::vector<int> found;
    for (size_t r = 0; r < ranks.size(); ++r)
      if (which(ranks[r]))
        found.push_back(static_cast<int>(r));
    return found;
  };
  auto isDead = [](const RankSnapshot &rank) {
    return rank.isGone() && rank.report.phase != RankPhase::Left;
  };
  // A rank that is dead or stopped explains what the others do.
  for (auto found : {those(isDead), those([](const RankSnapshot &rank) {
                       return rank.isStopped();
                     })})
    if (!found.empty())
      return found;
  return those([](const RankSnapshot &rank) {
    return !rank.isGone() && rank.wait.what == RankWait::What::Nothing;
  });
}

std::string rankTable(const std::vector<RankSnapshot> &ranks,
                      const std::vector<int> &culprits,
                      const RankNames &names) {
  std::string table = "where the ranks are:";
  auto isCulprit = [&](size_t rank) {
    return std::find(culprits.begin(), culprits.end(), int(rank)) !=
           culprits.end();
  };
  auto what = [&](size_t rank) {
    return describeRank(static_cast<int>(rank), ranks, names);
  };
  if (ranks.size() <= mostAlone) {
    for (size_t r = 0; r < ranks.size(); ++r)
      table += lineOf(names.rank(static_cast<int>(r)), isCulprit(r), what(r),
                      ranks[r]);
    return table;
  }
  for (size_t c = 0; c < std::min(culprits.size(), mostCulprits); ++c)
    table += lineOf(names.rank(culprits[c]), true, what(culprits[c]),
                    ranks[culprits[c]]);
  if (culprits.size() > mostCulprits)
    table += fmt::format("\n> and {} more, for which others wait",
                         culprits.size() - mostCulprits);
  // The first rank of each kind, and the number of ranks of that kind, in
  // order.
  std::vector<std::pair<size_t, size_t>> sorts;
  std::map<std::string, size_t> known;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (isCulprit(r))
      continue;
    auto [found, isNew] = known.try_emplace(what(r), sorts.size());
    if (isNew)
      sorts.emplace_back(r, 0);
    ++sorts[found->second].second;
  }
  size_t left = 0;
  for (size_t s = 0; s < sorts.size(); ++s) {
    auto [rank, count] = sorts[s];
    if (s >= mostSorts) {
      left += count;
      continue;
    }
    std::string who = names.rank(static_cast<int>(rank));
    if (count > 1)
      who += fmt::format(" and {} like it", count - 1);
    table += lineOf(who, false, what(rank), ranks[rank]);
  }
  if (left)
    table += fmt::format("\n  and {} more", left);
  return table;
}

} // namespace polyrank::runtime
