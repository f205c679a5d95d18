// The control messages between the machines of a job, and their bounds.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/job/net/FrontierRounds.h"
#include "runtime/job/net/NodeStatement.h"
#include "support/Result.h"

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace polyrank::runtime::net {

/// The most of everything that a message may have. What is longer is cut when
/// it is written, and refused when it is read.
struct MessageBounds {
  static constexpr size_t body = 1 << 20;                // bytes
  static constexpr size_t machines = 2048, ranks = 4096; // ranks of a machine
  static constexpr size_t blockers = 64; // ranks for which one waits
  static constexpr size_t word = 256;    // bytes of a version, address, ..
  static constexpr size_t words = 4096;  // bytes of CPU features, settings
  static constexpr size_t text = 64 << 10, lines = 256;
  static constexpr size_t told = 512 << 10; // bytes of all lines of a message
  static constexpr size_t exchanged = 900 << 10; // bytes of all texts
  static constexpr size_t awaited = 4096;     // entries of NodePulse::awaited
  static constexpr size_t filled = 512 << 10; // bytes of a WindowMessage
};

/// A node's first message.
struct JoinMessage {
  NodeStatement statement;
  std::string address; // of the interface over which it came

  bool operator==(const JoinMessage &) const = default;
};

/// All machines are there and agree: the ranks may start.
struct StartMessage {
  uint32_t machine = 0; // whose place the node has
  uint32_t start = 1;   // how many there were, this one included
  struct Machine {
    std::string address;
    uint32_t firstRank = 0, ranks = 0;
    uint64_t memory = 0, openFiles = 0; // as it has stated them

    bool operator==(const Machine &) const = default;
  };
  std::vector<Machine> machines;

  bool operator==(const StartMessage &) const = default;
};

/// The coordinator does not take the node, or has no job any more.
struct RefuseMessage {
  std::string reason;
  Error::Fault fault = Error::Fault::Input;

  bool operator==(const RefuseMessage &) const = default;
};

/// A node's sign of life, every half second: where its ranks are. A machine of
/// very many ranks sends them in turn.
struct NodePulse {
  FrontierAnswer answer;
  uint32_t firstRank = 0; // of `ranks`, counted on the machine
  std::vector<RemoteRank> ranks;
  /// How long ranks here have waited for a rank of another machine.
  struct Awaited {
    uint32_t rank = 0; // counted over all machines
    uint64_t nanoseconds = 0;

    bool operator==(const Awaited &) const = default;
  };
  std::vector<Awaited> awaited = {};

  bool operator==(const NodePulse &) const = default;
};

/// The coordinator's.
struct CoordinatorPulse {
  FrontierOrder order;

  bool operator==(const CoordinatorPulse &) const = default;
};

/// One round trip of ClockOffset. Times are of monotonic clocks.
struct PingMessage {
  int64_t sent = 0; // the node's

  bool operator==(const PingMessage &) const = default;
};
struct PongMessage {
  int64_t sent = 0; // as it came
  int64_t at = 0;   // the coordinator's

  bool operator==(const PongMessage &) const = default;
};

/// The ranks are to end: from a node what has failed there, from the
/// coordinator what has failed first.
struct FailMessage {
  MachineFailure failure;
  /// The job is over. Otherwise machine 0 is still to decide whether there is
  /// another start.
  bool isFinal = true;

  bool operator==(const FailMessage &) const = default;
};

/// Lines for the terminal of machine 0.
struct TellMessage {
  std::vector<std::string> lines;

  bool operator==(const TellMessage &) const = default;
};

/// A node asks that all ranks end after the same step.
struct StopMessage {
  int32_t signal = 0;

  bool operator==(const StopMessage &) const = default;
};

/// From a node: its ranks have ended well. From the coordinator: those of all
/// machines have.
struct DoneMessage {
  uint64_t begun = 0; // the latest step that a rank had begun
  /// From the coordinator: the exit status of the run.
  int32_t status = 0;

  bool operator==(const DoneMessage &) const = default;
};

/// From the coordinator, where machines share the ranks out: where ranks are.
struct RanksMessage {
  uint32_t first = 0; // of `ranks`, counted over all machines
  std::vector<RemoteRank> ranks;

  bool operator==(const RanksMessage &) const = default;
};

/// From a node: its ranks have come to a barrier. From the coordinator: those
/// of all machines have.
struct BarrierMessage {
  uint32_t number = 0;    // from 1
  int32_t lastToCome = 0; // the rank; of all machines, or of the node's

  bool operator==(const BarrierMessage &) const = default;
};

/// From a node: bytes that its ranks have filled of the window, to be added to
/// those of machine 0, which are zero there. It precedes the barrier.
struct WindowMessage {
  uint64_t offset = 0;
  std::vector<uint8_t> bytes;

  bool operator==(const WindowMessage &) const = default;
};

/// From a node: what its ranks report to the launcher of machine 0. A long line
/// comes in several parts, one after another.
struct ReportsMessage {
  struct Part {
    uint32_t rank = 0;
    bool isLast = true;
    std::string text;

    bool operator==(const Part &) const = default;
  };
  std::vector<Part> parts;

  bool operator==(const ReportsMessage &) const = default;
};

/// From a node: what its launcher gives to an exchange. From the coordinator:
/// what all have given, by machine.
struct ExchangeMessage {
  uint32_t number = 0; // of the exchange, from 1
  std::vector<std::string> texts;

  bool operator==(const ExchangeMessage &) const = default;
};

/// From the coordinator: all machines start again once they have joined again.
/// It is the last message of its incarnation in both directions; those that
/// follow are of the new one.
struct AgainMessage {
  uint64_t incarnation = 0;

  bool operator==(const AgainMessage &) const = default;
};

/// From the coordinator: nobody has come in the place of those that are lost,
/// and the others go on with a plan for fewer machines, as another job.
struct FewerMessage {
  uint32_t machines = 0;
  /// Which one the node is; none of them from `machines` on.
  uint32_t machine = 0;

  bool operator==(const FewerMessage &) const = default;
};

/// The kind of a message is its place in this list, counted from 1.
using Message =
    std::variant<JoinMessage, StartMessage, RefuseMessage, NodePulse,
                 CoordinatorPulse, PingMessage, PongMessage, FailMessage,
                 TellMessage, StopMessage, DoneMessage, RanksMessage,
                 BarrierMessage, WindowMessage, ReportsMessage, ExchangeMessage,
                 AgainMessage, FewerMessage>;
inline constexpr uint16_t numKinds = std::variant_size_v<Message>;

/// A name for reports: "NodePulse".
const char *nameOfKind(uint16_t kind);

/// Encodes the body of a message. Returns at most MessageBounds::body bytes.
std::vector<uint8_t> encode(const Message &message);
/// Fails for an unknown kind, and for a body that is cut, too long, or has a
/// field out of its bounds.
Result<Message> decode(uint16_t kind, std::span<const uint8_t> body);

} // namespace polyrank::runtime::net
