// Memory of host devices: zeroed, aligned as requested, filled and read in
// place.

#include "runtime/device/DeviceAccess.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "support/SharedMemory.h"
#include "test/runtime/PlanBuilder.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

namespace polyrank::runtime::test {
namespace {

std::unique_ptr<CpuDevice> cpu() {
  std::vector<uint8_t> bytes = serialise(linearPlan({}));
  return *CpuDevice::create(*plan::GetPlan(bytes.data())->images()->Get(0),
                            std::make_shared<HostTeam>(2, true));
}

uint64_t addressOf(const DeviceMemory &memory) {
  return DeviceAccess::valueOf(memory.span().address);
}

TEST(HostDevice, BeginsWhereItShouldAndIsZero) {
  auto device = cpu();
  for (uint64_t bytes : {1ul, 5000ul, (2ul << 20) + 1, 70ul << 20})
    for (uint64_t alignment : {256ul, 2ul << 20, 8ul << 20}) {
      for (Sharing sharing : {Sharing::Private, Sharing::Peers}) {
        auto memory = device->allocate(bytes, alignment, sharing);
        ASSERT_TRUE(memory) << memory.error().message;
        EXPECT_EQ(memory->span().size, bytes);
        EXPECT_EQ(addressOf(*memory) % alignment, 0u);
        auto held = DeviceAccess::bytesOf(memory->span());
        EXPECT_TRUE(std::all_of(held.begin(), held.end(),
                                [](std::byte b) { return b == std::byte(0); }));
        std::fill(held.begin(), held.end(), std::byte(1));
      }
    }
  auto none = device->allocate(0, arenaAlignment);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->span().address);
}

TEST(HostDevice, ThatIsNotToBeHadIsAnError) {
  auto memory = cpu()->allocate(uint64_t(1) << 60, arenaAlignment);
  ASSERT_FALSE(memory);
  EXPECT_NE(memory.error().message.find("cannot allocate the plan's "
                                        "1152921504606846976 bytes"),
            std::string::npos);
  EXPECT_EQ(memory.error().fault, Error::Fault::Rank);
}

TEST(HostDevice, SharesMemoryOnlyIfItIsToldTo) {
  auto device = cpu();
  auto own = device->allocate(5000, arenaAlignment),
       shared = device->allocate(5000, arenaAlignment, Sharing::Peers);
  ASSERT_TRUE(own && shared);
  EXPECT_LT(DeviceAccess::descriptorOf(*own), 0);
  auto mapping = SharedMapping::map(DeviceAccess::descriptorOf(*shared), "it");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(mapping->size(), 5000u);
  *DeviceAccess::pointerTo(shared->span().address + 4999) = std::byte(7);
  EXPECT_EQ(mapping->data()[4999], std::byte(7));
}

TEST(HostDevice, IsFilledAndReadInPlace) {
  auto device = cpu();
  auto memory = device->allocate(4096, arenaAlignment);
  ASSERT_TRUE(memory);
  DeviceSpan part = memory->span().part(512, 3 * sizeof(int));
  int values[] = {3, 1, 4};
  ASSERT_TRUE(device->upload(part,
                             [&](std::span<std::byte> there) -> Result<void> {
                               std::memcpy(there.data(), values, there.size());
                               return {};
                             },
                             {}));
  auto held = device->download(part, {});
  ASSERT_TRUE(held);
  EXPECT_EQ(held->data(),
            DeviceAccess::pointerTo(memory->span().address) + 512);
  EXPECT_EQ(held->bytes().size(), part.size);
  EXPECT_EQ(std::memcmp(held->data(), values, part.size), 0);

  auto failed = device->upload(part,
                               [&](std::span<std::byte> there) -> Result<void> {
                                 EXPECT_EQ(there.data(), held->data());
                                 return Error{"no such row"};
                               },
                               {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no such row");
}

} // namespace
} // namespace polyrank::runtime::test
