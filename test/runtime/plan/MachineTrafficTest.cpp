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
  addCrossing({kind, type, {shape}, sources}, on, bytes);
  return bytes;
}
using Bytes = std::vector<uint64_t>;

TransferShape row(int64_t inner) { return {.inner = inner}; }
constexpr uint64_t k = 1 << 14; // elements of no small collective

TEST(MachineTraffic, ASumGoesAlongTheMachinesAndBack) {
  // The partial sums go from 0 to 1, and the result from 1 to 0.
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(k), {0, 0, 1, 1}),
            (Bytes{4 * k, 4 * k}));
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(k), {0, 1, 2}),
            (Bytes{4 * k, 8 * k, 4 * k}));
  // Machines that take turns are a stage for each member; the result needs to
  // go to each machine once.
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(k), {0, 1, 0, 1}),
            (Bytes{8 * k, 8 * k}));
  // bf16 is summed in f32, and rounded once.
  EXPECT_EQ(
      out(CollectiveKind::AllReduce, row(k), {0, 0, 1, 1}, ElementType::BF16),
      (Bytes{4 * k, 2 * k}));
}

TEST(MachineTraffic, ALastMemberThatIsAloneSendsHalfAsItIs) {
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(k), {0, 0, 1}),
            (Bytes{4 * k, 4 * k}));
  // Half of the sums in f32 and half of the results; the elements and the
  // other results in bf16.
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(k), {0, 1}, ElementType::BF16),
            (Bytes{3 * k, 2 * k}));
  // The odd line of 16 elements goes the second way.
  EXPECT_EQ(
      out(CollectiveKind::AllReduce, row(k + 16), {0, 1}, ElementType::BF16),
      (Bytes{3 * k + 32, 2 * k + 32}));
  EXPECT_EQ(
      out(CollectiveKind::ReduceScatter, row(k), {0, 1}, ElementType::F16),
      (Bytes{4 * k, 2 * k}));
}

TEST(MachineTraffic, PartsOfASumGoToTheirOwners) {
  // Four parts of partial sums to the last machine, which keeps those of its
  // own members.
  EXPECT_EQ(out(CollectiveKind::ReduceScatter, row(k), {0, 0, 1, 1}),
            (Bytes{16 * k, 8 * k}));
}

TEST(MachineTraffic, ASmallOneSendsTheInputsToEachMachine) {
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(2), {0, 0, 1, 1}),
            (Bytes{16, 16}));
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(2), {0, 1, 2}),
            (Bytes{16, 16, 16}));
  // 16 KiB of all members together are small, a line more is not.
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(1024), {0, 0, 1, 1}),
            (Bytes{8192, 8192}));
  EXPECT_EQ(out(CollectiveKind::AllReduce, row(1040), {0, 0, 1, 1}),
            (Bytes{4160, 4160}));
}

TEST(MachineTraffic, CopiesGoOnceToEachMachine) {
  EXPECT_EQ(out(CollectiveKind::AllGather, row(k), {0, 0, 1, 1}),
            (Bytes{8 * k, 8 * k}));
  EXPECT_EQ(out(CollectiveKind::AllGather, row(k), {0, 0, 1, 2}),
            (Bytes{16 * k, 8 * k, 8 * k}));
  EXPECT_EQ(out(CollectiveKind::Broadcast, row(k), {0, 0, 1, 1, 2}),
            (Bytes{8 * k, 0, 0}));
}

TEST(MachineTraffic, APermuteSendsWhatIsReadElsewhere) {
  // A ring: members 1 and 3 are read on the other machine.
  EXPECT_EQ(out(CollectiveKind::Permute, row(k), {0, 0, 1, 1}, ElementType::F32,
                {3, 0, 1, 2}),
            (Bytes{4 * k, 4 * k}));
  // All read member 0: its bytes go to machine 1 once.
  EXPECT_EQ(out(CollectiveKind::Permute, row(k), {0, 0, 1, 1}, ElementType::F32,
                {0, 0, 0, 0}),
            (Bytes{4 * k, 0}));
}

TEST(MachineTraffic, EachPairExchangesABlock) {
  // A quarter of each member's elements for each taker; two are elsewhere.
  EXPECT_EQ(out(CollectiveKind::AllToAll,
                {.x = 4, .y = int64_t(k), .splitFirst = true}, {0, 0, 1, 1}),
            (Bytes{16 * k, 16 * k}));
}

TEST(MachineTraffic, OnlyBordersOfNeighboursElsewhereCross) {
  TransferShape shape{.outer = 3, .inner = int64_t(k), .low = 1, .high = 2};
  // Member 2 reads one element of member 1, and member 1 two of member 2, in
  // each of three rows.
  EXPECT_EQ(out(CollectiveKind::Halo, shape, {0, 0, 1, 1}), (Bytes{12, 24}));
  EXPECT_EQ(out(CollectiveKind::HaloAdd, shape, {0, 0, 1, 1}), (Bytes{24, 12}));
  // Borders that are wider than a block reach beyond the neighbour.
  shape = {.outer = int64_t(k), .inner = 2, .low = 3, .high = 0};
  EXPECT_EQ(out(CollectiveKind::Halo, shape, {0, 1, 1}), (Bytes{12 * k, 0}));
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
                                   "evenly over 3 machines, which take a "
                                   "multiple of 3 ranks");
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
