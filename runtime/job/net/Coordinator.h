// Machine 0's part in a job of several machines. No sockets and no clock: what
// happens comes in by calls, and what is to be sent is taken out.

#pragma once

#include "runtime/job/net/Handshake.h"
#include "runtime/job/net/Messages.h"
#include "runtime/job/net/Silence.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

class Coordinator {
public:
  using Time = std::chrono::nanoseconds;
  /// A connection of a node. 0 is the node of machine 0 itself.
  using Link = uint32_t;
  static constexpr Link ownLink = 0;

  struct Options {
    int machines = 1;
    /// Machines with the numbers that follow, which wait until they are needed
    /// in the place of another one.
    int spares = 0;
    bool allowMixedCpus = false;
    /// The machines share the ranks of one plan out, and are told of each
    /// other's.
    bool sharesRanks = false;
    /// A failure may be followed by another start (`startAgain`).
    bool startsAgain = false;
    Time joinTimeout = std::chrono::seconds(300);
    /// How long another start waits for a machine that is lost.
    Time rejoinTimeout = std::chrono::seconds(300);
    /// For how many machines there are plans with which those that are left may
    /// go on after that.
    std::vector<int> fewer = {};
  };
  Coordinator(const Options &options, Time now);

  /// A node that has proved that it has the key.
  void arrived(Link link, const Claim &claim, const std::string &address,
               Time now);
  void received(Link link, const Message &message, Time now);
  /// The connection is gone. Unless the job is over, so is the machine.
  void closed(Link link, const std::string &why, Time now);
  /// To be called at least every half second, after what has come was read.
  void tick(Time now);

  /// What is to be done, in this order: a message to send, or else a
  /// connection to close once what was sent is out.
  struct Action {
    Link link = 0;
    std::optional<Message> message;
  };
  std::vector<Action> takeActions();

  enum class Phase {
    Gathering, // machines are missing
    Running,
    Failed, // ranks are being ended; `startAgain` or `giveUp` follows
    Over,   // refused, or failed for good
    Done    // all ranks of all machines have ended well
  };
  Phase phase() const { return current; }

  /// After a failure: all nodes are called to another start, with this
  /// incarnation. It begins once each machine has joined again, or another one
  /// in its place. Does nothing once the job is over.
  void startAgain(uint64_t incarnation, Time now);
  /// The job ends with this error.
  void giveUp(const Error &error);
  /// True once the ranks of all machines have ended well; `conclude` follows.
  bool isComplete() const;
  /// The job has ended well, and every machine is told that the exit status of
  /// the run is this one. Does nothing unless `isComplete`.
  void conclude(int status);

  /// The ranks of a machine, as far as it has told of them.
  std::vector<RemoteRank> ranksOf(int machine) const;
  /// How long ranks of other machines than the rank's have waited for it, as
  /// far as machines other than machine 0 have told.
  uint64_t awaited(int rank) const;
  /// Lines of other machines, with their names; taken once.
  std::vector<std::string> takeTold();
  /// Lines for the log of machine 0 itself; taken once.
  std::vector<std::string> takeLog();
  /// What ranks of other machines have reported; taken once.
  std::vector<OtherMachines::Report> takeReports();
  /// What ranks of other machines have filled of the window; taken once, before
  /// the actions that end the barrier after it.
  std::vector<WindowMessage> takeWindow();

private:
  struct Machine {
    Link link = 0;
    std::string address;
    NodeStatement statement;
    bool isThere = false, isDone = false;
    bool isAnnounced = false; // that it is waited for
    std::vector<RemoteRank> ranks;
    std::map<uint32_t, uint64_t> awaited; // by rank of another machine
    uint32_t barrier = 0;  // the latest that its ranks have come to
    uint32_t exchange = 0; // the latest that its launcher has come to
    std::string given;     // to that
    std::string line;      // of a report, as far as it has come
  };
  struct Connection {
    Claim claim;
    std::string address;
    Silence silence;
    int machine = -1; // whose place it has; -1: it has none
    std::optional<JoinMessage> joined = {}; // none: it has not joined
    Time since = {};                        // it joined
    /// It has been called to the start for which machines gather, and has not
    /// joined that yet.
    bool isCalled = false;
  };

  void take(Link link, Connection &from, const JoinMessage &message);
  void take(Link link, Connection &from, const NodePulse &pulse);
  void take(Link link, Connection &from, const PingMessage &message);
  void take(Link link, Connection &from, const FailMessage &message);
  void take(Link link, Connection &from, const TellMessage &message);
  void take(Link link, Connection &from, const StopMessage &message);
  void take(Link link, Connection &from, const DoneMessage &message);
  void take(Link link, Connection &from, const BarrierMessage &message);
  void take(Link link, Connection &from, const ExchangeMessage &message);
  void take(Link link, Connection &from, const WindowMessage &message);
  void take(Link link, Connection &from, const ReportsMessage &message);
  /// Kinds that no node sends.
  template <class Other>
  void take(Link link, Connection &from, const Other &message);

  static bool isForAll(const Message &message);
  /// True if the node is a machine of the current start.
  static bool hasPlace(const Connection &from) {
    return from.machine >= 0 && !from.isCalled;
  }
  Machine &machineOf(const Connection &from) {
    return machines[static_cast<size_t>(from.machine)];
  }

  // How machines come together (CoordinatorPlaces.cpp).

  /// Why the node cannot be the machine that it says; empty if it can.
  std::string refusalOf(Link link, const Connection &from) const;
  /// Fails if the node disagrees with the machines that are there.
  Result<void> checkJoined(const Connection &from) const;
  /// Gives places that are free to nodes that wait for one, and begins a start
  /// once all have one.
  void fillPlaces();
  /// The node that gets the place, if there is one now. With `isLast` a spare
  /// gets it also at the first start.
  std::optional<Link> nodeFor(int machine, bool isLast) const;
  /// True if the node that has had the place is still to join.
  bool isToCome(int machine) const;
  void seat(Link link, int machine);
  /// What time brings: machines that have not come, and nodes that wait in
  /// vain.
  void lookForPlaces();
  void tellMissing();
  /// Lets those that are there go on as another job, if there is a plan for so
  /// many.
  bool goOnWithFewer();

  void refuse(Link link, const std::string &reason,
              Error::Fault fault = Error::Fault::Input);
  /// The link's connection is to be closed, and nothing of it counts any more.
  void drop(Link link);
  void start();
  void fail(const MachineFailure &failure);
  void refuseAll(const Error &error);
  /// To the machines of the current start.
  void sendToAll(const Message &message);
  /// To those that wait for a place or for a start as well.
  void sendToEverybody(const Message &message);
  void sendOrder();
  /// Tells all where some of the ranks are: of very many, in turn.
  void sendRanks();
  std::string describe(int machine) const;

  Options options;
  Time begun, now, nextPulse;
  Phase current = Phase::Gathering;
  std::map<Link, Connection> links;
  std::vector<Machine> machines;
  FrontierRounds rounds;
  FrontierOrder lastOrder;
  uint32_t starts = 0;                  // so far
  std::optional<MachineFailure> first;  // failure of the latest start
  std::optional<RefuseMessage> refused; // why the job is over
  std::vector<Action> actions;
  std::deque<std::string> told, log;
  std::vector<OtherMachines::Report> reports;
  std::vector<WindowMessage> window;
  size_t nextRank = 0; // of the next RanksMessage
};

/// "machine 1 (10.0.0.2)", or "machine 1" if the address is not known.
std::string nameOfMachine(int machine, const std::string &address);

} // namespace polyrank::runtime::net
