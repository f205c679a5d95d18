// Properties of shared memory only, and 16-bit floats.

#include "runtime/comm/shm/ShmMemory.h"
#include "runtime/job/local/LocalJob.h"
#include "support/Float16.h"

#include <gtest/gtest.h>

#include <unistd.h>

namespace polyrank::runtime::shm {
namespace {

TEST(Memory, CannotBeResizedAndHasNoName) {
  auto memory = Memory::create({.sharedSizes = {4096}});
  ASSERT_TRUE(memory);
  for (int file : memory->descriptors()) {
    EXPECT_NE(ftruncate(file, 0), 0);
    EXPECT_NE(ftruncate(file, 1 << 30), 0);
  }
}

TEST(Memory, OfAnotherNumberOfRanksOrOfNoJobIsRefused) {
  auto job = local::createJob({.ranks = 2});
  auto pair = Memory::create({.sharedSizes = {0, 0}}),
       alone = Memory::create({.sharedSizes = {0}});
  ASSERT_TRUE(job && pair && alone);
  auto member = local::joinJob((*job)->descriptors(), 0);
  ASSERT_TRUE(member);
  auto refusal = [&](const std::vector<int> &files) {
    std::vector<int> copies; // attaching takes them over
    for (int file : files)
      copies.push_back(dup(file));
    auto communicator = attach(copies, **member);
    return communicator ? "" : communicator.error().message;
  };
  std::vector<int> files = pair->descriptors();
  EXPECT_EQ(refusal(files), "");
  EXPECT_EQ(refusal(alone->descriptors()),
            "rank 0: 2 files are not the memory of 2 ranks");
  files[0] = alone->descriptors()[0];
  EXPECT_EQ(refusal(files), "rank 0: the control page is not of this job");
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
