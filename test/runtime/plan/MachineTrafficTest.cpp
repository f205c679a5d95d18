// What crosses machines, against counts by hand.

#include "runtime/plan/MachineTraffic.h"

#include "test/runtime/PlanBuilder.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// Bytes out of each of as many machines as `on` names, for one transfer.
std::vector<uint64_t> out(CollectiveKind kind, TransferShape shape,
                          std::vector<int64_t> on,
                          ElementType type = ElementType::F32,
                          std::vector<int32_t> sources = {}) {
  std::vector<uint64_t> bytes(*std::max_element(on.begin(), on.end()) + 1);
  addCrossing(kind, type, shape, sources, on, bytes);
  return bytes;
}
using Bytes = std::vector<uint64_t>;

TransferShape row(int64_t inner) { return {.inner = inner}; }

TEST(MachineTraffic, ASumGoesAlongTheMachinesAndBack) {
  // 10 elements: the partial sums go from 0 to 1, and the result from 1 to 0.
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(10), {0, 0, 1, 1}),
            (Bytes{40, 40}));
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(10), {0, 1, 2}),
            (Bytes{40, 80, 40}));
  // Machines that take turns are a stage for each member; the result needs to
  // go to each machine once.
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(10), {0, 1, 0, 1}),
            (Bytes{80, 80}));
  // bf16 is summed in f32, and rounded once.
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(10), {0, 1}, ElementType::BF16),
            (Bytes{40, 20}));
}

TEST(MachineTraffic, PartsOfASumGoToTheirOwners) {
  // Each of four members gets 5 elements: 20 partial sums to the last machine,
  // which keeps the parts of its own members.
  EXPECT_EQ(out(CollectiveKind::ReduceScatter, row(5), {0, 0, 1, 1}),
            (Bytes{80, 40}));
  EXPECT_EQ(
      out(CollectiveKind::ReduceScatter, row(5), {0, 1}, ElementType::F16),
      (Bytes{40, 10}));
}

TEST(MachineTraffic, CopiesGoOnceToEachMachine) {
  EXPECT_EQ(out(CollectiveKind::AllGather, row(5), {0, 0, 1, 1}),
            (Bytes{40, 40}));
  EXPECT_EQ(out(CollectiveKind::AllGather, row(5), {0, 0, 1, 2}),
            (Bytes{80, 40, 40}));
  EXPECT_EQ(out(CollectiveKind::Broadcast, row(5), {0, 0, 1, 1, 2}),
            (Bytes{40, 0, 0}));
}

TEST(MachineTraffic, APermuteSendsWhatIsReadElsewhere) {
  // A ring: members 1 and 3 are read on the other machine.
  EXPECT_EQ(out(CollectiveKind::Permute, row(5), {0, 0, 1, 1}, ElementType::F32,
                {3, 0, 1, 2}),
            (Bytes{20, 20}));
  // All read member 0: its bytes go to machine 1 once.
  EXPECT_EQ(out(CollectiveKind::Permute, row(5), {0, 0, 1, 1}, ElementType::F32,
                {0, 0, 0, 0}),
            (Bytes{20, 0}));
}

TEST(MachineTraffic, EachPairExchangesABlock) {
  // 8 elements of each member, two for each taker; two takers are elsewhere.
  EXPECT_EQ(out(CollectiveKind::AllToAll, {.x = 4, .y = 2, .splitFirst = true},
                {0, 0, 1, 1}),
            (Bytes{32, 32}));
}

TEST(MachineTraffic, OnlyBordersOfNeighboursElsewhereCross) {
  TransferShape shape{.outer = 3, .inner = 4, .low = 1, .high = 2};
  // Member 2 reads one element of member 1, and member 1 two of member 2, in
  // each of three rows.
  EXPECT_EQ(out(CollectiveKind::Halo, shape, {0, 0, 1, 1}), (Bytes{12, 24}));
  EXPECT_EQ(out(CollectiveKind::HaloAdd, shape, {0, 0, 1, 1}), (Bytes{24, 12}));
  // Borders that are wider than a block reach beyond the neighbour.
  shape = {.inner = 2, .low = 3, .high = 0};
  EXPECT_EQ(out(CollectiveKind::Halo, shape, {0, 1, 1}), (Bytes{12, 0}));
}

TEST(MachineTraffic, AddsUpTheCommandsOfAStep) {
  LinearModel model;
  model.data = model.tensor = 2;
  LoadedPlan plan = load(linearPlan(model));
  auto one = machineTrafficOf(plan, 1);
  ASSERT_TRUE(one);
  EXPECT_TRUE(one->lines.empty());
  EXPECT_EQ(one->bytes(), 0u);
  EXPECT_NE(describe(*one).find("nothing"), std::string::npos);

  // Ranks 0 and 1 are on machine 0: only what moves over data crosses.
  auto two = machineTrafficOf(plan, 2);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->ranksOfEach, 2);
  ASSERT_FALSE(two->lines.empty());
  uint64_t bytes = 0;
  for (const MachineTraffic::Line &line : two->lines) {
    EXPECT_NE(line.axes, "tensor") << line.kind;
    EXPECT_LE(line.most, line.bytes);
    bytes += line.bytes;
  }
  EXPECT_EQ(two->bytes(), bytes);
  EXPECT_EQ(two->out[0] + two->out[1], bytes);

  auto four = machineTrafficOf(plan, 4);
  ASSERT_TRUE(four);
  EXPECT_GT(four->bytes(), bytes);
  auto three = machineTrafficOf(plan, 3);
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().message, "the plan's 4 ranks cannot be shared out "
                                   "evenly over 3 machines");
  EXPECT_FALSE(machineTrafficOf(plan, 0));
}

TEST(MachineTraffic, RepeatedSegmentsCountAsOftenAsTheyRun) {
  auto traffic = [](int64_t microbatches) {
    LinearModel model;
    model.data = 2;
    model.microbatches = microbatches;
    LoadedPlan plan = load(linearPlan(model));
    return machineTrafficOf(plan, 2)->lines.front();
  };
  MachineTraffic::Line once = traffic(1), thrice = traffic(3);
  EXPECT_GE(thrice.operations, once.operations);
  EXPECT_EQ(thrice.bytes / thrice.operations, once.bytes / once.operations);
}

} // namespace
} // namespace polyrank::runtime::test
