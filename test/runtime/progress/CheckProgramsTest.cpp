// Every change of one rank's communication that matters is found.

#include "runtime/progress/CheckPrograms.h"
#include "test/runtime/progress/FullProduct.h"

#include <gtest/gtest.h>
#include <random>

using namespace polyrank::test;
using polyrank::progress::checkPrograms;
using polyrank::progress::Command;
using polyrank::progress::Limits;

namespace {

/// Four ranks on a 2 x 2 mesh, with groups over rows, columns, and all.
RankSequences program() {
  RankSequences ranks(4);
  auto add = [&](uint64_t id, std::string kind, std::vector<int64_t> bytes,
                 std::vector<std::vector<int64_t>> groups) {
    for (const std::vector<int64_t> &group : groups)
      for (int64_t rank : group)
        ranks[rank].push_back(
            {id, kind, bytes, group, "command " + std::to_string(id)});
  };
  std::vector<std::vector<int64_t>> rows = {{0, 1}, {2, 3}},
                                    columns = {{0, 2}, {1, 3}},
                                    all = {{0, 1, 2, 3}};
  add(0, "all_reduce sum", {64, 64}, rows);
  add(1, "all_gather", {64, 128}, columns);
  add(2, "all_reduce max", {64, 64}, all);
  add(3, "reduce_scatter sum", {128, 64}, rows);
  add(4, "all_reduce sum", {32, 32, 32, 32}, columns);
  return ranks;
}

/// Returns what is wrong with the ranks, each a class of its own. The product
/// of all ranks must agree.
std::optional<std::string> findError(const RankSequences &ranks,
                                     Limits limits = {}) {
  auto fault = checkPrograms(toPrograms(ranks, limits)).fault;
  auto error = findCommunicationError(ranks, limits);
  EXPECT_EQ(fault.has_value(), error.has_value())
      << (fault ? fault->toString() : *error);
  if (!fault)
    return std::nullopt;
  return fault->toString();
}

TEST(CheckPrograms, AgreeingRanksEnd) {
  EXPECT_EQ(findError(program()), std::nullopt);
}

TEST(CheckPrograms, AnotherIdOnOneRankIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i) {
      RankSequences ranks = program();
      ranks[rank][i].id = 77;
      auto error = findError(ranks);
      ASSERT_TRUE(error) << "rank " << rank << ", command " << i;
      EXPECT_NE(error->find("command " + std::to_string(i)), std::string::npos)
          << *error;
    }
}

TEST(CheckPrograms, AnotherKindOrSizeOnOneRankIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i) {
      RankSequences kind = program(), size = program(), fewer = program();
      kind[rank][i].kind = "broadcast";
      size[rank][i].bytes.back() += 4;
      fewer[rank][i].bytes.pop_back();
      EXPECT_TRUE(findError(kind));
      EXPECT_TRUE(findError(size));
      EXPECT_TRUE(findError(fewer));
    }
}

TEST(CheckPrograms, AnotherGroupOnOneRankIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i)
      for (std::vector<int64_t> group : {std::vector<int64_t>{0, 1},
                                         {0, 2},
                                         {0, 3},
                                         {1, 2},
                                         {2, 3},
                                         {1, 3},
                                         {0, 1, 2, 3},
                                         {1, 0},
                                         {0},
                                         {0, 0},
                                         {0, 9}}) {
        RankSequences ranks = program();
        if (ranks[rank][i].group == group)
          continue;
        ranks[rank][i].group = group;
        EXPECT_TRUE(findError(ranks));
      }
}

TEST(CheckPrograms, AMissingOrFurtherCommandIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i) {
      RankSequences missing = program(), twice = program();
      missing[rank].erase(missing[rank].begin() + i);
      twice[rank].insert(twice[rank].begin() + i, twice[rank][i]);
      EXPECT_TRUE(findError(missing));
      EXPECT_TRUE(findError(twice));
    }
}

TEST(CheckPrograms, AnotherOrderOnOneRankIsRejectedUnlessItEnds) {
  int rejected = 0, equivalent = 0;
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < i; ++j) {
        RankSequences ranks = program();
        std::swap(ranks[rank][i], ranks[rank][j]);
        bool ends = !findError(ranks);
        ++(ends ? equivalent : rejected);
        // The sequence of one group changed.
        if (program()[rank][i].group == program()[rank][j].group)
          EXPECT_FALSE(ends);
      }
  EXPECT_GT(rejected, 0);
  EXPECT_GT(equivalent, 0);
}

