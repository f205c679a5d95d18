// Schedules in files: what is read and what is refused; reading inverts
// writing.

#include "compiler/stage_order/ScheduleText.h"
#include "test/compiler/stage_order/NamedSchedules.h"
#include "test/support/TemporaryFolder.h"

#include <gtest/gtest.h>
#include <unistd.h>

using namespace polyrank;
using namespace polyrank::stage_order;
using namespace polyrank::test;

namespace {

std::string getError(std::string_view text) {
  auto schedule = readSchedule(text, "s.txt");
  return schedule ? "" : schedule.error().message;
}

TEST(ScheduleText, WhatIsWrittenIsRead) {
  forEachSchedule(5, 12, [&](const NamedSchedule &each) {
    auto schedule =
        makeSchedule(each.text, each.ranks, each.chunks, each.microbatches);
    auto read = readSchedule(writeSchedule(*schedule), "s.txt");
    ASSERT_TRUE(read) << each << ": " << read.error().message;
    EXPECT_EQ(*read, *schedule) << each;
  });
}

// The example of the documentation.
TEST(ScheduleText, ChunkZeroAndStagesInOrderNeedNotBeWritten) {
  auto schedule = readSchedule("# 1F1B of two ranks and three microbatches\n"
                               "\n"
                               "F0 F1 B0 F2 B1 B2        # rank 0\r\n"
                               "  F0\tB0 F1 B1 F2 B2      # rank 1",
                               "s.txt");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(*schedule, *makeSchedule("1f1b", 2, 1, 3));
}

TEST(ScheduleText, RanksHaveStagesInTurn) {
  auto schedule = readSchedule("F0.0 F1.0\nF0.0 F1.0\n", "s.txt");
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->coordinates, (std::vector<int64_t>{0, 1, 0, 1}));
}

TEST(ScheduleText, BackwardsAreInTwoPartsWhereWeightsAreNamed) {
  auto schedule = readSchedule("F0 B0 W0\n", "s.txt");
  ASSERT_TRUE(schedule);
  EXPECT_TRUE(schedule->splitsBackward);
  EXPECT_EQ(schedule->ranks[0][1].part, Part::BackwardInput);
}

TEST(ScheduleText, EntriesThatAreNoneAreRefused) {
  EXPECT_EQ(getError("F0 B0\nF0 X0\n"),
            "s.txt:2: 'X0' is no entry: F0.3, B0.3 or W0.3 is expected, for "
            "chunk 0 and microbatch 3, or F3");
  EXPECT_EQ(getError("F0 F\n"),
            "s.txt:1: the microbatch of 'F' is no number up to 1048575");
  EXPECT_EQ(getError("F-1\n"),
            "s.txt:1: the microbatch of 'F-1' is no number up to 1048575");
  EXPECT_EQ(getError("F1x\n"),
            "s.txt:1: the microbatch of 'F1x' is no number up to 1048575");
  EXPECT_EQ(getError("F1048576\n"),
            "s.txt:1: the microbatch of 'F1048576' is no number up to 1048575");
  EXPECT_EQ(
      getError("F99999999999999999999999999\n"),
      "s.txt:1: the microbatch of 'F99999999999999999999999..' is no number "
      "up to 1048575");
  EXPECT_EQ(getError("F0.\n"),
            "s.txt:1: the microbatch of 'F0.' is no number up to 1048575");
  EXPECT_EQ(getError("F.0\n"),
            "s.txt:1: the chunk of 'F.0' is no number up to 4095");
  EXPECT_EQ(getError("F4096.0\n"),
            "s.txt:1: the chunk of 'F4096.0' is no number up to 4095");
  EXPECT_EQ(getError(std::string_view("\x7f\0\x01", 3)),
            "s.txt:1: '?\?\?' is no entry: F0.3, B0.3 or W0.3 is expected, for "
            "chunk 0 and microbatch 3, or F3");
}

