// The ranks of a job that a launcher has started or let in.

#pragma once

#include "runtime/launch/Launcher.h"
#include "runtime/launch/RankProcess.h"
#include "runtime/launch/Watch.h"

#include <functional>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// A rank, and what it has reported.
struct LaunchedRank {
  std::unique_ptr<RankProcess> process; // none: a guest that has not come yet
  std::string line;                     // read so far, incomplete
  bool finished = false;                // reported its end
  bool killed = false;                  // by its launcher
  std::optional<Error> error;

  bool isRunning() const { return process && process->isRunning(); }
  /// True once the rank has ended as it should.
  bool isGood() const {
    return process && !process->isRunning() && finished &&
           process->hasSucceeded();
  }
  /// True once a signal that its launcher has not sent has ended the rank.
  bool diedOfSignal() const {
    return process && process->endSignal() && !killed;
  }
  /// True once the rank has died: by such a signal or, of a guest, whose signal
  /// only its parent learns, without a word.
  bool hasDied() const {
    bool isSilent = process && !process->isRunning() && !killed &&
                    !process->isEndKnown() && !finished && !error;
    return diedOfSignal() || isSilent;
  }
};

/// Starts the children of a job and lets its guests in. Its end is theirs: it
/// kills those that still run, and waits for them.
class LaunchedRanks {
public:
  /// All must outlive this object.
  LaunchedRanks(const LaunchOptions &options, JobControl &job,
                const EndSignals &signals)
      : options(options), job(job), signals(signals), ranks(options.ranks) {}
  LaunchedRanks(const LaunchedRanks &) = delete;
  ~LaunchedRanks();

  /// Starts all ranks that are no guests.
  Result<void> startChildren();
  /// Lets in the guests that have come, or tells them why not.
  void receiveGuests(bool isEnding);

  /// True as long as a rank runs, or a guest is to come.
  bool anyToCome(bool isEnding) const;
  /// The descriptors that are readable once a rank has reported or ended its
  /// reports, or a guest has come.
  std::vector<pollfd> polled() const;
  /// Reads what a rank has reported, and calls `take` for each whole line.
  void drain(int rank,
             const std::function<void(const std::string &line)> &take);
  void killAll();
  /// True if ranks have died of signals that came from outside alone.
  bool wereKilled() const;

  /// By number in the job.
  LaunchedRank &operator[](int rank) { return ranks[rank - options.firstRank]; }
  const LaunchedRank &operator[](int rank) const {
    return ranks[rank - options.firstRank];
  }
  auto begin() const { return ranks.begin(); }
  auto end() const { return ranks.end(); }
  /// In their order.
  std::vector<WatchedRank> watched() const;

private:
  RankStart startOf(int rank) const;
  bool isGuest(int rank) const;
  /// Why a process cannot be the rank that it asks to be; nothing if it can.
  std::optional<Error> refusalOf(const GuestDoor::Request &request,
                                 bool isEnding) const;
  void admit(GuestDoor::Request request);
  void warn(const std::string &message) const;

  const LaunchOptions &options;
  JobControl &job;
  const EndSignals &signals;
  std::vector<LaunchedRank> ranks;
};

} // namespace polyrank::runtime
