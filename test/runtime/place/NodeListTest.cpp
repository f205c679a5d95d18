// Lists of hosts as Slurm 22.05 writes them.

#include "runtime/place/NodeList.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

using Hosts = std::vector<std::string>;

Hosts hostsOf(const std::string &list) {
  Result<Hosts> hosts = expandNodeList(list);
  return hosts ? *hosts : Hosts{"error: " + hosts.error().message};
}

void expectError(const std::string &list, const std::string &part) {
  Result<Hosts> hosts = expandNodeList(list);
  ASSERT_FALSE(hosts) << list;
  EXPECT_NE(hosts.error().message.find(part), std::string::npos)
      << hosts.error().message;
}

TEST(NodeList, NamesStandForThemselves) {
  EXPECT_EQ(hostsOf("a"), (Hosts{"a"}));
  EXPECT_EQ(hostsOf("b,a.example.org,c_1-x"),
            (Hosts{"b", "a.example.org", "c_1-x"}));
}

TEST(NodeList, RangesKeepLeadingZeros) {
  EXPECT_EQ(hostsOf("node[01-03,7],b-[1-2]-x"),
            (Hosts{"node01", "node02", "node03", "node7", "b-1-x", "b-2-x"}));
  EXPECT_EQ(hostsOf("n[8-11]"), (Hosts{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(hostsOf("n[098-101]"), (Hosts{"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(hostsOf("[1-2]"), (Hosts{"1", "2"}));
}

TEST(NodeList, TheLastBracketChangesFastest) {
  EXPECT_EQ(hostsOf("r[0-1]n[0-1]"), (Hosts{"r0n0", "r0n1", "r1n0", "r1n1"}));
  EXPECT_EQ(hostsOf("r[0,5][1-2]"), (Hosts{"r01", "r02", "r51", "r52"}));
}

TEST(NodeList, WhatIsWrongIsNamedWithItsPlace) {
  expectError("", "character 1: a host is missing");
  expectError("a,,b", "character 3: a host is missing");
  expectError("a,", "a host is missing");
  expectError("a[1-2", "character 6: expected ',' or ']'");
  expectError("a[]", "a number is missing");
  expectError("a[1-]", "a number is missing");
  expectError("a[3-1]", "ends with 1 before it begins with 3");
  expectError("a]", "character 2: a name has letters");
  expectError("a[1[2]]", "expected ',' or ']'");
  expectError("a b", "a name has letters");
  expectError("a;reboot", "a name has letters");
}

TEST(NodeList, NoListTakesMuchMemory) {
  EXPECT_EQ(hostsOf("n[0-65535]").size(), mostHosts);
  expectError("n[0-65536]", "more than 65536 hosts");
  expectError("n[0-999999999999999999]", "more than 65536 hosts");
  expectError("n[0-255][0-255][0-1]", "more than 65536 hosts");
  expectError("n[0-65535],m", "more than 65536 hosts");
  expectError("n[0-40000,0-40000]", "more than 65536 hosts");
  expectError("n[1234567890123456789]", "more than 18 digits");
  expectError(std::string(254, 'a'), "longer than 253");
  EXPECT_EQ(hostsOf(std::string(253, 'a')).size(), 1U);
  expectError(std::string(252, 'a') + "[10]", "longer than 253");
  std::string many = "n[0-65535]";
  for (int i = 0; i < 300; ++i)
    many += "[0]";
  expectError(many, "longer than 253");
}

} // namespace
} // namespace polyrank::runtime::test
