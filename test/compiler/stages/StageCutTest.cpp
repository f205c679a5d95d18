// The stage assignment is optimal: compared with all assignments of small
// orders.

#include "compiler/stages/StageCut.h"

#include <functional>
#include <random>

#include <gtest/gtest.h>

using namespace polyrank::stages;

namespace {

/// A chain of ops that each take `times`.
CutProblem makeChain(const std::vector<int64_t> &times, int stages) {
  CutProblem problem;
  for (size_t i = 0; i < times.size(); ++i) {
    CutOp &op = problem.ops.emplace_back();
    op.time = times[i];
    if (i > 0)
      op.operands = {static_cast<int>(i) - 1};
  }
  problem.stages = stages;
  problem.live.assign(stages, 1);
  return problem;
}

/// Draws a graph of ops, with skips, shared parameters, and maybe stages that
/// the user has fixed.
CutProblem makeRandom(std::mt19937 &random, int mostOps, bool isFixed) {
  auto draw = [&](int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  };
  CutProblem problem;
  problem.stages = 1 + draw(4);
  problem.link = {static_cast<double>(draw(2)), draw(4) / 2.0};
  int n = problem.stages + draw(mostOps - problem.stages);
  for (int i = 0; i < 1 + draw(3); ++i)
    problem.parameters.push_back({draw(9), draw(9)});
  for (int i = 0; i < n; ++i) {
    CutOp &op = problem.ops.emplace_back();
    // Many ops take no time, as reshapes do, and one may take most.
    op.time = draw(3) == 0 ? 0 : draw(9) == 0 ? 40 : draw(9);
    op.bytes = draw(4);
    op.messages = op.bytes ? 1 + draw(1) : 0;
    op.kept = draw(3);
    for (int k = 0; i > 0 && k < 1 + draw(2); ++k)
      op.operands.push_back(draw(3) ? std::max(0, i - 1 - draw(1))
                                    : draw(i - 1));
    if (draw(2) == 0)
      op.parameters.push_back(
          draw(static_cast<int>(problem.parameters.size()) - 1));
  }
  for (int stage = 0; stage < problem.stages; ++stage)
    problem.live.push_back(problem.stages - stage);
  if (isFixed)
    for (int i = 0, stage = 0; i < n; ++i)
      if (draw(4) == 0) {
        stage = std::min(problem.stages - 1, stage + draw(1));
        problem.ops[i].fixed = stage;
      }
  return problem;
}

CutObjective evaluate(const CutProblem &problem, const std::vector<int> &ends) {
  CutObjective objective;
  for (int stage = 0, begin = 0; stage < problem.stages; ++stage) {
    StageCost cost = getStageCost(problem, stage, begin, ends[stage]);
    objective.time = std::max(objective.time, cost.totalTime(problem.link));
    objective.bytes += cost.received;
    objective.memory = std::max(objective.memory, cost.memory);
    begin = ends[stage];
  }
  return objective;
}

bool isAllowed(const CutProblem &problem, const std::vector<int> &ends) {
  for (int stage = 0, op = 0; stage < problem.stages; ++stage) {
    if (op >= ends[stage])
      return false;
    for (; op < ends[stage]; ++op)
      if (problem.ops[op].fixed >= 0 && problem.ops[op].fixed != stage)
        return false;
  }
  return true;
}

/// Returns the best of all cuts; nullopt if none is allowed.
std::optional<CutObjective> findBest(const CutProblem &problem) {
  std::optional<CutObjective> best;
  std::vector<int> ends(problem.stages, static_cast<int>(problem.ops.size()));
  std::function<void(int, int)> visit = [&](int stage, int begin) {
    if (stage + 1 == problem.stages) {
      if (!isAllowed(problem, ends))
        return;
      CutObjective objective = evaluate(problem, ends);
      if (!best || objective < *best)
        best = objective;
      return;
    }
    for (int end = begin + 1; end < static_cast<int>(problem.ops.size());
         ++end) {
      ends[stage] = end;
      visit(stage + 1, end);
    }
  };
  visit(0, 0);
  return best;
}

TEST(StageCut, CutsWhereTheSlowestStageTakesLeast) {
  // 1 2 3 | 4 2 | 6
  auto cut = std::get<Cut>(cutInOrder(makeChain({1, 2, 3, 4, 2, 6}, 3)));
  EXPECT_EQ(cut.ends, (std::vector<int>{3, 5, 6}));
  EXPECT_EQ(cut.objective.time, 6);
  EXPECT_EQ(cut.bound, 6);
}

TEST(StageCut, OfEqualTimesCutsWhereFewestBytesCross) {
  CutProblem problem = makeChain({5, 0, 0, 0, 5}, 2);
  problem.ops[0].bytes = problem.ops[1].bytes = problem.ops[3].bytes = 8;
  problem.ops[2].bytes = 1;
  auto cut = std::get<Cut>(cutInOrder(problem));
  EXPECT_EQ(cut.ends, (std::vector<int>{3, 5}));
  EXPECT_EQ(cut.objective.bytes, 1);
}

TEST(StageCut, OfEqualBytesTakesTheLeastMemory) {
  // The middle op takes no time, so both cuts are equally fast: it goes to the
  // stage that holds less.
  CutProblem problem = makeChain({5, 0, 5}, 2);
  problem.parameters = {{10, 10}, {10, 10}, {10, 10}};
  problem.ops[0].parameters = {0};
  problem.ops[1].parameters = {1};
  problem.ops[0].kept = 100;
  auto cut = std::get<Cut>(cutInOrder(problem));
  EXPECT_EQ(cut.ends, (std::vector<int>{1, 3}));
  EXPECT_EQ(cut.objective.memory, 120);
}

TEST(StageCut, MicrobatchesInFlightKeepWhatTheyNeed) {
  CutProblem problem = makeChain({5, 0, 5}, 2);
  for (CutOp &op : problem.ops)
    op.kept = 10;
  problem.live = {2, 1};
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).ends, (std::vector<int>{1, 3}));
  problem.live = {1, 2};
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).ends, (std::vector<int>{2, 3}));
}

