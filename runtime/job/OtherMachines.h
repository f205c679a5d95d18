// What a launcher knows of the ranks on other machines, and what it tells them.

#pragma once

#include "runtime/job/Job.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Why ranks of several machines have ended before they have finished.
struct MachineFailure {
  int machine = 0;
  int rank = -1; // as that machine numbers its ranks; -1: none is known
  Error error;   // names the rank, and the op where that is known
  /// Another process or the machine ended the rank, or the machine is lost, so
  /// that the failure says nothing about the step.
  bool fromOutside = false;
  /// The signal by which somebody has ended the run; 0: none.
  int32_t signal = 0;
  /// The latest step that a rank of the machine had begun; 0: none is known.
  uint64_t begun = 0;

  bool operator==(const MachineFailure &other) const {
    return machine == other.machine && rank == other.rank &&
           error.message == other.error.message &&
           error.fault == other.error.fault &&
           fromOutside == other.fromOutside && signal == other.signal &&
           begun == other.begun;
  }
};

/// The state of a rank of any machine, as its machine has told it last.
struct RemoteRank {
  int32_t pid = -1;
  bool running = false;
  char state = '?'; // processState, there
  uint64_t awaitedNanoseconds = 0;
  RankReport report;
  /// `ranks` are numbers of that machine's ranks, or of all where machines
  /// share the ranks of one plan out.
  RankWait wait;
  uint32_t barriers = 0; // that it has come to

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
  /// the end of the job. If it shares its ranks with the other machines, it
  /// also learns where their ranks are, its barriers end when all ranks of all
  /// machines have come to them, and what ranks fill of `window` gets to
  /// machine 0 (JobMember::gather). `window` is empty or outlives the watch.
  virtual void watch(JobControl &job, std::span<std::byte> window) = 0;
  void watch(JobControl &job) { watch(job, {}); }
  virtual void unwatch() = 0;
  /// The processes of this machine's ranks, -1 for one that does not run.
  virtual void setProcesses(const std::vector<int32_t> &pids) = 0;
  /// The ranks of another machine, as they were at most a second ago; on
  /// machine 0 alone, elsewhere none.
  virtual std::vector<RemoteRank> ranksOf(int machine) const = 0;
  /// How long ranks of other machines have waited for the rank to start what
  /// they had started; on machine 0 alone, elsewhere 0.
  virtual uint64_t awaitedElsewhere(int rank) const = 0;

  /// Ends the ranks of all machines. The first failure of a start wins; it is
  /// what `failure` returns, on every machine. It ends the job as well, unless
  /// machines may start their ranks again (net::JoinOptions::startsAgain).
  virtual void fail(const MachineFailure &failure) = 0;
  virtual std::optional<MachineFailure> failure() const = 0;
  /// Waits, at most a second, until it is known which failure was first.
  virtual std::optional<MachineFailure> awaitFailure() = 0;

  /// Shows a line, or several, on the terminal of machine 0.
  virtual void tell(const std::string &text) = 0;
  /// Returns the lines that other machines have told since the last call; on
  /// machine 0 alone. Each begins with the name of the machine.
  virtual std::vector<std::string> takeTold() = 0;

  /// Brings a rank's message to machine 0. It is there before `finish` returns.
  virtual void report(int rank, const std::string &line) = 0;
  struct Report {
    int rank = 0;
    std::string line;

    bool operator==(const Report &) const = default;
  };
  /// The messages that have come and were not taken yet, those of a rank in
  /// their order; on machine 0 alone.
  virtual std::vector<Report> takeReports() = 0;

  /// Returns what the launcher of each machine has given, by machine, once all
  /// have called it: how they tell each other small things, and meet. At most
  /// 64 KiB each, and 1 MiB together. Fails with the first failure of the job,
  /// or, with an error, when `isInterrupted` returns true. Called by one
  /// thread.
  virtual Result<std::vector<std::string>>
  exchange(const std::string &mine,
           const std::function<bool()> &isInterrupted) = 0;
  /// The address of this machine over which it talks to the others.
  virtual std::string ownAddress() const = 0;
  /// A number that is drawn at random for each start of all machines, and the
  /// same on all.
  virtual uint64_t incarnation() const = 0;
  /// How many starts of all machines there were, this one included.
  virtual uint32_t starts() const = 0;

  /// Called after a failure, once the ranks of this machine have ended: begins
  /// another start of all machines, with an incarnation of its own. Machine 0
  /// decides by its call that there is one; the others wait for that. Returns
  /// once every machine has called it, or another one has come in its place.
  /// Fails with why there is no other start, or, with an error, when
  /// `isInterrupted` returns true. Called by the thread of `exchange`.
  virtual Result<void>
  startAgain(const std::function<bool()> &isInterrupted) = 0;
  /// The machines that are left, and which one this is then, if these go on
  /// with a plan for fewer machines since nobody came in the place of the
  /// others (net::JoinOptions::fewer). `startAgain` has failed then, and the
  /// job is over. This machine is none of them if its number is not below
  /// `machines`.
  struct Fewer {
    int machines = 0, machine = 0;

    bool operator==(const Fewer &) const = default;
  };
  virtual std::optional<Fewer> fewer() const = 0;
  /// The run of this machine is over, for this reason. If the machine is the
  /// first one, or a signal was the reason, so is the job; else the others may
  /// start again without it.
  virtual void end(const MachineFailure &why) = 0;
  /// A key for what ranks of this start of all machines say to each other.
  virtual std::array<uint8_t, 32> sessionKey() const = 0;

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
  /// all machines have. Returns the exit status of the run, which is the same
  /// on all: what `status` returns on machine 0, where it is called once all
  /// ranks have ended and all that they reported has come. Fails with the first
  /// failure of the job. Returns early, with an error, when `isInterrupted`
  /// returns true.
  virtual Result<int> finish(const std::function<bool()> &isInterrupted,
                             const std::function<int()> &status) = 0;
};

} // namespace polyrank::runtime
