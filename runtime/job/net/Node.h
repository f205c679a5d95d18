// Each machine's part in a job of several machines. No sockets and no clock:
// what happens comes in by calls, and what is to be sent is taken out.

#pragma once

#include "runtime/job/net/ClockOffset.h"
#include "runtime/job/net/Messages.h"
#include "runtime/job/net/Silence.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

class Node {
public:
  using Time = std::chrono::nanoseconds;

  Node(int machine, const NodeStatement &statement, Time now);

  /// The coordinator has been reached, and has proved that it has the key.
  /// `address` is this machine's own one.
  void connected(const std::string &address, Time now);
  /// The connection is gone. A node that has begun fails for good; before that
  /// it may be connected again.
  void disconnected(const std::string &why, Time now);
  void received(const Message &message, Time now);
  /// To be called at least every half second, after what has come was read.
  /// `ranks` are those of this machine, and `awaited` how long they have waited
  /// for those of others. Returns true if the connection is to be
  /// closed, since nothing is heard of the coordinator.
  bool tick(const std::vector<RemoteRank> &ranks, Time now,
            const std::vector<NodePulse::Awaited> &awaited = {});
  /// The next pulse is due at once.
  void hurry() { next = now; }
  /// When a pulse is due.
  Time nextPulse() const { return next; }

  /// What is to be sent, in this order.
  std::vector<Message> takeMessages();

  // What this machine's launcher does.

  /// The ranks of this machine, or null while it has none. Orders are obeyed at
  /// once.
  void setGate(FrontierGate *gate);
  /// A failure of this machine. The coordinator answers which one was first.
  void fail(const MachineFailure &failure);
  /// The run of this machine is over, while the job may start again without it.
  void leave(const MachineFailure &why);
  void tell(const std::string &line);
  void requestStop(int signal);
  /// What a rank here reports to machine 0.
  void report(int rank, const std::string &line);
  /// The ranks here have come to a barrier.
  void arrive(const BarrierMessage &barrier);
  /// What the launcher gives to the next exchange.
  void exchange(const std::string &text);
  /// The ranks have ended well; `begun` is the latest step of them.
  void finish(uint64_t begun);
  /// The ranks have ended, and the node joins the start for which the
  /// coordinator has called.
  void startAgain();

  enum class Phase {
    Joining, // machines are missing
    Running,
    Failed, // `failure` says why; `refusal` if it has not begun
    Done    // all ranks of all machines have ended well
  };
  Phase phase() const { return current; }
  /// The exit status of a run that is done, as machine 0 has told it.
  int status() const { return statusOfAll; }
  /// True once the job is over: after a failure machine 0 may call for another
  /// start until then.
  bool isOver() const {
    return current == Phase::Done || (current == Phase::Failed && isFinal);
  }
  /// True once the coordinator has called for another start, until
  /// `startAgain`.
  bool isCalledAgain() const { return isCalled; }
  /// The place that the coordinator has given to this node: before the first
  /// start the one for which it asks.
  int place() const { return machine; }
  /// How many starts there were, the latest included.
  uint32_t starts() const { return start; }
  bool hasConnection() const { return isConnected; }
  const std::optional<MachineFailure> &failure() const { return first; }
  const std::optional<Error> &refusal() const { return refused; }
  /// Set if the job is over because fewer machines go on as another one.
  const std::optional<FewerMessage> &fewer() const { return left; }
  /// What has come of the ranks of all machines, and the barriers that are
  /// over; taken once.
  std::vector<RanksMessage> takeRanks();
  std::vector<BarrierMessage> takeBarriers();
  /// What all launchers have given to the latest exchange, once it is over.
  std::optional<std::vector<std::string>> exchanged() const;
  /// All machines, once they are there.
  const std::vector<StartMessage::Machine> &machines() const { return all; }
  /// The latest order about the last step.
  const FrontierOrder &order() const { return follower.order(); }
  Time clockOffset() const { return offset.get(); }

private:
  void take(const StartMessage &message);
  void take(const RefuseMessage &message);
  void take(const CoordinatorPulse &pulse);
  void take(const PongMessage &message);
  void take(const FailMessage &message);
  void take(const DoneMessage &message);
  void take(const RanksMessage &message);
  void take(const BarrierMessage &message);
  void take(const ExchangeMessage &message);
  /// Kinds that no coordinator sends.
  template <class Other>
  void take(const Other &message);

  void take(const AgainMessage &message);
  void take(const FewerMessage &message);
  /// The ranks are to end, and `forGood` the job is over.
  void end(const MachineFailure &failure, bool forGood);
  void join();
  NodePulse pulse(const std::vector<RemoteRank> &ranks,
                  const std::vector<NodePulse::Awaited> &awaited);
  /// Sends what was told, as far as one message takes it.
  void sendTold();
  /// Sends all that ranks have reported.
  void sendReports();

  int machine;
  NodeStatement statement;
  std::string address; // of this machine
  Time now, next;
  Phase current = Phase::Joining;
  bool isConnected = false, isCalled = false;
  bool isFinal = false; // in the phase Failed
  uint32_t start = 0;   // the latest
  int statusOfAll = 0;  // in the phase Done
  Silence silence;
  ClockOffset offset;
  FrontierFollower follower;
  FrontierGate *gate = nullptr;
  std::optional<MachineFailure> own, first;
  std::optional<Error> refused;
  std::optional<FewerMessage> left;
  std::vector<StartMessage::Machine> all;
  std::vector<Message> messages;
  std::deque<std::string> told;
  std::deque<ReportsMessage::Part> reports;
  std::vector<RanksMessage> ranksOfAll;
  std::vector<BarrierMessage> over; // barriers
  uint32_t exchanges = 0;           // begun
  ExchangeMessage lastExchange;     // that is over
  size_t nextRank = 0;              // of the next pulse
};

} // namespace polyrank::runtime::net
