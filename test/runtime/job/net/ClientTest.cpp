// A node's connection, with time under control.

#include "runtime/job/net/Client.h"

#include "test/runtime/job/net/ExampleMessages.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;

class ClientTest : public testing::Test {
protected:
  std::vector<Descriptor> listeners = *listenAt("127.0.0.1", 0, true);
  Client client{{.host = "127.0.0.1",
                 .port = portOf(listeners.front()),
                 .claim = {netProtocol, 1, 2, 3}},
                JobKey(std::array<uint8_t, JobKey::size>{1})};
  Node node{1, test::exampleStatement(), 0s};
};

// As after a silence of the coordinator, or when the job is over.
TEST_F(ClientTest, AConnectionThatIsClosedIsLookedUpAgain) {
  for (Client::Time now : {0s, 6s, 12s}) {
    ASSERT_TRUE(client.isToLookUp(now));
    client.found(client.lookUp(), now);
    EXPECT_FALSE(client.isToLookUp(now));
    client.serve(node, now);
    EXPECT_GE(client.descriptor(), 0);
    client.close();
    client.serve(node, now + 5s); // has no address to connect to
    EXPECT_EQ(client.descriptor(), -1);
  }
}

TEST_F(ClientTest, EachAddressIsTriedBeforeANameIsLookedUpAgain) {
  std::vector<SocketAddress> two = *client.lookUp();
  two.push_back(two.front());
  client.found(two, 0s);
  client.serve(node, 0s);
  client.close();
  EXPECT_FALSE(client.isToLookUp(6s));
  client.serve(node, 6s);
  EXPECT_GE(client.descriptor(), 0);
}

TEST_F(ClientTest, ANameWithoutAnAddressIsAFailedAttempt) {
  client.found(std::vector<SocketAddress>(), 0s);
  EXPECT_NE(client.lastError().find("has no address"), std::string::npos);
  EXPECT_FALSE(client.isToLookUp(0s)); // after a pause
  EXPECT_TRUE(client.isToLookUp(1s));
}

} // namespace
} // namespace polyrank::runtime::net
