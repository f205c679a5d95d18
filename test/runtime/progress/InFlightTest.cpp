// The effect of starts, waits and in-flight limits on which rank waits for
// which.

#include "runtime/comm/shm/ControlPage.h"
#include "runtime/progress/CheckPrograms.h"
#include "test/runtime/progress/FullProduct.h"

#include <gtest/gtest.h>
#include <map>

using namespace polyrank::progress;
using namespace polyrank::test;
using Action = Command::Action;

namespace {

// check-ranks assumes the limits of the communicator.
static_assert(Limits().operationsOfAGroup == polyrank::runtime::shm::ringSlots);
static_assert(Limits().transfersOfAnOperation ==
              polyrank::runtime::shm::roundTransfers);
static_assert(Limits().transfers == polyrank::runtime::shm::publishedTransfers);

/// Rank 0 starts `count` collectives in group 0 and then one in group 1. Rank 1
/// runs that one first, and then the others.
RankPrograms crossing(int64_t count, int64_t transfers = 1) {
  RankPrograms ranks;
  ranks.mesh = Mesh({{"data", 2}});
  ranks.groups = {{{{0, 1, 2}}}, {{{0, 1, 2}}, {1, 0}}};
  ranks.classAxes = {0};
  ranks.programOf = {0, 1};
  ranks.programs.resize(2);
  for (int32_t i = 0; i <= count; ++i)
    ranks.movements.push_back({uint64_t(i),
                               "all_reduce sum",
                               {8, 8},
                               "op" + std::to_string(i),
                               i == count ? 1 : transfers});
  Program &first = ranks.programs[0], &second = ranks.programs[1];
  for (int32_t i = 0; i < count; ++i)
    first.push_back({Action::Start, i, 0});
  first.push_back({Action::Run, int32_t(count), 1});
  second.push_back({Action::Run, int32_t(count), 1});
  for (int32_t i = 0; i < count; ++i) {
    first.push_back({Action::Wait, 0, 0, Command::ownQueue, 0, i});
    second.push_back({Action::Run, i, 0});
  }
  return ranks;
}

std::string check(const RankPrograms &ranks) {
  auto fault = checkPrograms(ranks).fault;
  EXPECT_EQ(fault.has_value(),
            findCommunicationError(expand(ranks), ranks.limits).has_value());
  return fault ? fault->toString() : "";
}

TEST(InFlight, AStartWaitsForNobody) { EXPECT_EQ(check(crossing(16)), ""); }

TEST(InFlight, TheStartOfTheSeventeenthWaitsForTheFirst) {
  EXPECT_EQ(
      check(crossing(17)),
      "ranks wait for each other without end: rank 0 (data=0) may start "
      "op16 (command 16, all_reduce sum, id 16, microbatch 0, bytes 8 8, "
      "group 0 1) only when an older one in flight has ended, op0 "
      "(command 0, all_reduce sum, id 0, microbatch 0, bytes 8 8, group "
      "0 1); rank 1 (data=1) waits in op17 (command 0, all_reduce sum, id "
      "17, microbatch 0, bytes 8 8, group 1 0)");
}

TEST(InFlight, ABucketOfManyTransfersTakesSeveralPlaces) {
  EXPECT_EQ(check(crossing(8, 1024)), "");
  EXPECT_EQ(check(crossing(16, 1024)), "");
  EXPECT_EQ(check(crossing(8, 1025)), "");
  EXPECT_NE(check(crossing(9, 1025)), "");
  // One collective alone fills the ring, or exceeds it.
  EXPECT_EQ(check(crossing(1, 16 * 1024)), "");
  EXPECT_NE(check(crossing(1, 16 * 1024 + 1)), "");
}

TEST(InFlight, AllGroupsTogetherPublishSoManyTransfers) {
  RankPrograms ranks = crossing(16, 1024);
  ranks.limits.transfers = 16 * 1024;
  EXPECT_NE(check(ranks), ""); // the one of group 1 is one too many
  ranks.limits.transfers = 16 * 1024 + 1;
  EXPECT_EQ(check(ranks), "");
  // A collective that exceeds the limit by itself is published in parts.
  ranks = crossing(1, 5);
  ranks.limits.transfers = 4;
  EXPECT_NE(check(ranks), "");
}

TEST(InFlight, WaitsHaveAStartInFront) {
  RankPrograms ranks;
  ranks.mesh = Mesh({{"data", 2}});
  ranks.groups = {{{{0, 1, 2}}}};
  ranks.movements = {{3, "all_reduce sum", {8, 8}, "x"}};
  Command start{Action::Start}, wait{Action::Wait};
  ranks.programs = {{start, wait}};
  EXPECT_EQ(check(ranks), "");
  ranks.programs = {{start, wait, wait}};
  EXPECT_EQ(check(ranks),
            "starts and waits of one rank do not fit: rank 0 (data=0) waits at "
            "command 2 for what command 0 started, which is not in flight "
            "there");
  ranks.programs = {{wait, start}};
  EXPECT_NE(check(ranks), "");
  ranks.programs = {{{Action::Run}, wait}};
  EXPECT_NE(check(ranks), "");
  ranks.programs = {{start}};
  EXPECT_EQ(check(ranks),
            "starts and waits of one rank do not fit: rank 0 (data=0) never "
            "waits for x (command 0, all_reduce sum, id 3, microbatch 0, bytes "
            "8 8, group 0 1)");
}

TEST(InFlight, AQueueDoesOneThingAfterAnother) {
  // Two groups of the same two ranks, started in opposite orders.
  RankPrograms ranks;
  ranks.mesh = Mesh({{"data", 2}});
  ranks.groups = {{{{0, 1, 2}}}, {{{0, 1, 2}}, {1, 0}}};
  ranks.movements = {{0, "transfer", {8, 8}, "there"},
                     {1, "transfer", {8, 8}, "back"}};
  ranks.classAxes = {0};
  ranks.programOf = {0, 1};
  auto programs = [&](int32_t queue) {
    Command there{Action::Start, 0, 0, queue}, back{Action::Start, 1, 1, queue};
    Command first{Action::Wait, 0, 0, queue, 0, 0},
        second{Action::Wait, 0, 0, queue, 0, 1};
    ranks.programs = {{there, back, first, second},
                      {back, there, first, second}};
  };
  programs(Command::ownQueue);
  EXPECT_EQ(check(ranks), "");
  programs(0);
  EXPECT_EQ(
      check(ranks),
      "ranks wait for each other without end: rank 1 (data=1) has there "
      "(command 1, transfer, id 0, microbatch 0, bytes 8 8, group 0 1) in a "
      "queue behind back (command 0, transfer, id 1, microbatch 0, bytes 8 8, "
      "group 1 0); rank 0 (data=0) has back (command 1, transfer, id 1, "
      "microbatch 0, bytes 8 8, group 1 0) in a queue behind there (command 0, "
      "transfer, id 0, microbatch 0, bytes 8 8, group 0 1)");
}

TEST(InFlight, TheOrderOfEveryQueueIsPartOfOneOrder) {
  RankPrograms ranks = crossing(12);
  Verdict verdict = checkPrograms(ranks);
  ASSERT_FALSE(verdict.fault);
  EXPECT_EQ(verdict.order.size(), 13u);
  std::map<int32_t, int64_t> next;
  for (const Event &event : verdict.order)
    EXPECT_EQ(event.number, next[event.group]++);
}

} // namespace
