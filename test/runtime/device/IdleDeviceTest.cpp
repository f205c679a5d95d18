// The device of a rehearsal: it has memory, and computes nothing.

#include "runtime/device/IdleDevice.h"

#include "test/runtime/PlanBuilder.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

TEST(IdleDevice, HoldsMemoryThatTheHostFillsAndReads) {
  IdleDevice device;
  auto memory = device.allocate(5000, arenaAlignment);
  ASSERT_TRUE(memory) << memory.error().message;
  auto filled = device.upload(memory->span().part(8, 4),
                              [](std::span<std::byte> bytes) -> Result<void> {
                                for (std::byte &byte : bytes)
                                  byte = std::byte(7);
                                return {};
                              },
                              {});
  ASSERT_TRUE(filled);
  auto read = device.download(memory->span().part(7, 2), {});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->data()[0], std::byte(0));
  EXPECT_EQ(read->data()[1], std::byte(7));
}

TEST(IdleDevice, RefusesEveryCommand) {
  IdleDevice device;
  LoadedPlan plan = load(linearPlan({}));
  const auto &commands = *plan.program().segments()->Get(0)->commands();
  auto refusalOf = [](auto result) {
    return result ? std::string() : result.error().message;
  };
  std::string begin = "the device of a rehearsal computes nothing, but it is "
                      "given ";
  EXPECT_EQ(refusalOf(device.prepare(*commands.Get(2)->body_as_Launch(), {})),
            begin + "a launch");
  EXPECT_EQ(refusalOf(device.prepare(*commands.Get(1)->body_as_Call(), {})),
            begin + "a library call");
  EXPECT_EQ(refusalOf(device.prepare(*commands.Get(0)->body_as_Copy(), 0, {})),
            begin + "a copy");
  EXPECT_EQ(refusalOf(measureRates(device, {})), begin + "rates to measure");
}

} // namespace
} // namespace polyrank::runtime::test
