// An open port: who may connect, what strangers can do, and how many nodes can
// come at once.

#include "runtime/job/net/Server.h"
#include "runtime/job/net/Client.h"

#include "test/runtime/job/net/ExampleMessages.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::nanoseconds;

JobKey keyOf(uint8_t first) {
  std::array<uint8_t, JobKey::size> bytes{first};
  return JobKey(bytes);
}

/// The resident memory of this process, in bytes.
size_t memoryInUse() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * size_t(getpagesize());
}

/// A coordinator behind real sockets of the loopback interface. Its clock goes
/// on only when the test says so.
class PortTest : public testing::Test {
protected:
  void open(int machines) {
    auto listeners = listenAt("127.0.0.1", 0, true);
    ASSERT_TRUE(listeners) << listeners.error().message;
    port = portOf(listeners->front());
    auto opened =
        Server::open(std::move(*listeners), keyOf(1), 42,
                     [this](const std::string &line) { log.push_back(line); });
    ASSERT_TRUE(opened);
    server.emplace(std::move(*opened));
    coordinator.emplace(Coordinator::Options{.machines = machines}, now);
    coordinator->arrived(Coordinator::ownLink,
                         {netProtocol, 0, uint32_t(machines), 1}, "", now);
    coordinator->received(Coordinator::ownLink,
                          JoinMessage{test::exampleStatement(), ""}, now);
  }

  struct Machine {
    Client client;
    Node node;
  };
  Machine &start(int machine, int machines, uint8_t key = 1) {
    auto added = std::make_unique<Machine>(Machine{
        Client(
            {.host = "127.0.0.1",
             .port = port,
             .claim = {netProtocol, uint32_t(machine), uint32_t(machines), 1}},
            keyOf(key)),
        Node(machine, test::exampleStatement(), now)});
    nodes.push_back(std::move(added));
    return *nodes.back();
  }

  void serve() {
    server->serve(*coordinator, now);
    coordinator->tick(now);
    for (const Coordinator::Action &action : coordinator->takeActions())
      server->apply(action, *coordinator, now);
    for (auto &each : nodes) {
      if (each->client.isToLookUp(now))
        each->client.found(each->client.lookUp(), now);
      each->client.serve(each->node, now);
      if (each->node.tick({}, now))
        each->client.close();
      for (const Message &message : each->node.takeMessages())
        each->client.send(message, each->node, now);
    }
  }
  /// Serves until the condition holds, at most for so long in real time.
  bool serveUntil(const std::function<bool()> &holds, Time most = 5s) {
    auto end = std::chrono::steady_clock::now() + most;
    while (!holds() && std::chrono::steady_clock::now() < end) {
      serve();
      poll(nullptr, 0, nodes.size() < 10 ? 1 : 0);
    }
    return holds();
  }

  /// A socket that has connected and says these bytes.
  Descriptor stranger(const std::string &bytes = "") {
    auto addresses = resolve("127.0.0.1", port);
    Descriptor socket = std::move(*beginConnect(addresses->front(), ""));
    pollfd file{socket.get(), POLLOUT, 0};
    poll(&file, 1, 1000);
    send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return socket;
  }
  /// Returns the bytes that have come, or "closed".
  std::string heard(const Descriptor &socket) {
    char buffer[4096];
    ssize_t got = recv(socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET))
      return "closed";
    return got < 0 ? "" : std::string(buffer, size_t(got));
  }
  bool isRunning() {
    return std::all_of(nodes.begin(), nodes.end(), [](const auto &each) {
      return each->node.phase() == Node::Phase::Running;
    });
  }

  Time now = 1h;
  uint16_t port = 0;
  std::vector<std::string> log;
  std::optional<Server> server;
  std::optional<Coordinator> coordinator;
  std::vector<std::unique_ptr<Machine>> nodes;
};

TEST_F(PortTest, AThousandStrangersChangeNothing) {
  open(2);
  auto disturb = [&](int count) {
    for (int n = 0; n < count; ++n) {
      const char *words[] = {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "poly",
                             "polynet\n\xff\xff\xff\xff", ""};
      stranger(words[n % 5]); // and leaves
      if (n % 50 == 0)
        serve();
    }
  };
  disturb(500);
  start(1, 2);
  ASSERT_TRUE(serveUntil([&] { return isRunning(); }));
  disturb(500);
  ASSERT_TRUE(serveUntil([&] { return server->size() == 1; }));
  EXPECT_EQ(coordinator->phase(), Coordinator::Phase::Running);
  EXPECT_TRUE(isRunning());
  // One line, though a thousand have come.
  ASSERT_EQ(log.size(), 1u);
  EXPECT_TRUE(log[0].starts_with("refused a connection from 127.0.0.1: "))
      << log[0];
}

