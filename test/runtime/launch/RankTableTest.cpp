// The table of ranks, for few ranks and for many.

#include "runtime/launch/RankTable.h"

#include <gtest/gtest.h>

namespace polyrank::runtime {
namespace {

using namespace std::chrono_literals;
using What = RankWait::What;

const RankNames names{
    [](int rank) { return "rank " + std::to_string(rank); },
    [](int, uint32_t command) { return "op " + std::to_string(command); }};

RankSnapshot at(uint64_t step, uint32_t command, RankWait wait = {}) {
  RankSnapshot rank;
  rank.pid = 7, rank.running = true, rank.state = 'S', rank.still = 2500ms;
  rank.report.phase = RankPhase::Running;
  rank.report.step = step, rank.report.command = command;
  rank.wait = std::move(wait);
  return rank;
}

RankSnapshot dead() {
  RankSnapshot rank = at(3, 5);
  rank.state = 'Z';
  return rank;
}

std::string said(const RankSnapshot &rank) {
  return describeRank(0, {rank}, names);
}

TEST(RankTable, SaysWhereARankIsAndWhatItWaitsFor) {
  EXPECT_EQ(said(at(3, 5)), "is in step 3, op 5");
  EXPECT_EQ(said(at(0, 0)), "has not begun its first step");
  EXPECT_EQ(said(at(3, 5, {What::Starts, {1}})),
            "is in step 3, op 5, waits for rank 1");
  EXPECT_EQ(said(at(3, 5, {What::Starts, {1, 2, 3, 4, 5}})),
            "is in step 3, op 5, waits for rank 1, rank 2, rank 3 and 2 more");
  EXPECT_EQ(said(at(3, 5, {What::Work, {}})),
            "is in step 3, op 5, waits for a part of it that others have in "
            "hand");
  EXPECT_EQ(said(at(3, 5, {What::Value, {4}})),
            "is in step 3, op 5, waits for what rank 4 sends");
  EXPECT_EQ(said(at(3, 5, {What::Room, {4}})),
            "is in step 3, op 5, waits until rank 4 receives what it was sent");
  EXPECT_EQ(said(at(3, 5, {What::Barrier, {1}})),
            "is in step 3, op 5, waits for rank 1");
  RankSnapshot beside = at(3, 5, {What::Starts, {1}});
  beside.report.isBeside = true;
  EXPECT_EQ(said(beside), "evaluates after step 3, waits for rank 1");
  RankSnapshot behind = at(3, 5);
  behind.report.issued = {3, 9};
  EXPECT_EQ(said(behind), "is in step 3, op 5 (issued up to op 9)");
  behind.report.issued = {4, 1};
  EXPECT_EQ(said(behind), "is in step 3, op 5 (issued up to step 4, op 1)");
  RankSnapshot starting = at(0, 0);
  starting.report.phase = RankPhase::Joining;
  EXPECT_EQ(said(starting), "has not joined the job");
  RankSnapshot stopped = at(3, 5, {What::Starts, {1}});
  stopped.state = 'T';
  EXPECT_EQ(said(stopped), "is stopped; it is in step 3, op 5");
  EXPECT_EQ(said(dead()), "is dead; it was in step 3, op 5");
  RankSnapshot left = at(3, 5);
  left.report.phase = RankPhase::Left;
  EXPECT_EQ(said(left), "has left the job");
}

TEST(RankTable, TheDeadExplainTheStoppedAndTheyTheBusy) {
  RankSnapshot waiting = at(3, 5, {What::Starts, {1}}), busy = at(3, 4),
               stopped = at(3, 4), left = dead();
  stopped.state = 'T';
  left.report.phase = RankPhase::Left;
  EXPECT_EQ(findCulprits({waiting, busy, waiting}), (std::vector<int>{1}));
  EXPECT_EQ(findCulprits({waiting, busy, stopped}), (std::vector<int>{2}));
  EXPECT_EQ(findCulprits({dead(), busy, stopped}), (std::vector<int>{0}));
  EXPECT_EQ(findCulprits({left, busy}), (std::vector<int>{1}));
  EXPECT_TRUE(findCulprits({waiting, waiting}).empty());
}

TEST(RankTable, FewRanksHaveALineEach) {
  EXPECT_EQ(
      rankTable({at(3, 5, {What::Starts, {1}}), at(3, 4), dead()}, {1}, names),
      "where the ranks are:"
      "\n  rank 0  is in step 3, op 5, waits for rank 1 (for 2.5 s, "
      "process 7)"
      "\n> rank 1  is in step 3, op 4 (for 2.5 s, process 7)"
      "\n  rank 2  is dead; it was in step 3, op 5 (for 2.5 s)");
}

TEST(RankTable, OfManyRanksThoseThatAreAlikeShareALine) {
  std::vector<RankSnapshot> ranks(100, at(3, 5, {What::Starts, {60}}));
  ranks[60] = at(3, 4);
  for (int rank : {7, 80})
    ranks[rank] = at(4, 1, {What::Value, {6}});
  EXPECT_EQ(rankTable(ranks, {60}, names),
            "where the ranks are:"
            "\n> rank 60  is in step 3, op 4 (for 2.5 s, process 7)"
            "\n  rank 0 and 96 like it  is in step 3, op 5, waits for rank 60 "
            "(for 2.5 s, process 7)"
            "\n  rank 7 and 1 like it  is in step 4, op 1, waits for what rank "
            "6 sends (for 2.5 s, process 7)");
  for (uint32_t r = 0; r < 40; ++r) // all of different sorts
    ranks[r] = at(5, r, {What::Work, {}});
  std::string table = rankTable(ranks, {}, names);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 13) << table;
  EXPECT_NE(table.find("\n  and 88 more"), std::string::npos) << table;
}

} // namespace
} // namespace polyrank::runtime
