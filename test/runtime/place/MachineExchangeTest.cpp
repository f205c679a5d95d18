// Machines that are numbered by what their tasks say.

#include "runtime/place/MachineExchange.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

const std::vector<InterfaceAddress> ownB{{"lo", "127.0.0.1", 8, true},
                                         {"docker0", "172.17.0.1", 16, false},
                                         {"eth0", "10.0.0.2", 24, false},
                                         {"eth0", "fd00::2", 64, false}};
const MachineCard a{"boot/1", {"172.17.0.1", "192.168.5.1", "10.0.0.1"}},
    b{"boot/2", {"172.17.0.1", "10.0.0.2", "fd00::2"}};

JobPlace taskOf(int task, int tasks) {
  JobPlace place;
  place.launcher = "mpirun";
  place.tasks = tasks;
  place.task = task;
  place.rendezvous.port = 31234;
  place.isToExchange = true;
  return place;
}

std::string errorOf(const Result<JobPlace> &place) {
  return place ? "" : place.error().message;
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

TEST(MachineExchange, MachinesAreNumberedByTheirFirstTasks) {
  for (const auto &[task, machine, local] :
       {std::tuple(0, 0, 0), {1, 1, 0}, {2, 0, 1}, {3, 1, 1}}) {
    Result<JobPlace> place =
        placeByCards(taskOf(task, 4), {}, {a, b, a, b}, machine ? ownB : ownB);
    ASSERT_TRUE(place) << place.error().message;
    EXPECT_EQ(place->machine, machine);
    EXPECT_EQ(place->machines, 2);
    EXPECT_EQ(place->local, local);
    EXPECT_EQ(place->locals, 2);
    EXPECT_FALSE(place->isToExchange);
    EXPECT_EQ(place->rendezvous.port, 31234);
  }
}

TEST(MachineExchange, TheAddressIsInANetworkOfBothAndNoBridgeOfContainers) {
  EXPECT_EQ(placeByCards(taskOf(1, 2), {}, {a, b}, ownB)->rendezvous.host,
            "10.0.0.1");
  MachineCard far{"boot/1", {"172.17.0.1", "192.168.5.1"}};
  EXPECT_EQ(placeByCards(taskOf(1, 2), {}, {far, b}, ownB)->rendezvous.host,
            "192.168.5.1");
  EXPECT_EQ(placeByCards(taskOf(1, 2), {.rendezvous = "c:7"}, {a, b}, ownB)
                ->rendezvous,
            (Endpoint{"c", 7}));
}

TEST(MachineExchange, TasksOnOneMachineNeedNoAddress) {
  Result<JobPlace> place = placeByCards(taskOf(1, 2), {}, {b, b}, ownB);
  ASSERT_TRUE(place);
  EXPECT_FALSE(place->isOneOfSeveral());
  EXPECT_EQ(place->locals, 2);
}

TEST(MachineExchange, WhatDoesNotFitIsRefused) {
  EXPECT_TRUE(contains(errorOf(placeByCards(taskOf(0, 3), {}, {a, b, b}, ownB)),
                       "3 tasks on 2 machines, as many as 1, 2"));
  EXPECT_TRUE(contains(errorOf(placeByCards(taskOf(0, 3), {}, {a, b}, ownB)),
                       "2 of the 3 tasks"));
  MachineCard closed{"boot/1", {"172.17.0.1"}};
  EXPECT_TRUE(
      contains(errorOf(placeByCards(taskOf(1, 2), {}, {closed, b}, ownB)),
               "no address that this machine could reach; it has 172.17.0.1"));
  EXPECT_TRUE(contains(
      errorOf(placeByCards(taskOf(1, 2), {.machines = 3}, {a, b}, ownB)),
      "--machines 3, but mpirun has started its tasks on 2"));
  EXPECT_TRUE(contains(
      errorOf(placeByCards(taskOf(1, 2), {.machine = 0}, {a, b}, ownB)),
      "--machine 0, but"));
}

TEST(MachineExchange, CardsAreReadAsTheyWereWritten) {
  EXPECT_EQ(*MachineCard::parse(a.text()), a);
  EXPECT_EQ(*MachineCard::parse(MachineCard{"x", {}}.text()),
            (MachineCard{"x", {}}));
  EXPECT_FALSE(MachineCard::parse(""));
  EXPECT_EQ(cardOf("x", ownB, "")->addresses, b.addresses);
  EXPECT_EQ(cardOf("x", ownB, "eth0")->addresses,
            (std::vector<std::string>{"10.0.0.2", "fd00::2"}));
  EXPECT_FALSE(cardOf("x", ownB, "eth1"));
}

/// Gives everybody the same card but one.
class FakeExchange : public TaskExchange {
public:
  Result<std::vector<std::string>> gather(const std::string &mine) override {
    ++calls;
    return std::vector{mine, mine};
  }
  int calls = 0;
};

TEST(MachineExchange, OnlyPlacesThatNeedItAreExchanged) {
  FakeExchange exchange;
  Result<JobPlace> place = exchangeIfNeeded(taskOf(1, 2), {}, "", exchange);
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(place->local, 1);
  ASSERT_TRUE(exchangeIfNeeded(JobPlace{}, {}, "", exchange));
  EXPECT_EQ(exchange.calls, 1);
}

} // namespace
} // namespace polyrank::runtime::test
