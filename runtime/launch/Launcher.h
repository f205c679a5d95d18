// Starts the ranks of a job on this machine and watches over them.

#pragma once

#include "runtime/comm/shm/ShmJob.h"
#include "runtime/launch/Cores.h"
#include "support/File.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

struct LaunchOptions {
  int ranks = 1, threads = 1;
  CoreChoice cores;
  /// The command line of the launcher, which the ranks get too.
  std::vector<std::string> arguments;
  /// Open files that the ranks get, the plan among them, so that all read the
  /// same one; -1 where there is none.
  std::vector<int> descriptors;
  /// "rank 3 (data=1,tensor=1)".
  std::function<std::string(int rank)> nameOf;
  /// Of a rank's command by its number in a step: "in segment 'update', loss".
  std::function<std::string(int rank, uint32_t command)> placeOf;
  /// After no rank has got on for this long, the job is ended; 0: never. Where
  /// it is not said, Watch::limit.
  std::optional<std::chrono::milliseconds> timeout;
  /// Which start of all ranks this is, from 1.
  uint32_t attempt = 1;
  /// Whether a first signal to end lets all ranks finish their step, and what
  /// they do then.
  bool finishesStep = false;
  /// Something that the user should know while the job goes on.
  std::function<void(const std::string &message)> onWarning;
  /// What a rank reports besides errors and its end.
  std::function<void(int rank, const nlohmann::json &report)> onReport;
  /// Called at least every 100 ms.
  std::function<void()> onTick;
};

/// SIGINT, SIGTERM, SIGHUP and SIGUSR1, but for those that were ignored when
/// this process began (nohup), as long as this lives: they wait for `take`.
/// From its end on they are ignored: what the run did is settled, and its exit
/// code is to say that.
class EndSignals {
public:
  /// Until there is one: such a signal ends the process with Fault::Rank and a
  /// word, and not as a killed one, which scripts do not start again.
  static void endAtOnce();
  static Result<EndSignals> block();
  EndSignals(EndSignals &&) noexcept = default;
  ~EndSignals();

  /// The number of one that has come, or 0; `descriptor` is readable then, and
  /// when a child has ended.
  int take() const;
  /// The latest that was taken, or 0.
  int latest() const { return taken; }
  /// Waits so long for one, which is returned and taken; else 0.
  int await(std::chrono::milliseconds time) const;
  /// For the end of the work, which is not to be lost: a signal is noted from
  /// now on, and returned by `late`. A SIGINT after one, or after one that was
  /// taken, ends the process as usual.
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

/// How a job has ended.
struct LaunchEnd {
  Result<void> result;
  /// The signal that had the ranks end, at once or behind a step; 0: none.
  int signal = 0;
  /// Where ranks failed: another process killed or stopped one, or the system
  /// had no room for it. What the ranks did has no part in that.
  bool fromOutside = false;
};

/// Runs this program again, once per rank, and returns when all have ended.
/// The ranks die with the launcher. When one fails, none gets on for the
/// timeout, or a signal to end comes, all are ended within a second; the error
/// names the rank that was first, and a warning before says where all were. A
/// signal that comes when all ranks are done ends nothing. With `finishesStep`
/// the first one has the ranks end behind the same step, and the error is
/// Preempted; a SIGINT after it ends them at once. Other threads of this
/// process must hold no signals.
LaunchEnd launchRanks(const LaunchOptions &options, const shm::Job &job,
                      const EndSignals &signals);

/// A rank's end of the connection to its launcher.
class RankConnection {
public:
  /// Nothing where this process was not started by `launchRanks`.
  static std::optional<RankConnection> fromEnvironment();

  int rank() const { return number; }
  /// The launcher's LaunchOptions::descriptors.
  const std::vector<int> &descriptors() const { return files; }
  const std::string &job() const { return shared; }

  void report(const nlohmann::json &report) const;
  /// Says why the rank ends, and returns its exit status.
  int fail(const Error &error) const;
  int finish() const;
  /// Says that it ends behind this step, as it was asked to
  /// (Transport::mayBegin).
  void stopped(uint64_t step) const;

private:
  int number = -1, pipe = -1;
  std::vector<int> files;
  std::string shared;
};

} // namespace polyrank::runtime
