// Makes communicators for plans: the only place that knows which ways to move
// data this program was built with.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/WireKind.h"
#include "runtime/plan/PlanFile.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The machines over which the ranks of one plan are spread. Each has a block
/// of consecutive ranks; the blocks follow each other in the machines' order.
struct RankMachines {
  std::vector<int> ranks; // by machine: how many it has, at least one
  int machine = 0;        // this one
  /// An address of this machine that the others reach, without a port. The
  /// ranks of this machine listen at it, each at a free port.
  std::string address;

  int first() const { return firstOf(machine); } // of this machine's ranks
  int count() const { return ranks[static_cast<size_t>(machine)]; }
  int firstOf(int other) const;
  int machineOf(int rank) const;
  int worldSize() const { return firstOf(static_cast<int>(ranks.size())); }
};

/// The facts about a plan that communicators need before the ranks start.
struct CommunicatorNeeds {
  /// For each rank of the job, the bytes of the channels in which it sends
  /// (runtime/plan/Channels.h).
  std::vector<uint64_t> channelBytes;
  /// The plan's hash: ranks that run another one are refused.
  PlanHash program{};
  /// Not given if all ranks are on this machine.
  std::optional<RankMachines> machines;
  /// Data that goes between machines has checksums, which are compared. The
  /// same on all machines.
  bool checksWire = true;
  /// The way in which it is moved, the same on all machines (net/Ucx.h).
  WireKind wire = WireKind::Tcp;
};

/// Where the ranks of all machines listen, and what they recognize each other
/// by. All machines have the same.
struct CommunicatorPeers {
  struct Listener {
    std::string address; // without a port
    uint16_t port = 0;
  };
  std::vector<Listener> listeners; // by rank of the job
  /// Drawn at random for each start of all ranks.
  uint64_t incarnation = 0;
  /// The secret of this start of all ranks, by which each connection is proved.
  std::array<uint8_t, 32> key{};
};

/// The launcher's end of the communicators of one plan. It is created before
/// the ranks start, and kept until they have ended; all is gone with it.
class CommunicatorHost {
public:
  virtual ~CommunicatorHost() = default;
  /// The files by which a rank attaches, to be handed to its process in this
  /// order: as many as communicatorFilesOf says.
  virtual std::vector<int> descriptors() const = 0;
  /// The ports at which this machine's ranks listen, in their order; none if
  /// all ranks are on this machine.
  virtual std::vector<uint16_t> ports() const { return {}; }
  /// Tells this machine's ranks where the others are. Called once, before a
  /// rank of this machine attaches, if there are other machines.
  virtual Result<void> connect(const CommunicatorPeers &peers) = 0;
  /// Wakes the ranks that sleep in a communicator. Whoever has this does it
  /// when it aborts the job (Job::onAbort); in ranks, communicators do.
  virtual void wakeSleepers() const = 0;
};

Result<std::unique_ptr<CommunicatorHost>>
hostCommunicators(const CommunicatorNeeds &needs);
/// The number of files by which a rank attaches, if `ranks` of the job's ranks
/// are on its machine. `machines` is how many machines the job has.
int communicatorFilesOf(int ranks, int machines = 1);

/// Makes the communicator of a rank that has joined its job, once for each
/// plan. Takes over the descriptors, unless it refuses them. `job` outlives the
/// communicator. Fails if the launcher runs another plan.
///
/// If the job has several machines, the job's numbers of ranks are those of the
/// whole job. Of ranks on other machines the communicator asks the job nothing
/// but `report` and `waitOf`, which may be empty, and tells it by beginWait and
/// addAwaited that this rank waits for them.
Result<std::unique_ptr<Communicator>>
attachCommunicator(std::span<const int> descriptors, JobMember &job,
                   const PlanHash &program);

} // namespace polyrank::runtime