TEST_F(PortTest, AtMostSixtyFourWaitAndTheyMakeRoom) {
  open(2);
  std::vector<Descriptor> idle;
  for (int n = 0; n < 150; ++n)
    idle.push_back(stranger());
  for (int turn = 0; turn < 20; ++turn)
    serve();
  EXPECT_EQ(server->size(), 64u);
  Machine &machine = start(1, 2);
  // After half a second the oldest make room, one for each that comes.
  EXPECT_TRUE(serveUntil([&] {
    now += 25ms;
    EXPECT_LE(server->size(), 65u);
    return machine.node.phase() == Node::Phase::Running;
  }));
}

TEST_F(PortTest, WhoeverSaysNothingIsSentAwayAfterFiveSeconds) {
  open(2);
  Descriptor idle = stranger();
  ASSERT_TRUE(serveUntil([&] { return server->size() == 1; }));
  // The time in which the process does not run does not count.
  now += 1h;
  for (int tenth = 0; tenth < 48; ++tenth) {
    now += 100ms;
    serve();
  }
  EXPECT_EQ(heard(idle), "");
  now += 200ms;
  serve();
  now += 100ms;
  serve();
  EXPECT_EQ(heard(idle), "closed");
  EXPECT_EQ(log, std::vector<std::string>{"refused a connection from "
                                          "127.0.0.1: it has not proved that "
                                          "it has the key"});
}

TEST_F(PortTest, MoreThanFourKibibytesAreNotTaken) {
  open(2);
  Descriptor flood = stranger("polynet\n" + std::string(8000, '\1'));
  ASSERT_TRUE(serveUntil([&] { return server->size() == 1; }));
  ASSERT_TRUE(serveUntil([&] { return server->size() == 0; }));
}

TEST_F(PortTest, AnotherKeyIsAnErrorOfTheNodeAlone) {
  open(2);
  Machine &wrong = start(1, 2, 7);
  ASSERT_TRUE(serveUntil([&] { return wrong.client.fatal().has_value(); }));
  EXPECT_EQ(wrong.client.fatal()->message,
            fmt::format("machine 0 at 127.0.0.1:{}: it has another key: give "
                        "all machines the same --key",
                        port));
  nodes.clear();
  start(1, 2);
  EXPECT_TRUE(serveUntil([&] { return isRunning(); }));
}

/// A connection through which the test passes the bytes on, and keeps them.
class Relay {
public:
  Relay(Descriptor node, Descriptor coordinator)
      : ends{std::move(node), std::move(coordinator)} {}

  void carry() {
    for (int from : {0, 1}) {
      char buffer[65536];
      ssize_t got =
          recv(ends[from].get(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got <= 0)
        continue;
      said[from].append(buffer, size_t(got));
      send(ends[1 - from].get(), buffer, size_t(got), MSG_NOSIGNAL);
    }
  }

  Descriptor ends[2];
  std::string said[2];
};

TEST_F(PortTest, ARecordedConnectionIsWorthless) {
  open(2);
  // The node connects to the test, which passes on what it hears.
  auto listeners = listenAt("127.0.0.1", 0, true);
  ASSERT_TRUE(listeners);
  uint16_t servers = std::exchange(port, portOf(listeners->front()));
  start(1, 2);
  port = servers;
  std::optional<Relay> relay;
  ASSERT_TRUE(serveUntil([&] {
    if (relay) {
      relay->carry();
    } else {
      SocketAddress from;
      Descriptor node = acceptFrom(listeners->front(), from);
      if (node.get() >= 0)
        relay.emplace(std::move(node), stranger());
    }
    return isRunning();
  }));
  std::string recorded = relay->said[0];
  ASSERT_GT(recorded.size(), 100u);
  // Once more, whole and in parts: during the job that changes nothing.
  for (int time = 0; time < 20; ++time) {
    Descriptor replay = stranger(recorded);
    ASSERT_TRUE(serveUntil([&] {
      relay->carry();
      return server->size() == 2;
    }));
    ASSERT_TRUE(serveUntil([&] {
      relay->carry();
      return server->size() == 1;
    }));
  }
  EXPECT_EQ(coordinator->phase(), Coordinator::Phase::Running);
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0], "refused a connection from 127.0.0.1: it has another key");
  // A message of the real connection, sent again, ends that connection.
  size_t last = recorded.size() - (FrameHeader::size + 32 + 8); // a ping
  send(relay->ends[1].get(), recorded.data() + last, recorded.size() - last,
       MSG_NOSIGNAL);
  ASSERT_TRUE(serveUntil([&] { return server->size() == 0; }));
  EXPECT_EQ(coordinator->phase(), Coordinator::Phase::Over);
}

