// What a launcher knows of the ranks on other machines, and what it tells them.

#pragma once

#include "runtime/job/Job.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Why a job of several machines is over before its ranks have finished.
struct MachineFailure {
  int machine = 0;
  int rank = -1; // of that machine's ranks; -1: none is known
  Error error;   // names the rank, and the op where that is known

  bool operator==(const MachineFailure &other) const {
    return machine == other.machine && rank == other.rank &&
           error.message == other.error.message &&
           error.fault == other.error.fault;
  }
};

/// The state of a rank of any machine, as its machine has told it last.
struct RemoteRank {
  int32_t pid = -1;
  bool running = false;
  char state = '?'; // processState, there
  uint64_t awaitedNanoseconds = 0;
  RankReport report;
  RankWait wait; // `ranks` are numbers of that machine's ranks

  bool operator==(const RemoteRank &) const = default;
};

/// Connects the launcher of one machine with those of the others. Calls return
/// at once, unless stated otherwise, and may be made by any thread.
class OtherMachines {
public:
  virtual ~OtherMachines() = default;

  virtual int machines() const = 0;
  virtual int machine() const = 0; // this one
  /// "machine 1 (10.0.0.2)".
  virtual std::string describe(int machine) const = 0;

  /// From now on the others are told where the ranks of this job are, and it is
  /// aborted when another machine fails; until `unwatch`, which must precede
  /// the end of the job.
  virtual void watch(JobControl &job) = 0;
  virtual void unwatch() = 0;
  /// The processes of this machine's ranks, -1 for one that does not run.
  virtual void setProcesses(const std::vector<int32_t> &pids) = 0;
  /// The ranks of another machine, as they were at most a second ago; on
  /// machine 0 alone, elsewhere none.
  virtual std::vector<RemoteRank> ranksOf(int machine) const = 0;

  /// Ends the job on all machines. The first failure of the job wins; it is
  /// what `failure` returns, on every machine.
  virtual void fail(const MachineFailure &failure) = 0;
  virtual std::optional<MachineFailure> failure() const = 0;
  /// Waits, at most a second, until it is known which failure was first.
  virtual std::optional<MachineFailure> awaitFailure() = 0;

  /// Shows a line, or several, on the terminal of machine 0.
  virtual void tell(const std::string &text) = 0;
  /// Returns the lines that other machines have told since the last call; on
  /// machine 0 alone. Each begins with the name of the machine.
  virtual std::vector<std::string> takeTold() = 0;

  /// Asks that all ranks of all machines end after the same step: the latest
  /// that one of them has begun.
  virtual void requestStop(int signal) = 0;
  /// The step after which all ranks end, once that is decided, and the signal
  /// that was the reason.
  struct Stop {
    uint64_t step = 0;
    int signal = 0;

    bool operator==(const Stop &) const = default;
  };
  virtual std::optional<Stop> stop() const = 0;

  /// Says that this machine's ranks have ended well, and waits until those of
  /// all machines have. Fails with the first failure of the job. Returns early,
  /// with an error, when `isInterrupted` returns true.
  virtual Result<void> finish(const std::function<bool()> &isInterrupted) = 0;
};

} // namespace polyrank::runtime
