// Properties of shared memory only, and 16-bit floats.

#include "runtime/comm/shm/ShmMemory.h"
#include "runtime/device/DeviceAccess.h"
#include "runtime/device/IdleDevice.h"
#include "runtime/job/local/LocalJob.h"
#include "support/Float16.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

namespace polyrank::runtime::shm {
namespace {

TEST(Memory, CannotBeResizedAndHasNoName) {
  auto memory = Memory::create({});
  IdleDevice device;
  auto arena = device.allocate(4096, arenaAlignment, Sharing::Peers);
  ASSERT_TRUE(memory && arena);
  for (int file :
       {memory->descriptors()[0], DeviceAccess::descriptorOf(*arena)}) {
    EXPECT_NE(ftruncate(file, 0), 0);
    EXPECT_NE(ftruncate(file, 1 << 30), 0);
  }
}

TEST(MemoryPost, AnyNumberOfReadersGetTheSameMemoryAtAnyTime) {
  auto post = MemoryPost::create();
  ASSERT_TRUE(post);
  auto early = takeMemory(post->receiving.get(), std::chrono::milliseconds(0));
  ASSERT_TRUE(early);
  EXPECT_FALSE(*early);
  {
    auto file = createSharedMemory("polyrank-test", 4096);
    ASSERT_TRUE(file && leaveMemory(post->sending.get(), file->get()));
    ASSERT_EQ(pwrite(file->get(), "left", 4, 0), 4);
  }
  post->sending.close();
  for (int reader = 0; reader < 3; ++reader) {
    auto taken = takeMemory(post->receiving.get(), std::chrono::seconds(1));
    ASSERT_TRUE(taken && *taken);
    char text[5] = "";
    EXPECT_EQ(pread((*taken)->descriptor.get(), text, 4, 0), 4);
    EXPECT_STREQ(text, "left");
    EXPECT_TRUE(fcntl((*taken)->descriptor.get(), F_GETFD) & FD_CLOEXEC);
  }
}

TEST(MemoryPost, ARankWithoutMemorySaysSo) {
  auto post = MemoryPost::create();
  ASSERT_TRUE(post && leaveMemory(post->sending.get(), -1));
  auto taken = takeMemory(post->receiving.get(), std::chrono::seconds(1));
  ASSERT_TRUE(taken && *taken);
  EXPECT_LT((*taken)->descriptor.get(), 0);
}

TEST(Memory, IsRegisteredOnceAndOnlyIfItIsForPeers) {
  auto job = local::createJob({.ranks = 1});
  auto memory = Memory::create({});
  ASSERT_TRUE(job && memory);
  auto member = local::joinJob((*job)->descriptors(), 0);
  ASSERT_TRUE(member);
  std::vector<int> copies; // attaching takes them over
  for (int file : memory->descriptors())
    copies.push_back(dup(file));
  auto communicator = attach(copies, **member);
  ASSERT_TRUE(communicator);
  IdleDevice device;
  auto allocated = [&](Sharing sharing) {
    return std::make_shared<const DeviceMemory>(
        *device.allocate(4096, arenaAlignment, sharing));
  };
  auto group = (*communicator)->createGroup(std::vector<int32_t>{0});
  Collective collective{.reduction = Reduction::Sum, .group = *group};
  auto early = (*communicator)->check(collective);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().message, "rank 0 has registered no memory");
  auto refused = (*communicator)->registerMemory(allocated(Sharing::Private));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "rank 0 registers memory that its device "
                                     "has not allocated for peers");
  EXPECT_TRUE((*communicator)->registerMemory(allocated(Sharing::Peers)));
  EXPECT_TRUE((*communicator)->check(collective));
  auto twice = (*communicator)->registerMemory(allocated(Sharing::Peers));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "rank 0 registers memory twice");
}

TEST(Memory, OfAnotherNumberOfRanksOrOfNoJobIsRefused) {
  auto job = local::createJob({.ranks = 2});
  auto pair = Memory::create({.slotBytes = {0, 0}}), alone = Memory::create({});
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
            "rank 0: 3 files are not the memory of 2 ranks");
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