TEST(ScheduleText, StagesThatDoNotFitAreRefused) {
  EXPECT_EQ(getError("stages 0 1\nstages 0 1\nF0\nF0\n"),
            "s.txt:2: 'stages' stands once, in front of the ranks");
  EXPECT_EQ(getError("F0\nstages 0\n"),
            "s.txt:2: 'stages' stands once, in front of the ranks");
  EXPECT_EQ(getError("stages 0 x\nF0\n"),
            "s.txt:1: 'x' is no rank of the pipe axis: a number up to 4095 is "
            "expected for each stage");
  EXPECT_EQ(getError("stages\nF0\n"),
            "s.txt:1: 'stages' names the rank of each stage, as in 'stages 0 1 "
            "1 0', and here it names none");
  EXPECT_EQ(getError("stages 0 1\nF0\n"),
            "s.txt: 'stages' names rank 1, and there are lines for 1, from 0");
  EXPECT_EQ(getError("stages 0 1\nF0\nF0 F1.0\n"),
            "s.txt:3: 'F1.0' is of chunk 1, and rank 1 has 1 stages, from 0");
}

TEST(ScheduleText, NothingIsNoSchedule) {
  EXPECT_EQ(getError("# nothing\n\n"),
            "s.txt: has no ranks: a line of entries is expected for each rank "
            "of the pipe axis");
}

TEST(ScheduleText, MoreThanThereCanBeIsRefused) {
  std::string ranks, stages = "stages";
  for (int64_t i = 0; i <= mostStages; ++i) {
    ranks += "F0\n";
    stages += " 0";
  }
  EXPECT_EQ(getError(ranks), "s.txt:4097: more than 4096 ranks");
  EXPECT_EQ(getError(stages), "s.txt:1: more than 4096 stages");
  EXPECT_EQ(getError("F4095.0\nF0\n"),
            "s.txt: 2 ranks of 4096 chunks are more than 4096 stages");
  std::string entries;
  for (int64_t i = 0; i <= mostEntries; ++i)
    entries += "F0 ";
  EXPECT_EQ(getError(entries), "s.txt:1: more than 8388608 entries");
}

class ScheduleFiles : public testing::Test {
protected:
  std::string write(const std::string &text) {
    return folder.write("s.txt", text);
  }
  std::string getMessage(const std::string &text, int64_t ranks, int64_t chunks,
                         int64_t microbatches,
                         std::string_view parts = trainParts) {
    std::string path = write(text);
    auto schedule =
        makeSchedule("file:" + path, ranks, chunks, microbatches, parts);
    return schedule ? ""
                    : schedule.error().message.substr(
                          schedule.error().message.find("s.txt"));
  }

  runtime::test::TemporaryFolder folder;
};

TEST_F(ScheduleFiles, AreSchedules) {
  std::string path =
      write(writeSchedule(*makeSchedule("zero-bubble-v", 3, 2, 4)));
  auto schedule = makeSchedule("file:" + path, 3, 2, 4);
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(*schedule, *makeSchedule("zero-bubble-v", 3, 2, 4));
  EXPECT_EQ(*getCoordinates("file:" + path, 3, 2),
            (std::vector<int64_t>{0, 1, 2, 2, 1, 0}));
}

TEST_F(ScheduleFiles, OfOtherSizesAreRefused) {
  std::string text = "F0 B0\nF0 B0\n";
  EXPECT_EQ(getMessage(text, 3, 1, 1),
            "s.txt: has lines for 2 ranks, and the pipe axis has 3");
  EXPECT_EQ(getMessage(text, 2, 2, 1),
            "s.txt: rank 0 has 1 stages, and --chunks 2 asks for others");
  EXPECT_EQ(getMessage(text, 2, 1, 2),
            "s.txt: has entries of 1 microbatches, and the step has 2");
  EXPECT_EQ(getMessage(text, 2, 1, 1, forwardParts),
            "s.txt: rank 0, entry 1 (B0.0) is of a backward, and nothing but "
            "forwards is asked for");
  EXPECT_EQ(getMessage("F0\nF0\n", 2, 1, 1),
            "s.txt: rank 0 never runs B0.0, a backward");
  std::string path = write(text);
  EXPECT_FALSE(getCoordinates("file:" + path, 3, 1));
}

TEST_F(ScheduleFiles, ThatAreNotThereAreNamed) {
  auto schedule = makeSchedule("file:/nowhere/s.txt", 2, 1, 1);
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.error().message.substr(0, 20), "/nowhere/s.txt: cann");
}

TEST_F(ScheduleFiles, ThatAreTooLongAreNotRead) {
  std::string path = write("");
  ASSERT_EQ(truncate(path.c_str(), longestText + 1), 0);
  auto schedule = readScheduleFile(path);
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.error().message,
            path + ": has 134217729 bytes; schedules of up to 134217728 are "
                   "read");
}

} // namespace
