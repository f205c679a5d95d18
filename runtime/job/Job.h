// The interface of a job: its ranks join, make progress, are watched, stopped
// and aborted together, whatever moves data between them.

#pragma once

#include "support/RankRange.h"
#include "support/Result.h"

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

enum class RankPhase : uint32_t { Starting, Joining, Running, Left };

/// A position in the program of a rank: a step, counted from 1, and the number
/// of a command in it. The number of the command is below 2^24.
struct Position {
  uint64_t step = 0;
  uint32_t command = 0;

  auto operator<=>(const Position &) const = default;
  /// One word, so that it changes atomically. Later positions have larger ones.
  uint64_t word() const { return step << 24 | command; }
  static Position of(uint64_t word) {
    return {word >> 24, uint32_t(word & 0xffffff)};
  }
};

/// The position of a rank, for reports.
struct RankReport {
  RankPhase phase = RankPhase::Starting;
  int pid = 0; // once Running
  /// Where the rank is: the first command that is not known to be done.
  uint64_t step = 0;
  uint32_t command = 0;
  /// What it has issued last; later than that if its device is behind.
  Position issued;
  bool isBeside = false;  // see JobMember::setBeside
  uint64_t operation = 0; // id of the latest collective or transfer
  bool waiting = false;   // for another rank
  uint64_t beats = 0;

  bool operator==(const RankReport &) const = default;
};

/// The event that a rank waits for.
struct RankWait {
  enum class What : uint32_t {
    Nothing,
    Starts,  // `ranks` have not started the operation
    Work,    // others still work on the operation
    Value,   // a value that one rank sends
    Room,    // a slot that one rank frees by receiving
    Barrier, // `ranks` have not come to the barrier of all ranks
  };
  What what = What::Nothing;
  std::vector<int> ranks; // ascending

  bool operator==(const RankWait &) const = default;
};

/// What the launcher and each rank can do with a job. After an abort every call
/// that returns a result fails with its message, on every rank: the job is
/// over, and ranks exit.
class Job {
public:
  virtual ~Job() = default;

  virtual int worldSize() const = 0;
  /// The ranks that run on this machine: all, unless the job has several
  /// machines that share its ranks out. Those of machine 0 are the first.
  virtual RankRange here() const { return {0, worldSize()}; }
  bool isShared() const { return here().count < worldSize(); }

  /// Ends the job from any thread: every rank that waits, and every later call,
  /// fails with this message, which a rank precedes by its name. The first
  /// abort of the job wins.
  virtual void abort(std::string_view message) = 0;
  /// Fails if the job was aborted. Does not wait.
  virtual Result<void> health() const = 0;

  virtual RankReport report(int rank) const = 0;
  virtual RankWait waitOf(int rank) const = 0;

  /// Keeps a function registered as long as it lives.
  class AbortHook {
  public:
    AbortHook() = default;
    AbortHook(Job &job, std::function<void()> wake);
    AbortHook(AbortHook &&other) noexcept;
    AbortHook &operator=(AbortHook &&other) noexcept;
    ~AbortHook();

  private:
    Job *job = nullptr;
    std::list<std::function<void()>>::iterator place;
  };
  /// Registers what wakes the ranks that sleep in something that the job does
  /// not know, such as a collective. It is called, in any thread, when this
  /// process aborts the job.
  [[nodiscard]] AbortHook onAbort(std::function<void()> wake) {
    return AbortHook(*this, std::move(wake));
  }

protected:
  /// Calls what `onAbort` has registered.
  void wakeSleepers();

private:
  std::mutex mutex;
  std::list<std::function<void()>> hooks;
};

/// The launcher's side. It is kept until all ranks have ended: if the
/// launcher's process is gone, the ranks end the job.
class JobControl : public Job {
public:
  /// Lets all ranks end after the same step: the latest that one of them has
  /// begun, which is returned (0 before the first step).
  virtual uint64_t stopSteps() = 0;
  /// Where several machines agree on the last step: makes ranks wait that want
  /// to begin a step that none here has begun. Returns the latest one that a
  /// rank here has begun, or 0.
  virtual uint64_t holdSteps() = 0;
  virtual void releaseSteps() = 0;
  /// Lets ranks begin all steps up to this one, and then end.
  virtual void stopAfter(uint64_t step) = 0;
  /// How long other ranks have waited for the rank to start what they had
  /// started.
  virtual uint64_t awaitedNanoseconds(int rank) const = 0;
  /// The files by which a rank joins, to be handed to its process in this
  /// order.
  virtual std::vector<int> descriptors() const = 0;

  // Where the ranks are shared out over machines, somebody carries between them
  // what a page of one machine cannot (OtherMachines::watch).