TEST(StageCut, TransfersTakeTime) {
  // The middle is even, but what crosses there takes 6 of each stage.
  CutProblem problem = makeChain({4, 4, 4, 4}, 2);
  problem.ops[0].bytes = problem.ops[2].bytes = 1;
  problem.ops[1].bytes = 6;
  problem.link.perByte = 1;
  auto cut = std::get<Cut>(cutInOrder(problem));
  EXPECT_EQ(cut.objective.time, 13);
  EXPECT_EQ(cut.objective.bytes, 1);
  EXPECT_EQ(cut.bound, 8);
}

TEST(StageCut, EachMessageWaitsForItsLink) {
  // One value crosses the middle as two messages, and one elsewhere.
  CutProblem problem = makeChain({4, 4, 4, 4}, 2);
  problem.ops[0].messages = problem.ops[2].messages = 1;
  problem.ops[1].messages = 2;
  problem.link.latency = 2;
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).objective.time, 12);
  problem.link.latency = 5;
  auto cut = std::get<Cut>(cutInOrder(problem));
  EXPECT_EQ(cut.objective.time, 17);
  EXPECT_NE(cut.ends, (std::vector<int>{2, 4}));
}

TEST(StageCut, TheBoundIsTheMeanTheLargestOpOrWhatIsFixed) {
  CutProblem problem = makeChain({2, 2, 2, 2, 2}, 3);
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).bound, 4);
  problem.ops[3].time = 9;
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).bound, 9);
  problem.ops[3].fixed = problem.ops[4].fixed = 2;
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).bound, 11);
}

TEST(StageCut, AValueThatTwoStagesUseCrossesTwice) {
  CutProblem problem = makeChain({3, 3, 3}, 3);
  problem.ops[0].bytes = 7;
  problem.ops[1].bytes = 1;
  problem.ops[2].operands = {0, 1};
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).objective.bytes, 15);
}

