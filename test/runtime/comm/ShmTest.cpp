// Properties of shared memory only: the job's descriptors, its launcher's view,
// and 16-bit floats.

#include "runtime/comm/shm/ShmMemory.h"
#include "support/Float16.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank::runtime::shm {
namespace {

TEST(JobDescriptors, TheirTextIsReadBackAndNothingElseIs) {
  JobDescriptors descriptors{3, {4, 5, 17}};
  EXPECT_EQ(descriptors.text(), "3:4,5,17");
  auto parsed = JobDescriptors::parse("3:4,5,17");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->control, 3);
  EXPECT_EQ(parsed->arenas, (std::vector<int>{4, 5, 17}));
  for (const char *text :
       {"", "3", "3:", ":4", "3:4,", "3:-4", "3,4", "3:4x", "3:99999999999999"})
    EXPECT_FALSE(JobDescriptors::parse(text)) << text;
}

TEST(Job, MemoryCannotBeResizedAndHasNoName) {
  auto job = Job::create({.sharedSizes = {4096}});
  ASSERT_TRUE(job);
  EXPECT_NE(ftruncate(job->descriptors().arenas[0], 0), 0);
  EXPECT_NE(ftruncate(job->descriptors().arenas[0], 8192), 0);
}

TEST(Job, ARankCannotAttachTwiceAndReportsItsProgress) {
  auto job = Job::create({.sharedSizes = {100, 0}});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->report(0).phase, RankPhase::Starting);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    auto transport = attach(job->descriptors(), 0);
    bool good = transport && (*transport)->sharedMemory().size == 100 &&
                !attach(job->descriptors(), 0);
    (*transport)->setProgress(12, 34);
    good = good && write(ends[1], "x", 1) == 1;
    pause();
    _exit(good ? 0 : 1);
  }
  char ready;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  RankReport report = job->report(0);
  EXPECT_EQ(report.phase, RankPhase::Running);
  EXPECT_EQ(report.pid, child);
  EXPECT_EQ(report.step, 12u);
  EXPECT_EQ(report.command, 34u);
  EXPECT_EQ(job->report(1).phase, RankPhase::Starting);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(Job, RanksEndWithinTwoSecondsOfTheirLauncher) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t launcher = fork();
  if (launcher == 0) {
    auto job = Job::create({.sharedSizes = {4096, 4096}});
    if (fork() == 0) {
      auto transport = attach(job->descriptors(), 0);
      int32_t ranks[] = {0, 1};
      auto group = (*transport)->createGroup(ranks);
      auto done = (*transport)->barrier(*group); // rank 1 never comes
      std::string text = done ? "no error" : done.error().message;
      _exit(write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
    }
    usleep(50'000);
    _exit(0);
  }
  close(ends[1]);
  waitpid(launcher, nullptr, 0);
  alarm(10); // ends the test, should the rank hang
  char text[1000] = {};
  EXPECT_GT(read(ends[0], text, sizeof(text) - 1), 0);
  alarm(0);
  EXPECT_NE(std::string(text).find("the launcher"), std::string::npos) << text;
  close(ends[0]);
}

TEST(Float16, EveryValueSurvivesTheWayThroughF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float half = floatFromFloat16(bits), brain = floatFromBFloat16(bits);
    if (half == half) {
      EXPECT_EQ(float16FromFloat(half), bits);
    } else {
      EXPECT_NE(floatFromFloat16(float16FromFloat(half)), half);
    }
    if (brain == brain) {
      EXPECT_EQ(bfloat16FromFloat(brain), bits);
    } else {
      EXPECT_NE(floatFromBFloat16(bfloat16FromFloat(brain)), brain);
    }
  }
}

TEST(Float16, RoundingIsToNearestEven) {
  EXPECT_EQ(float16FromFloat(1 + 0x1p-11f), 0x3c00);   // tie, down
  EXPECT_EQ(float16FromFloat(1 + 0x1.8p-10f), 0x3c02); // tie, up
  EXPECT_EQ(float16FromFloat(1 + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(float16FromFloat(65519), 0x7bff);
  EXPECT_EQ(float16FromFloat(65520), 0x7c00);
  EXPECT_EQ(float16FromFloat(-1e10f), 0xfc00);
  EXPECT_EQ(float16FromFloat(0x1p-24f), 1);
  EXPECT_EQ(float16FromFloat(0x1p-25f), 0);         // tie, to zero
  EXPECT_EQ(float16FromFloat(0x1.8p-24f), 2);       // tie, up
  EXPECT_EQ(float16FromFloat(0x1.ffep-15f), 0x400); // to a normal one
  EXPECT_EQ(bfloat16FromFloat(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bfloat16FromFloat(1 + 0x1.8p-7f), 0x3f82);
}

} // namespace
} // namespace polyrank::runtime::shm