  /// A barrier to which all ranks of this machine have come.
  struct Barrier {
    uint32_t number = 0; // counted over the whole job, from 1
    int lastToCome = 0;
    /// What they have filled of the window, see JobMember::gather.
    uint64_t begin = 0, end = 0;

    bool operator==(const Barrier &) const = default;
  };
  /// A file that becomes readable when `takeBarrier` has something to return;
  /// -1 if the ranks are all here.
  virtual int barrierFile() const { return -1; }
  /// Returns each barrier once, when the ranks here have come to it and wait
  /// for those of other machines.
  virtual std::optional<Barrier> takeBarrier() { return std::nullopt; }
  /// The ranks of all machines have come to the barrier, that one last.
  virtual void endBarrier(uint32_t, int /*lastToCome*/) {}
  /// How many barriers the rank has come to.
  virtual uint32_t barriersOf(int) const { return 0; }
  /// Notes what is known of a rank of another machine, so that ranks here see
  /// it as they see each other.
  virtual void setRemote(int, const RankReport &, const RankWait &,
                         uint32_t /*barriers*/) {}
  /// Notes what JobMember::clockOffset returns.
  virtual void setClockOffset(int64_t) {}
};

/// A rank's side. All calls are made by one thread, except `abort`, `health`
/// and `beat`. A rank that has destroyed it has left the job.
class JobMember : public Job {
public:
  virtual int rank() const = 0;

  /// Returns true if this rank may begin the next step; then all ranks will.
  /// Otherwise the launcher has asked all ranks to end after the step before.
  /// Waits while several machines agree on the last step; true if the job is
  /// aborted meanwhile.
  virtual bool mayBegin(uint64_t step) = 0;
  /// Returns true if the launcher has asked the ranks to end and no rank will
  /// begin this step. Unlike `mayBegin`, the query begins nothing.
  virtual bool isClosedBefore(uint64_t step) const = 0;

  /// Publishes the command that this rank issues now, before each of them: for
  /// messages, and for the launcher, which ends a job that makes no progress.
  virtual void setProgress(uint64_t step, uint32_t command) = 0;
  /// Where a device that works in the background stores the Position of its
  /// first command that is not done, as a word. It is 0, and stays so, while
  /// commands are done when they were issued. While setBeside is set it is
  /// another one, which counts as progress.
  virtual std::atomic<uint64_t> &deviceWord() = 0;
  /// While it is set, commands are those of another program than the job's,
  /// which the rank runs after a step: they count as progress, but are no
  /// position.
  virtual void setBeside(bool isBeside) = 0;
  /// Signals progress outside commands, such as a part of a file that was read.
  virtual void beat() = 0;

  /// Returns when all ranks have called it.
  virtual Result<void> barrier() = 0;
  /// The barrier after all ranks have filled the bytes [begin, end) of a
  /// window: when it returns, the ranks of rank 0's machine have there what the
  /// ranks of all machines have filled. On all machines the bytes were zero
  /// before, and at most one rank fills each of them; on the other machines
  /// they are zero again. All ranks give the same bytes.
  virtual Result<void> gather(uint64_t begin, uint64_t end) = 0;
  /// To be added to a time of this machine's monotonic clock to get that of
  /// machine 0, in nanoseconds; 0 until it is known.
  virtual int64_t clockOffset() const { return 0; }

  /// Ends the job with a message that names the ranks itself. Returns the error
  /// of whoever aborted the job first.
  virtual Error fail(const std::string &message) = 0;

  // For what moves data between the ranks.

  /// True if each thread of the ranks has a core that nobody else needs, so
  /// that one that waits may spin a moment.
  virtual bool hasOwnCores() const = 0;
  /// Publishes the id of the operation that this rank starts or waits for.
  virtual void setOperation(uint64_t id) = 0;
  /// Publishes what this rank is going to sleep for; again with the same token
  /// when other `ranks` are to blame. The token, which is not 0, tells this
  /// wait from all others of the rank.
  virtual void beginWait(uint64_t token, RankWait::What what,
                         std::span<const int> ranks) = 0;
  /// Ends a rank's wait with this token, if it has not ended: its own once it
  /// is awake, or another's by whoever wakes it, since a rank may not be
  /// scheduled for long after it was woken.
  virtual void endWait(int rank, uint64_t token) = 0;
  /// Notes that this rank has waited for `rank` to start an operation.
  virtual void addAwaited(int rank, uint64_t nanoseconds) = 0;

  enum class Presence {
    Expected, // has not joined yet; the launcher watches its process
    Present,
    Left,
    Dead
  };
  virtual Presence presenceOf(int rank) const = 0;
  /// Fails, and ends the job, if the launcher has ended.
  virtual Result<void> checkLauncher() = 0;

  /// "rank 2 (process 123) died" or ".. left the job early", of a rank that is
  /// not Present.
  std::string describeAbsence(int rank) const;
};

} // namespace polyrank::runtime