TEST(StageCut, FindsTheBestOfAllCuts) {
  std::mt19937 random(1);
  int cuts = 0;
  for (int i = 0; i < 3000; ++i) {
    CutProblem problem = makeRandom(random, 10, i % 2);
    std::optional<CutObjective> best = findBest(problem);
    auto found = cutInOrder(problem);
    ASSERT_EQ(best.has_value(), std::holds_alternative<Cut>(found)) << i;
    if (!best)
      continue;
    ++cuts;
    const Cut &cut = std::get<Cut>(found);
    ASSERT_TRUE(isAllowed(problem, cut.ends)) << i;
    EXPECT_EQ(evaluate(problem, cut.ends), cut.objective) << i;
    EXPECT_EQ(cut.objective, *best) << i;
    EXPECT_LE(cut.bound, cut.objective.time) << i;
    EXPECT_EQ(cut.considered, cut.places) << i;
  }
  EXPECT_GT(cuts, 2000);
}

TEST(StageCut, OfSomePlacesOnlyACutIsStillACut) {
  std::mt19937 random(2);
  int shorter = 0;
  for (int i = 0; i < 300; ++i) {
    CutProblem problem = makeRandom(random, 60, i % 2);
    auto whole = cutInOrder(problem);
    problem.budget = 200;
    auto found = cutInOrder(problem);
    ASSERT_EQ(whole.index(), found.index()) << i;
    if (!std::holds_alternative<Cut>(found))
      continue;
    const Cut &cut = std::get<Cut>(found);
    ASSERT_TRUE(isAllowed(problem, cut.ends)) << i;
    EXPECT_EQ(evaluate(problem, cut.ends), cut.objective) << i;
    EXPECT_GE(cut.objective, std::get<Cut>(whole).objective) << i;
    shorter += cut.considered < cut.places;
  }
  EXPECT_GT(shorter, 100);
}

TEST(StageCut, SaysWhereOpsAreTooFew) {
  auto few = std::get<TooFewOps>(cutInOrder(makeChain({1, 1}, 3)));
  EXPECT_EQ(few.ops, 2);
  EXPECT_EQ(few.first, 0);
  EXPECT_EQ(few.last, 2);
  EXPECT_EQ(few.after, -1);
  EXPECT_EQ(few.before, -1);

  // Stages 1 and 2 have one op between those of 0 and 3.
  CutProblem problem = makeChain({1, 1, 1, 1, 1}, 4);
  problem.ops[1].fixed = 0;
  problem.ops[3].fixed = 3;
  few = std::get<TooFewOps>(cutInOrder(problem));
  EXPECT_EQ(few.ops, 1);
  EXPECT_EQ(few.first, 1);
  EXPECT_EQ(few.last, 2);
  EXPECT_EQ(few.after, 1);
  EXPECT_EQ(few.before, 3);

  problem = makeChain({1, 1, 1}, 3);
  problem.ops[1].fixed = 0;
  few = std::get<TooFewOps>(cutInOrder(problem));
  EXPECT_EQ(few.ops, 1);
  EXPECT_EQ(few.first, 1);
  EXPECT_EQ(few.last, 2);
  EXPECT_EQ(few.after, 1);
  EXPECT_EQ(few.before, -1);

  problem = makeChain({1, 1, 1}, 3);
  problem.ops[0].fixed = 2;
  few = std::get<TooFewOps>(cutInOrder(problem));
  EXPECT_EQ(few.ops, 0);
  EXPECT_EQ(few.first, 0);
  EXPECT_EQ(few.last, 1);
  EXPECT_EQ(few.after, -1);
  EXPECT_EQ(few.before, 0);
}

TEST(StageCut, TowersThatAreMixedAreKeptTogether) {
  // The ops of two towers alternate, and one op joins them: in a cut between
  // the towers only one value crosses.
  CutProblem problem;
  for (int i = 0; i < 20; ++i) {
    CutOp &op = problem.ops.emplace_back();
    op.time = 10;
    op.bytes = 1;
    if (i >= 2)
      op.operands = {i - 2};
  }
  CutOp &last = problem.ops.emplace_back();
  last.time = 1;
  last.operands = {18, 19};
  problem.stages = 2;
  problem.live = {1, 1};
  EXPECT_EQ(std::get<Cut>(cutInOrder(problem)).objective.bytes, 2);
  auto cut = std::get<Cut>(cutIntoStages(problem));
  EXPECT_EQ(cut.objective.bytes, 1);
  EXPECT_EQ(cut.objective.time, 101);
}

