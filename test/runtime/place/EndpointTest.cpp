// Hosts and ports.

#include "runtime/place/Endpoint.h"

#include <gtest/gtest.h>
#include <set>

namespace polyrank::runtime::test {
namespace {

TEST(Endpoint, HostsAndPortsAreTakenApart) {
  auto parsed = [](const char *text) {
    Result<Endpoint> endpoint = parseEndpoint(text);
    return endpoint ? *endpoint : Endpoint{endpoint.error().message};
  };
  EXPECT_EQ(parsed("a"), (Endpoint{"a"}));
  EXPECT_EQ(parsed("job-0.service:31234"), (Endpoint{"job-0.service", 31234}));
  EXPECT_EQ(parsed("10.0.0.1:1"), (Endpoint{"10.0.0.1", 1}));
  EXPECT_EQ(parsed("fd00::1"), (Endpoint{"fd00::1"}));
  EXPECT_EQ(parsed("[fd00::1]"), (Endpoint{"fd00::1"}));
  EXPECT_EQ(parsed("[fd00::1]:65535"), (Endpoint{"fd00::1", 65535}));
  for (const char *text : {"a", "a:5", "10.0.0.1:1", "[fd00::1]:65535"})
    EXPECT_EQ(parsed(text).text(), text);
  EXPECT_EQ(parsed("fd00::1").text(), "[fd00::1]");
}

TEST(Endpoint, WhatIsNoneIsRefused) {
  for (const char *text :
       {"", ":5", "a:", "a:0", "a:65536", "a:x", "a:5x", "a: 5", "[fd00::1",
        "[]:5", "[a]x", "a b", "-a", "a/b", "http://a:5"}) {
    Result<Endpoint> endpoint = parseEndpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_NE(endpoint.error().message.find("is not HOST[:PORT]"),
              std::string::npos);
  }
}

TEST(Endpoint, APortFollowsFromTheJob) {
  std::set<uint16_t> ports;
  for (int job = 0; job < 100; ++job) {
    uint16_t port = portOf(std::to_string(job) + ".0");
    EXPECT_GE(port, 20000);
    EXPECT_LT(port, 40000);
    ports.insert(port);
  }
  EXPECT_GE(ports.size(), 98U);
  // docs/machines.md names it, for firewalls.
  EXPECT_EQ(portOf(""), 23138);
}

TEST(Endpoint, LoopbackIsSeen) {
  for (const char *host : {"localhost", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(isLoopback(host)) << host;
  for (const char *host : {"a", "10.0.0.1", "::2", "localhost.example", ""})
    EXPECT_FALSE(isLoopback(host)) << host;
}

} // namespace
} // namespace polyrank::runtime::test
