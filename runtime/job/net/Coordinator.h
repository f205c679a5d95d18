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
    bool allowMixedCpus = false;
    /// The machines share the ranks of one plan out, and are told of each
    /// other's.
    bool sharesRanks = false;
    Time joinTimeout = std::chrono::seconds(300);
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
    Over, // refused, or failed
    Done  // all ranks of all machines have ended well
  };
  Phase phase() const { return current; }
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
    int machine = -1; // -1: it has not joined
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

  /// Why the node cannot be the machine that it says; empty if it can.
  std::string refusalOf(const Connection &from) const;
  void refuse(Link link, const std::string &reason,
              Error::Fault fault = Error::Fault::Input);
  /// The link's connection is to be closed, and nothing of it counts any more.
  void drop(Link link);
  void start();
  void fail(const MachineFailure &failure);
  void refuseAll(const Error &error);
  void tellMissing();
  void sendToAll(const Message &message);
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