TEST(StageCut, ATowerIsPutOnAStage) {
  // The second tower comes first, although it is later in the program.
  CutProblem problem;
  for (int i = 0; i < 8; ++i) {
    CutOp &op = problem.ops.emplace_back();
    op.time = 10;
    op.bytes = 1;
    if (i % 4)
      op.operands = {i - 1};
    op.fixed = i < 4 ? 1 : 0;
  }
  CutOp &last = problem.ops.emplace_back();
  last.time = 1;
  last.operands = {3, 7};
  problem.stages = 2;
  problem.live = {1, 1};
  auto cut = std::get<Cut>(cutIntoStages(problem));
  EXPECT_EQ(cut.ends, (std::vector<int>{4, 9}));
  EXPECT_EQ(cut.order, (std::vector<int>{4, 5, 6, 7, 0, 1, 2, 3, 8}));
}

TEST(StageCut, EachOrderHasOperandsInFront) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    CutProblem problem = makeRandom(random, 30, i % 2);
    // Makes the fixed stages consistent with the dependencies.
    int highest = 0;
    for (CutOp &op : problem.ops)
      if (op.fixed >= 0)
        highest = op.fixed = std::max(highest, op.fixed);
    for (const std::vector<int> &order : getCutOrders(problem)) {
      ASSERT_EQ(order.size(), problem.ops.size());
      CutProblem ordered = reorder(problem, order);
      highest = 0;
      for (size_t op = 0; op < order.size(); ++op) {
        for (int operand : ordered.ops[op].operands)
          EXPECT_LT(operand, static_cast<int>(op)) << i;
        if (ordered.ops[op].fixed >= 0) {
          EXPECT_GE(ordered.ops[op].fixed, highest) << i;
          highest = ordered.ops[op].fixed;
        }
      }
    }
  }
}

/// Layers of 20 ops with a residual stream, and a head that takes `head`.
CutProblem makeLarge(int ops, int stages, int64_t head) {
  std::mt19937 random(4);
  CutProblem problem;
  for (int i = 0; i < ops; ++i) {
    CutOp &op = problem.ops.emplace_back();
    op.time = i % 3 ? std::uniform_int_distribution<int>(1, 1000)(random)
                    : 100'000 + i % 20;
    op.bytes = i % 7 ? 4096 : 16384;
    op.kept = op.bytes / 2;
    if (i > 0)
      op.operands.push_back(i - 1);
    if (i >= 20 && i % 20 == 0)
      op.operands.push_back(i - 20);
    if (i % 3 == 0) {
      op.parameters = {static_cast<int>(problem.parameters.size())};
      problem.parameters.push_back({1 << 20, 1 << 20});
    }
  }
  problem.ops.back().time = head;
  problem.stages = stages;
  for (int stage = 0; stage < stages; ++stage)
    problem.live.push_back(stages - stage);
  problem.link.perByte = 1;
  return problem;
}

// Each takes some 20 nanoseconds.
TEST(StageCut, LooksAtFewStagesOfALongOrder) {
  // If one op takes as long as several stages, there are many good cuts.
  for (int64_t head : {5'000'000, 50'000'000})
    for (int stages : {2, 12, 96}) {
      CutProblem problem = makeLarge(20'000, stages, head);
      auto cut = std::get<Cut>(cutIntoStages(problem));
      EXPECT_EQ(evaluate(reorder(problem, cut.order), cut.ends), cut.objective);
      EXPECT_LT(cut.visited, 10'000'000) << stages << " " << head;
      if (head < 50'000'000) {
        EXPECT_EQ(cut.considered, cut.places) << stages;
      }
    }
}

} // namespace
