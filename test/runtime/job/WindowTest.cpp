// Memory that the ranks of a job fill together.

#include "runtime/job/Window.h"

#include "runtime/job/local/LocalJob.h"
#include "test/runtime/job/JobUnderTest.h"

#include <algorithm>
#include <cstring>

namespace polyrank::runtime::test {
namespace {

const JobUnderTest local{
    "Local", [](int ranks) { return local::createJob({.ranks = ranks}); },
    local::joinJob};

bool isZero(const Window &window) {
  auto data = window.data();
  return std::all_of(data.begin(), data.end(),
                     [](std::byte byte) { return byte == std::byte(0); });
}

TEST(Window, WhatOneFillsAnotherReadsUntilItIsCleared) {
  auto window = Window::create(100'000, "outputs");
  ASSERT_TRUE(window);
  EXPECT_EQ(window->data().size(), 100'000u);
  EXPECT_TRUE(isZero(*window));
  auto mapped = Window::map(window->descriptor(), 100'000, "outputs");
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->descriptor(), -1);
  mapped->data()[99'999] = std::byte(7);
  EXPECT_EQ(window->data()[99'999], std::byte(7));
  ASSERT_TRUE(window->clear());
  EXPECT_TRUE(isZero(*window));
  EXPECT_TRUE(isZero(*mapped));
  EXPECT_EQ(window->data().size(), 100'000u);
}

TEST(Window, OfNothingIsEmpty) {
  auto window = Window::create(0, "outputs");
  ASSERT_TRUE(window);
  EXPECT_TRUE(window->data().empty());
  EXPECT_TRUE(window->clear());
  EXPECT_TRUE(Window::map(window->descriptor(), 0, "outputs"));
}

TEST(Window, ARankThatNeedsAnotherSizeIsRefused) {
  auto window = Window::create(100, "outputs");
  ASSERT_TRUE(window);
  for (uint64_t bytes : {0, 99, 101, 4096}) {
    auto refused = Window::map(window->descriptor(), bytes, "outputs");
    ASSERT_FALSE(refused) << bytes;
    EXPECT_EQ(refused.error().message,
              "the launcher made a memory of 100 bytes for outputs, and this "
              "rank needs " +
                  std::to_string(bytes) +
                  ": they have read different files; start the run again");
  }
  auto none = Window::map(-1, 100, "outputs");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "outputs: Bad file descriptor");
}

TEST(Window, MoreThanThereIsIsRefused) {
  auto refused = Window::create(uint64_t(1) << 60, "what is saved");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.find("no memory for what is saved") ==
                  0 ||
              refused.error().message.find("mapping what is saved") == 0)
      << refused.error().message;
}

/// In each round every rank fills a word, and then reads those of all.
void expectWholeRounds(int parts) {
  constexpr int ranks = 4;
  constexpr uint64_t rounds = 300;
  auto job = local.create(ranks);
  auto window = Window::create(parts * ranks * sizeof(uint64_t), "rounds");
  ASSERT_TRUE(job && window);
  std::vector<std::unique_ptr<RankOfJob>> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<RankOfJob>(
        local, **job, rank, [&](JobMember &member) -> std::string {
          WindowRounds own(window->data(), parts, member);
          for (uint64_t round = 1; round <= rounds; ++round) {
            auto part = own.begin();
            if (!part)
              return part.error().message;
            if (part->size() != ranks * sizeof(uint64_t))
              return "a part of another size";
            std::memcpy(part->data() + member.rank() * sizeof(round), &round,
                        sizeof(round));
            if (auto filled = own.filled(); !filled)
              return filled.error().message;
            if (round % ranks == uint64_t(member.rank()))
              usleep(200); // so that now one reads late, now another
            for (int other = 0; other < ranks; ++other) {
              uint64_t found;
              std::memcpy(&found, part->data() + other * sizeof(found),
                          sizeof(found));
              if (found != round)
                return "round " + std::to_string(round) + " has a word of " +
                       std::to_string(found);
            }
          }
          return "";
        }));
  for (auto &rank : all)
    EXPECT_EQ(rank->wait(), "");
}

TEST(WindowRounds, NobodyFillsAPartThatAnotherStillReads) {
  expectWholeRounds(1);
  expectWholeRounds(2);
  expectWholeRounds(3);
}

TEST(WindowRounds, EndWithTheJob) {
  auto job = local.create(2);
  ASSERT_TRUE(job);
  auto member = local.join((*job)->descriptors(), 0);
  ASSERT_TRUE(member);
  std::byte memory[8];
  WindowRounds rounds(memory, 2, **member);
  EXPECT_EQ(rounds.partBytes(), 4u);
  EXPECT_TRUE(rounds.begin());
  (*job)->abort("enough");
  auto filled = rounds.filled();
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().message, "enough");
}

} // namespace
} // namespace polyrank::runtime::test
