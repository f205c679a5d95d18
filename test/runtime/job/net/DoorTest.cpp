// Bounds on connections that have proved nothing.

#include "runtime/job/net/Door.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using Callers = std::vector<Door::Caller>;

TEST(Door, SixtyFourComeIn) {
  Door door;
  for (Door::Caller caller = 0; caller < 64; ++caller) {
    EXPECT_TRUE(door.hasRoom());
    door.cameIn(caller, 0s);
  }
  EXPECT_FALSE(door.hasRoom());
  door.left(17);
  EXPECT_TRUE(door.hasRoom());
}

TEST(Door, WhoeverProvesNothingIsSentAwayAfterFiveSeconds) {
  Door door;
  door.cameIn(1, 0s);
  door.cameIn(2, 1s);
  EXPECT_EQ(door.nextTime(false), Door::Time(5s));
  EXPECT_EQ(door.dismiss(false, 4999ms), Callers());
  EXPECT_EQ(door.dismiss(false, 5s), Callers{1});
  EXPECT_EQ(door.dismiss(false, 6s), Callers{2});
  EXPECT_EQ(door.size(), 0u);
  EXPECT_EQ(door.nextTime(false), std::nullopt);
}

TEST(Door, TheOldestMakeRoomForOthers) {
  Door door;
  for (Door::Caller caller = 0; caller < 64; ++caller)
    door.cameIn(caller, 0s);
  EXPECT_EQ(door.dismiss(true, 499ms), Callers());
  EXPECT_EQ(door.dismiss(false, 500ms), Callers());
  EXPECT_EQ(door.dismiss(true, 500ms), Callers{0});
  EXPECT_EQ(door.dismiss(true, 500ms), Callers()); // there is room now
}

TEST(Door, OneLineForAnAddressAndMinute) {
  Door door;
  EXPECT_TRUE(door.mayLog("a", 0s));
  EXPECT_FALSE(door.mayLog("a", 59s));
  EXPECT_TRUE(door.mayLog("b", 59s));
  EXPECT_TRUE(door.mayLog("a", 60s));
  EXPECT_FALSE(door.mayLog("b", 60s));
}

TEST(Door, AddressesAreBounded) {
  Door door;
  size_t lines = 0;
  for (int address = 0; address < 1000; ++address)
    lines += door.mayLog(std::to_string(address), 0s);
  EXPECT_EQ(lines, 256u);
  EXPECT_TRUE(door.mayLog("later", 61s));
}

} // namespace
} // namespace polyrank::runtime::net
