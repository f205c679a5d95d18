// Makes a polyrank-run one machine of a job. Tools and sessions need no other
// header of this folder, but JobKey.h and NodeStatement.h.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/job/net/JobKey.h"
#include "runtime/job/net/NodeStatement.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

struct JoinOptions {
  int machines = 1; // at most 2048
  /// Further ones, with the numbers that follow. Each waits until one of the
  /// others is lost, and takes its place.
  int spares = 0;
  int machine = 0; // this one; 0 is the coordinator
  /// The name or the address of the coordinator, IPv4 or IPv6 without brackets.
  /// All addresses of a name are tried. Machine 0 does not look it up.
  std::string host;
  uint16_t port = 0;
  /// The address on which machine 0 listens, and from which other machines
  /// connect; empty: every address with a key, and loopback without one.
  std::string bindAddress;
  /// Without a key only loopback addresses are listened on and connected to.
  std::optional<JobKey> key;
  std::chrono::milliseconds joinTimeout = std::chrono::seconds(300);
  bool allowMixedCpus = false;
  /// The machines share the ranks of one plan out.
  bool sharesRanks = false;
  /// Machine 0 decides after each failure whether all start again
  /// (OtherMachines::startAgain); else the first failure ends the job.
  bool startsAgain = false;
  /// How long such a start waits for the place of a lost machine to be taken.
  std::chrono::milliseconds rejoinTimeout = std::chrono::seconds(300);
  /// For how many machines there are other plans, with which those that are
  /// left go on after that time (OtherMachines::fewer).
  std::vector<int> fewer;
  NodeStatement statement;
  /// Shows one line to the user. Called by the thread of `join`, and later by
  /// the thread of the network.
  std::function<void(const std::string &line)> log;
};

/// A machine of the job, as all know it once they are together.
struct Peer {
  std::string address;                // over which it reached the coordinator
  int firstRank = 0, ranks = 0;       // counted over all machines
  uint64_t memory = 0, openFiles = 0; // as it has stated them

  bool operator==(const Peer &) const = default;
};

/// The node of this machine; on machine 0 also the coordinator. One thread
/// serves the network and does nothing else.
class Machines : public OtherMachines {
public:
  /// Returns once all machines are there and agree; null in a spare if the job
  /// is done without it. Fails within a second if machine 0's port is taken,
  /// with the error of all machines if two disagree, and with the list of the
  /// missing machines at the deadline.
  static Result<std::unique_ptr<Machines>> join(const JoinOptions &options);

  /// All machines, by number. It changes with each start.
  virtual const std::vector<Peer> &peers() const = 0;
  /// The difference between machine 0's monotonic clock and this machine's, in
  /// nanoseconds: to be added where times leave this machine.
  virtual int64_t clockOffset() const = 0;
};

} // namespace polyrank::runtime::net