TEST_F(PortTest, FiveHundredNodesComeAtOnce) {
  constexpr int machines = 513;
  open(machines);
  size_t before = memoryInUse();
  auto begin = std::chrono::steady_clock::now();
  std::clock_t worked = std::clock();
  for (int machine = 1; machine < machines; ++machine)
    start(machine, machines);
  Time begun = now;
  size_t most = 0;
  ASSERT_TRUE(serveUntil(
      [&] {
        now = begun + (std::chrono::steady_clock::now() - begin);
        most = std::max(most, memoryInUse());
        return isRunning();
      },
      20s));
  // The time is that of this process alone: the machine may be busy with
  // others.
  double seconds = double(std::clock() - worked) / CLOCKS_PER_SEC;
  double megabytes = double(most - before) / 1e6;
  RecordProperty("seconds", std::to_string(seconds));
  RecordProperty("megabytes", std::to_string(megabytes));
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer takes time and memory of its own";
#endif
#endif
  EXPECT_LT(seconds, 3);
  EXPECT_LT(megabytes, 64);
}

TEST(Listening, APortThatIsTakenIsNamed) {
  auto first = listenAt("127.0.0.1", 0, true);
  ASSERT_TRUE(first);
  uint16_t port = portOf(first->front());
  for (bool loopback : {true, false}) {
    auto second = listenAt(loopback ? "127.0.0.1" : "", port, loopback);
    ASSERT_FALSE(second);
    EXPECT_TRUE(second.error().message.starts_with(fmt::format(
        "port {} of this machine is taken by another program", port)))
        << second.error().message;
    EXPECT_NE(second.error().message.find("--rendezvous HOST:PORT"),
              std::string::npos);
    EXPECT_EQ(second.error().fault, Error::Fault::Rank);
  }
}

TEST(Listening, WithoutAKeyOnlyLoopbackIsListenedOn) {
  auto listeners = listenAt("", 0, true);
  ASSERT_TRUE(listeners);
  for (const Descriptor &listener : *listeners)
    EXPECT_TRUE(localAddress(listener).isLoopback());
  auto open = listenAt("", 0, false);
  ASSERT_TRUE(open);
  for (const Descriptor &listener : *open) {
    EXPECT_FALSE(localAddress(listener).isLoopback());
    EXPECT_EQ(portOf(listener), portOf(open->front())); // one port for all
  }
}

TEST(Resolving, NumbersNeedNoNameService) {
  for (const char *host : {"127.0.0.1", "::1"}) {
    auto addresses = resolve(host, 80);
    ASSERT_TRUE(addresses);
    ASSERT_EQ(addresses->size(), 1u);
    EXPECT_EQ(addresses->front().host(), host);
    EXPECT_TRUE(addresses->front().isLoopback());
    EXPECT_EQ(addresses->front().port(), 80);
  }
  EXPECT_EQ(resolve("::1", 80)->front().text(), "[::1]:80");
  auto none = resolve("no.such.host.invalid", 80);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().message.starts_with(
      "'no.such.host.invalid' has no address: "))
      << none.error().message;
}

TEST(Addresses, OthersAreNotLoopback) {
  EXPECT_FALSE(resolve("10.0.0.1", 1)->front().isLoopback());
  EXPECT_FALSE(resolve("fe80::1", 1)->front().isLoopback());
  EXPECT_TRUE(resolve("127.0.1.1", 1)->front().isLoopback()); // Debian's name
}

} // namespace
} // namespace polyrank::runtime::net
