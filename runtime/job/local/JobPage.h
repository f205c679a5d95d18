// The memory through which the launcher and the ranks of one machine watch each
// other.

#pragma once

#include "runtime/job/Frontier.h"
#include "runtime/job/Job.h"
#include "support/Futex.h"
#include "support/Processes.h"
#include "support/SharedMemory.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace polyrank::runtime::local {

// Everything here lies in one memory, which is initially zero and is shared by
// processes of the same build.

inline constexpr uint32_t jobVersion = 2;
inline constexpr size_t messageCapacity = 2048;

enum class AbortState : uint32_t { Running, Writing, Aborted };

struct JobHeader {
  uint32_t version;
  uint32_t worldSize;
  /// The ranks of this machine. The states of the others are what was heard of
  /// them.
  uint32_t firstHere, ranksHere;
  uint64_t spinNanoseconds; // of a rank in a barrier; 0: cores are shared
  ProcessName launcher;
  /// The latest step that any rank has begun, and whether later ones are
  /// forbidden: one word, so that all ranks end after the same step.
  Frontier frontier;
  std::atomic<AbortState> aborted;
  char message[messageCapacity]; // NUL-terminated, once Aborted
  /// How often ranks have come to a barrier, all together, and the number of
  /// barriers that are over.
  alignas(128) std::atomic<uint64_t> arrivals;
  alignas(128) std::atomic<uint32_t> barriersOver; // futex
  std::atomic<uint32_t> sleepers;                  // in a barrier
  /// The rank that came last to the latest barrier that is over. It stays until
  /// all ranks have come to the next one.
  std::atomic<int32_t> lastToCome;
  /// With several machines: the barrier to which all ranks here have come, the
  /// one of them that came last, and the bytes that they have filled.
  std::atomic<uint32_t> barrierHere;
  std::atomic<int32_t> lastHere;
  std::atomic<uint64_t> filledBegin, filledEnd;
  std::atomic<int64_t> clockOffset; // JobMember::clockOffset
};

struct alignas(128) RankState {
  std::atomic<RankPhase> phase;
  ProcessName process; // once Running
  std::atomic<uint64_t> step;
  std::atomic<uint32_t> command;
  std::atomic<uint32_t> isBeside;
  /// JobMember::deviceWord, and the one beside it.
  std::atomic<uint64_t> device, deviceBeside;
  std::atomic<uint64_t> operation;
  std::atomic<uint64_t> beats;
  std::atomic<uint32_t> barriers; // that the rank has come to
  /// The token of the wait that the rank has published, else 0, and its kind.
  /// Its ranks are in JobPage::blockers.
  std::atomic<uint64_t> waiting;
  std::atomic<RankWait::What> what;
  /// The total time that other ranks have waited for this rank to start an
  /// operation that they had started. Written by them.
  alignas(128) std::atomic<uint64_t> awaitedNanoseconds;
};

/// A mapping of the whole memory of a job.
class JobPage {
public:
  static uint64_t sizeFor(int worldSize);
  /// Maps a page that is all zeros, and fills the header.
  static Result<JobPage> initialize(int descriptor, int worldSize,
                                    uint64_t spinNanoseconds);
  /// The same for a job whose other ranks run on other machines.
  static Result<JobPage> initialize(int descriptor, int worldSize,
                                    RankRange here, uint64_t spinNanoseconds);
  /// Fails if the memory is not that of a job.
  static Result<JobPage> map(int descriptor);

  JobHeader &header() const;
  RankState &rank(int rank) const;
  int worldSize() const { return static_cast<int>(header().worldSize); }
  RankRange here() const {
    return {static_cast<int>(header().firstHere),
            static_cast<int>(header().ranksHere)};
  }
  bool isShared() const { return header().ranksHere < header().worldSize; }

  /// Sets and reads for which ranks a rank waits.
  /// @{
  void setBlockers(int rank, std::span<const int> ranks) const;
  std::vector<int> blockersOf(int rank) const;
  /// @}
  /// True from when the rank comes to a barrier until it is over.
  bool isInBarrier(int rank) const;
  /// The ranks that have not come to the barrier in which `rank` is; none if it
  /// is in no barrier, or all have come.
  std::vector<int> missingInBarrierOf(int rank) const;

  RankReport report(int rank) const;
  RankWait waitOf(int rank) const;
  /// Stores what is known of a rank of another machine.
  void setRemote(int rank, const RankReport &report, const RankWait &wait,
                 uint32_t barriers) const;

  /// Ends the barrier for the ranks here.
  void endBarrier(uint32_t number, int lastToCome) const;

  /// Aborts the job, unless it was aborted before, and wakes the ranks that
  /// sleep in a barrier.
  void abort(std::string_view message) const;
  Result<void> health() const;

private:
  std::span<std::atomic<uint64_t>> blockerWords(int rank) const;

  SharedMapping memory;
};

} // namespace polyrank::runtime::local
