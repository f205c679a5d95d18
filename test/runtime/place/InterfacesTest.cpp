// The addresses of this machine, and choices among some.

#include "runtime/place/Interfaces.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

const std::vector<InterfaceAddress> machine{{"lo", "127.0.0.1", 8, true},
                                            {"eth0", "10.1.2.3", 24, false},
                                            {"eth0", "fd00::3", 64, false},
                                            {"ib0", "192.168.0.3", 16, false}};

std::string selected(const std::string &choice) {
  Result<std::vector<InterfaceAddress>> found =
      selectInterface(machine, choice);
  if (!found)
    return "error: " + found.error().message;
  std::string text;
  for (const InterfaceAddress &each : *found)
    text += each.address + " ";
  return text;
}

TEST(Interfaces, AnInterfaceIsChosenByNameOrNetwork) {
  EXPECT_EQ(selected("eth0"), "10.1.2.3 fd00::3 ");
  EXPECT_EQ(selected("10.0.0.0/8"), "10.1.2.3 ");
  EXPECT_EQ(selected("fd00::/8"), "fd00::3 ");
  EXPECT_EQ(selected("192.168.0.3/32"), "192.168.0.3 ");
  for (const char *choice : {"eth1", "10.2.0.0/16", "eth"})
    EXPECT_EQ(selected(choice),
              std::string("error: --interface ") + choice +
                  ": this machine has no such interface that is up; it has lo "
                  "(127.0.0.1/8), eth0 (10.1.2.3/24), eth0 (fd00::3/64), ib0 "
                  "(192.168.0.3/16)");
  for (const char *choice : {"10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "/8",
                             "fd00::/129", "10.0.0.0/8x", "10.0.0.0/-1"})
    EXPECT_NE(selected(choice).find("neither the name of an interface nor"),
              std::string::npos)
        << choice;
}

TEST(Interfaces, NetworksAreComparedBitByBit) {
  EXPECT_TRUE(areInOneNetwork("10.0.0.1", "10.0.0.254", 24));
  EXPECT_FALSE(areInOneNetwork("10.0.0.1", "10.0.1.1", 24));
  EXPECT_TRUE(areInOneNetwork("10.0.0.1", "10.0.1.1", 23));
  EXPECT_TRUE(areInOneNetwork("10.0.0.1", "200.0.0.1", 0));
  EXPECT_FALSE(areInOneNetwork("10.0.0.1", "10.0.0.2", 32));
  EXPECT_TRUE(areInOneNetwork("fd00::1", "fd00::2", 64));
  EXPECT_FALSE(areInOneNetwork("fd00::1", "fd00:0:0:1::2", 64));
  EXPECT_FALSE(areInOneNetwork("fd00::1", "10.0.0.1", 0));
}

TEST(Interfaces, TheSystemsOwnAreRead) {
  Result<std::vector<InterfaceAddress>> all = interfaceAddresses();
  ASSERT_TRUE(all) << all.error().message;
  for (const InterfaceAddress &each : *all) {
    EXPECT_FALSE(each.interface.empty());
    EXPECT_TRUE(areInOneNetwork(each.address, each.address, each.prefix))
        << each.address << "/" << each.prefix;
    EXPECT_FALSE(each.address.starts_with("fe80:"));
    if (each.address == "127.0.0.1") {
      EXPECT_TRUE(each.isLoopback);
      EXPECT_EQ(each.prefix, 8);
    }
  }
  Result<std::string> identity = identityOfMachine();
  ASSERT_TRUE(identity) << identity.error().message;
  EXPECT_EQ(*identity, *identityOfMachine());
  EXPECT_EQ(identity->find(' '), std::string::npos);
}

} // namespace
} // namespace polyrank::runtime::test