TEST(CheckPrograms, AGroupHasDifferentRanksAndTheOneThatNamesIt) {
  for (std::vector<int64_t> group : std::vector<std::vector<int64_t>>{
           {1}, {0, 0}, {0, 0, 1}, {0, 2}, {-1, 0}, {}}) {
    Communication mine{1, "k", {4}, group, "command"};
    auto error = findError({{mine}, {mine}});
    ASSERT_TRUE(error);
    EXPECT_NE(error->find("which is no group of different ranks with itself"),
              std::string::npos)
        << *error;
  }
}

TEST(CheckPrograms, AGroupHasRanksThatExist) {
  for (std::vector<int64_t> group :
       std::vector<std::vector<int64_t>>{{0, 2}, {-1, 0}, {0, 9}}) {
    Communication mine{1, "k", {4}, group, "command"};
    EXPECT_TRUE(findError({{mine}, {}})) << testing::PrintToString(group);
  }
}

TEST(CheckPrograms, ACycleOfWaitsIsRejectedAndNamed) {
  // Ranks 0 and 3 begin with the row, ranks 1 and 2 with the column.
  RankSequences ranks = {
      {{1, "k", {4}, {0, 1}, "row"}, {2, "k", {4}, {0, 2}, "column"}},
      {{3, "k", {4}, {1, 3}, "column"}, {1, "k", {4}, {0, 1}, "row"}},
      {{2, "k", {4}, {0, 2}, "column"}, {4, "k", {4}, {2, 3}, "row"}},
      {{4, "k", {4}, {2, 3}, "row"}, {3, "k", {4}, {1, 3}, "column"}}};
  auto error = findError(ranks);
  ASSERT_TRUE(error);
  EXPECT_NE(
      error->find("ranks wait for each other without end: rank 0 (rank=0) "
                  "waits in row (command 0"),
      std::string::npos)
      << *error;
}

TEST(CheckPrograms, OfTwoCirclesTheShorterIsShown) {
  // 0, 1 and 2 wait for each other, and so do 3 and 4.
  auto over = [](std::vector<int64_t> group) {
    return Communication{1, "k", {4}, group, "command"};
  };
  RankSequences ranks = {{over({0, 1}), over({0, 2})},
                         {over({1, 2}), over({0, 1})},
                         {over({0, 2}), over({1, 2})},
                         {over({3, 4}), over({4, 3})},
                         {over({4, 3}), over({3, 4})}};
  auto error = findError(ranks);
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("without end: rank 3 (rank=3) waits"),
            std::string::npos)
      << *error;
  EXPECT_EQ(error->find("rank 0"), std::string::npos) << *error;
}

// Two values with memory of their own may be received in another order than
// they are sent.
TEST(CheckPrograms, GroupsOfOtherChannelsHaveNothingToDoWithEachOther) {
  using Action = Command::Action;
  auto make = [](uint64_t id, Action action, int64_t channel) {
    Communication each{id, "transfer", {4}, {0, 1}, "value", action};
    each.channel = channel;
    return each;
  };
  auto wait = [](int64_t started) {
    Communication each;
    each.action = Action::Wait;
    each.started = started;
    return each;
  };
  RankSequences ranks = {
      {make(1, Action::Start, 0), make(2, Action::Start, 1), wait(0), wait(1)},
      {make(2, Action::Run, 1), make(1, Action::Run, 0)}};
  EXPECT_EQ(findError(ranks), std::nullopt);
  // Values of one channel are a queue.
  ranks[0][1].channel = ranks[1][0].channel = 0;
  EXPECT_NE(findError(ranks), std::nullopt);
  // Each rank sends only after it has received.
  ranks[0][1].channel = ranks[1][0].channel = 1;
  ranks[0] = {make(1, Action::Run, 0), make(2, Action::Run, 1)};
  EXPECT_NE(findError(ranks), std::nullopt);
}

TEST(CheckPrograms, TheSameOrderOnAllRanksEndsWhateverItIs) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    RankSequences ranks = program();
    for (int swaps = 0; swaps < 5; ++swaps) {
      size_t i = random() % 5, j = random() % 5;
      for (auto &rank : ranks)
        std::swap(rank[i], rank[j]);
    }
    EXPECT_EQ(findError(ranks), std::nullopt);
  }
}

} // namespace
