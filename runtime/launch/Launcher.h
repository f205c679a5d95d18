// Starts the ranks of a job on this machine and watches over them.

#pragma once

#include "runtime/job/Job.h"
#include "runtime/job/OtherMachines.h"
#include "runtime/launch/Cores.h"
#include "runtime/launch/GuestDoor.h"
#include "runtime/launch/TaggedMessage.h"
#include "support/File.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime {

struct LaunchOptions {
  int ranks = 1, threads = 1; // of this machine
  /// The number of the first of these ranks, where several machines share the
  /// ranks of a job out. All functions here take numbers of the whole job.
  int firstRank = 0;
  CoreChoice cores;
  /// The command line of the launcher, which is also that of the ranks.
  std::vector<std::string> arguments;
  /// Open files that the ranks inherit, including the plan, so that all read
  /// the same one; -1 for a file that is not used.
  std::vector<int> descriptors;
  /// Ranks whose processes somebody else starts, and where they come in; all
  /// others are children of this process.
  std::vector<int> guests;
  GuestDoor *door = nullptr;
  /// The SHA-256 of the plan: a guest that was given another one is refused.
  std::string planHash;
  /// The other machines of the job; null if this one is alone. All fail and
  /// stop together.
  OtherMachines *others = nullptr;
  /// What the ranks here fill for machine 0, if machines share them out.
  std::span<std::byte> window = {};
  /// "rank 3 (data=1,tensor=1)".
  std::function<std::string(int rank)> nameOf;
  /// Describes a rank's command by its number in a step: "in segment 'update',
  /// loss".
  std::function<std::string(int rank, uint32_t command)> placeOf;
  /// The job is ended once no rank has made progress for this long; 0: never.
  /// The default is Watch::limit.
  std::optional<std::chrono::milliseconds> timeout;
  /// The number of this start of all ranks, from 1.
  uint32_t attempt = 1;
  /// True if a first signal to end lets all ranks finish their step, including
  /// what follows a step.
  bool finishesStep = false;
  /// Reports a warning to the user while the job continues.
  std::function<void(const std::string &message)> onWarning;
  /// Called with each message of a rank, on machine 0 also with those of the
  /// ranks that other machines share, except those with which it ends
  /// (EndMessage). Returns the seconds that a step took if the message is about
  /// one. An error means that the message cannot be read, and fails the rank.
  std::function<Result<std::optional<double>>(int rank,
                                              const TaggedMessage &message)>
      onReport;
  /// Called at least every 100 ms.
  std::function<void()> onTick;
  /// The exit status of a run whose ranks have all ended well, by what they
  /// have reported. Where machines share them out, machine 0 alone is asked.
  std::function<int()> judge = [] { return 0; };

  RankRange here() const { return {firstRank, ranks}; }
};

/// Blocks SIGINT, SIGTERM, SIGHUP and SIGUSR1, except those that were ignored
/// when this process began (nohup), as long as this object lives: they are
/// pending until `take`. After its end they are ignored: the result of the run
/// is final, and the exit code must state it.
class EndSignals {
public:
  /// Before `block` is called, lets such a signal end the process with the exit
  /// code of `fault` and a message, instead of killing it: scripts do not
  /// restart a killed process. The fault is Rank, or Preempted once the run
  /// goes on from a checkpoint, which has all its work. May be called again.
  static void endAtOnce(Error::Fault fault = Error::Fault::Rank);
  static Result<EndSignals> block();
  EndSignals(EndSignals &&) noexcept = default;
  ~EndSignals();

  /// Takes a pending signal and returns its number, or 0. `descriptor` is
  /// readable when there is one, and when a child has ended.
  int take() const;
  /// The latest signal that was taken, or 0.
  int latest() const { return taken; }
  /// Waits up to `time` for a signal, takes it and returns its number, or 0.
  int await(std::chrono::milliseconds time) const;
  /// Lets a signal end the process again as `endAtOnce` does, instead of this
  /// object, of which only the destructor may be called.
  void handBack(Error::Fault fault);
  /// Protects the final work: from now on a signal is only noted, and returned
  /// by `late`. A SIGINT after it, or after one that was taken, ends the
  /// process as usual.
  void letOne();
  static int late();
  int descriptor() const { return file.get(); }
  /// The signals that the process had blocked before.
  const sigset_t &before() const { return mask; }

private:
  EndSignals() = default;

  Descriptor file;
  std::vector<int> handled;
  mutable int taken = 0;
  sigset_t mask{};
};

/// The result of a job.
struct LaunchEnd {
  Result<void> result;
  /// The signal that made the ranks end, at once or after a step; 0: none.
  int signal = 0;
  /// True if ranks failed for an external reason: another process killed or
  /// stopped one, or the system had no memory for it; or the machine is lost
  /// that had them.
  bool fromOutside = false;
  /// The latest step that a rank of the machine had begun where something has
  /// failed first, if that is another one; else 0.
  uint64_t begun = 0;
  /// What LaunchOptions::judge has returned, if the job ended well.
  int status = 0;
};

/// Adds what the first failure of all machines says of itself, if it is that of
/// another machine.
void addFailure(LaunchEnd &end, const OtherMachines &others);

/// Runs this program again, once per rank that is no guest, and returns when
/// all ranks have ended. The ranks die with the launcher; guests end within
/// seconds. If a rank fails, no rank makes progress for the
/// timeout, or a signal to end arrives, all ranks are ended within a second;
/// the error names the rank that failed first, after a warning that lists the
/// position of all. A signal that arrives when all ranks are done has no
/// effect. With `finishesStep` the first signal lets the ranks end after the
/// same step, and the error is Preempted; a SIGINT after it ends them at once.
/// Other threads of this process must block these signals. With other machines
/// the ranks of all end together, the result is that of the whole job, and the
/// call returns once all machines have ended.
LaunchEnd launchRanks(const LaunchOptions &options, JobControl &job,
                      const EndSignals &signals);

/// A rank's end of the connection to its launcher.
class RankConnection {
public:
  /// A connection that only reports, of a guest that cannot begin.
  RankConnection(int rank, int reports) : number(rank), pipe(reports) {}
  /// Returns nothing if this process was not started by `launchRanks` and is no
  /// guest (becomeRank).
  static std::optional<RankConnection> fromEnvironment();

  int rank() const { return number; }
  /// The launcher's LaunchOptions::descriptors.
  const std::vector<int> &descriptors() const { return files; }
  /// The files by which the rank joins its job (JobControl::descriptors).
  const std::vector<int> &job() const { return jobFiles; }

  /// A guest is no child, which ends with its parent: from now on it ends, with
  /// status 2, when its launcher has gone. Does nothing in a child.
  void endWithLauncher() const;

  void report(const TaggedMessage &message) const;
  /// Reports why the rank ends, and returns its exit status.
  int fail(const Error &error) const;
  int finish() const;
  /// Reports that the rank ends after this step, as requested
  /// (JobMember::mayBegin).
  void stopped(uint64_t step) const;

private:
  RankConnection() = default;

  int number = -1, pipe = -1;
  std::vector<int> files, jobFiles;
};

} // namespace polyrank::runtime
