// Every change of one rank's communication that matters is found.

#include "compiler/lowering/Communication.h"

#include <gtest/gtest.h>
#include <random>

using namespace polyrank::lowering;

namespace {

/// Four ranks on a mesh of 2 x 2: over the rows, the columns, and all.
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

TEST(Communication, AgreeingRanksEnd) {
  EXPECT_EQ(findCommunicationError(program()), std::nullopt);
}

TEST(Communication, AnotherIdOnOneRankIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i) {
      RankSequences ranks = program();
      ranks[rank][i].id = 77;
      auto error = findCommunicationError(ranks);
      ASSERT_TRUE(error) << "rank " << rank << ", command " << i;
      EXPECT_NE(error->find("command " + std::to_string(i)), std::string::npos)
          << *error;
    }
}

TEST(Communication, AnotherKindOrSizeOnOneRankIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i) {
      RankSequences kind = program(), size = program(), fewer = program();
      kind[rank][i].kind = "broadcast";
      size[rank][i].bytes.back() += 4;
      fewer[rank][i].bytes.pop_back();
      EXPECT_TRUE(findCommunicationError(kind));
      EXPECT_TRUE(findCommunicationError(size));
      EXPECT_TRUE(findCommunicationError(fewer));
    }
}

TEST(Communication, AnotherGroupOnOneRankIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i)
      for (std::vector<int64_t> group :
           {std::vector<int64_t>{0, 1}, {0, 2}, {0, 3}, {1, 2}, {2, 3}, {1, 3},
            {0, 1, 2, 3}, {1, 0}, {0}, {0, 0}, {0, 9}}) {
        RankSequences ranks = program();
        if (ranks[rank][i].group == group)
          continue;
        ranks[rank][i].group = group;
        EXPECT_TRUE(findCommunicationError(ranks));
      }
}

TEST(Communication, AMissingOrFurtherCommandIsRejected) {
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i) {
      RankSequences missing = program(), twice = program();
      missing[rank].erase(missing[rank].begin() + i);
      twice[rank].insert(twice[rank].begin() + i, twice[rank][i]);
      EXPECT_TRUE(findCommunicationError(missing));
      EXPECT_TRUE(findCommunicationError(twice));
    }
}

/// Whether ranks that only ever proceed together with equal commands all end.
bool endsInAgreement(const RankSequences &ranks) {
  std::vector<size_t> next(ranks.size(), 0);
  auto at = [&](int64_t rank) {
    return next[rank] < ranks[rank].size() ? &ranks[rank][next[rank]] : nullptr;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const Communication *mine = at(rank);
      if (!mine || !std::all_of(mine->group.begin(), mine->group.end(),
                                [&](int64_t member) {
                                  const Communication *theirs = at(member);
                                  return theirs && theirs->id == mine->id &&
                                         theirs->group == mine->group;
                                }))
        continue;
      for (int64_t member : std::vector<int64_t>(mine->group))
        ++next[member];
      moved = true;
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (at(rank))
      return false;
  return true;
}

TEST(Communication, AnotherOrderOnOneRankIsRejectedUnlessItEnds) {
  int rejected = 0, equivalent = 0;
  for (size_t rank = 0; rank < 4; ++rank)
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < i; ++j) {
        RankSequences ranks = program();
        std::swap(ranks[rank][i], ranks[rank][j]);
        bool ends = endsInAgreement(ranks);
        EXPECT_EQ(findCommunicationError(ranks).has_value(), !ends)
            << "rank " << rank << ", commands " << i << " and " << j;
        ++(ends ? equivalent : rejected);
        // The sequence of one group changed.
        if (program()[rank][i].group == program()[rank][j].group)
          EXPECT_FALSE(ends);
      }
  EXPECT_GT(rejected, 0);
  EXPECT_GT(equivalent, 0);
}

TEST(Communication, AGroupHasDifferentRanksAndTheOneThatNamesIt) {
  for (std::vector<int64_t> group : std::vector<std::vector<int64_t>>{
           {1}, {0, 0}, {0, 0, 1}, {0, 2}, {-1, 0}, {}}) {
    Communication mine{1, "k", {4}, group, "command"};
    auto error = findCommunicationError({{mine}, {mine}});
    ASSERT_TRUE(error);
    EXPECT_NE(error->find("which is no group of different ranks with itself"),
              std::string::npos)
        << *error;
  }
}

TEST(Communication, ACycleOfWaitsIsRejectedAndNamed) {
  // Rank 0 is at the row first, rank 3 too; 1 and 2 at the column first.
  RankSequences ranks = {
      {{1, "k", {4}, {0, 1}, "row"}, {2, "k", {4}, {0, 2}, "column"}},
      {{3, "k", {4}, {1, 3}, "column"}, {1, "k", {4}, {0, 1}, "row"}},
      {{2, "k", {4}, {0, 2}, "column"}, {4, "k", {4}, {2, 3}, "row"}},
      {{4, "k", {4}, {2, 3}, "row"}, {3, "k", {4}, {1, 3}, "column"}}};
  auto error = findCommunicationError(ranks);
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("waits without end: rank 0 runs row"),
            std::string::npos)
      << *error;
}

TEST(Communication, TheSameOrderOnAllRanksEndsWhateverItIs) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    RankSequences ranks = program();
    for (int swaps = 0; swaps < 5; ++swaps) {
      size_t i = random() % 5, j = random() % 5;
      for (auto &rank : ranks)
        std::swap(rank[i], rank[j]);
    }
    EXPECT_EQ(findCommunicationError(ranks), std::nullopt);
  }
}

} // namespace
