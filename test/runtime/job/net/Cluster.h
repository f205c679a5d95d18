// Machines of a job in one process, with time and messages under control.

#pragma once

#include "runtime/job/net/Coordinator.h"
#include "runtime/job/net/Node.h"
#include "test/runtime/job/net/ExampleMessages.h"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace polyrank::runtime::net::test {

/// A coordinator and its nodes, of which machine m has link m. Messages arrive
/// at once.
class Cluster {
public:
  using Time = std::chrono::nanoseconds;

  /// `more` nodes have numbers that follow those of machines and spares.
  explicit Cluster(int machines, Coordinator::Options options = {},
                   int more = 0)
      : machines(machines),
        coordinator((options.machines = machines, options), now) {
    for (int machine = 0; machine < machines + options.spares + more;
         ++machine) {
      NodeStatement statement = exampleStatement();
      statement.memory += machine;
      nodes.push_back(std::make_unique<Node>(machine, statement, now));
      statements.push_back(statement);
    }
  }

  static std::string addressOf(int machine) {
    return "10.0.0." + std::to_string(machine + 1);
  }
  /// Connects a machine, whose number may be another than its link's.
  void connect(int link, int machine = -1, int count = 0) {
    machine = machine < 0 ? link : machine;
    count = count ? count : machines;
    coordinator.arrived(link,
                        {netProtocol, uint32_t(machine), uint32_t(count), 1},
                        link == 0 ? "" : addressOf(link), now);
    isOpen.insert(link);
    nodes[link]->connected(addressOf(link), now);
    run();
  }
  void connectAll() {
    for (int machine = 0; machine < machines; ++machine)
      connect(machine);
  }
  /// The connection breaks, which both ends see.
  void disconnect(int machine) {
    isOpen.erase(machine);
    coordinator.closed(machine, "connection reset", now);
    nodes[machine]->disconnected("connection reset", now);
    run();
  }
  /// Another process is started in the place of the machine.
  void replace(int machine) {
    isOpen.erase(machine);
    nodes[machine] = std::make_unique<Node>(machine, statements[machine], now);
  }
  /// Messages of the machine are lost, in these directions.
  void cut(int machine, bool up = true, bool down = true) {
    if (up)
      isCutUp.insert(machine);
    if (down)
      isCutDown.insert(machine);
  }

  /// Lets time pass. Machines that are `asleep` do nothing.
  void pass(Time time, const std::set<int> &asleep = {}) {
    for (Time end = now + time; now < end;) {
      now = std::min(end, now + std::chrono::milliseconds(100));
      for (int machine = 0; machine < int(nodes.size()); ++machine)
        if (!asleep.contains(machine) &&
            nodes[machine]->tick(ranksOf(machine), now))
          isOpen.erase(machine);
      if (!asleep.contains(0))
        coordinator.tick(now);
      run();
    }
  }

  /// Carries messages until there are none.
  void run() {
    for (bool any = true; any;) {
      any = false;
      for (int machine = 0; machine < int(nodes.size()); ++machine)
        for (const Message &message : nodes[machine]->takeMessages()) {
          any = true;
          if (isOpen.contains(machine) && !isCutUp.contains(machine))
            coordinator.received(machine, message, now);
        }
      for (const Coordinator::Action &action : coordinator.takeActions()) {
        any = true;
        int machine = int(action.link);
        if (!isOpen.contains(machine) || isCutDown.contains(machine))
          continue;
        if (action.message) {
          ++sent[machine];
          nodes[machine]->received(*action.message, now);
        } else {
          isOpen.erase(machine);
          nodes[machine]->disconnected("it has closed the connection", now);
        }
      }
    }
  }

  std::vector<RemoteRank> ranksOf(int machine) {
    return ranks.contains(machine) ? ranks[machine]
                                   : std::vector<RemoteRank>(2);
  }
  /// The failure that the machine knows: "1: text", "" if none.
  std::string failureOf(int machine) const {
    const auto &failure = nodes[machine]->failure();
    return failure ? std::to_string(failure->machine) + ": " +
                         failure->error.message
                   : "";
  }

  Time now = std::chrono::hours(1);
  int machines;
  Coordinator coordinator;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<NodeStatement> statements;
  std::map<int, std::vector<RemoteRank>> ranks;
  std::map<int, int> sent; // messages to each machine
  std::set<int> isOpen, isCutUp, isCutDown;
};

} // namespace polyrank::runtime::net::test
