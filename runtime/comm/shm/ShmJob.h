// The shared memory of a job on one machine, as its launcher makes and watches
// it.

#pragma once

#include "runtime/comm/Transport.h"
#include "runtime/comm/shm/ControlPage.h"

#include <memory>
#include <optional>
#include <vector>

namespace polyrank::runtime::shm {

/// File descriptors of one job's memfds, the same numbers in every rank.
/// Written as text, they go to a rank by its environment or arguments.
struct JobDescriptors {
  int control = -1;
  std::vector<int> arenas; // by rank

  std::string text() const; // "3:4,5,6"
  static Result<JobDescriptors> parse(std::string_view text);
};

struct JobOptions {
  std::vector<uint64_t> sharedSizes; // of each rank's region, in bytes
  int threadsPerRank = 1;
  /// Whether each thread has a core that nobody else needs; where it is not
  /// said, whether there are as many.
  std::optional<bool> alone{};
  int groupCapacity = 1024; // distinct groups, over all ranks
  ProgramDigest program{};  // of what all ranks run
};

/// Where a rank is, for reports.
struct RankReport {
  RankPhase phase = RankPhase::Starting;
  int pid = 0;
  uint64_t step = 0;
  uint32_t command = 0;
  uint64_t operation = 0;
  bool waiting = false; // for other ranks, of which one has not arrived
  uint64_t beats = 0;

  bool operator==(const RankReport &) const = default;
};

/// What a rank waits for.
struct RankWait {
  enum class What {
    Nothing,
    Starts, // of an operation by all of its group: `ranks` have not
    Work,   // that others have in hand
    Value,  // that one rank sends
    Room    // until one rank receives what it was sent
  };
  What what = What::Nothing;
  std::vector<int> ranks;

  bool operator==(const RankWait &) const = default;
};

/// Made by the launcher before it starts the ranks, and kept until they have
/// ended: ranks end the job when the process that made it is gone. The memory
/// has no name and vanishes with the last process.
class Job {
public:
  static Result<Job> create(const JobOptions &options);

  Job(Job &&other) noexcept;
  ~Job();

  const JobDescriptors &descriptors() const { return files; }
  /// Lets the descriptors survive exec. For a child, between fork and exec; it
  /// is safe there.
  void keepOpenOverExec() const;

  void abort(const std::string &message) const { control.abort(message); }
  Result<void> health() const { return control.health(); }
  RankReport report(int rank) const;
  RankWait waitOf(int rank) const;
  /// How long others have waited for the rank to start what they had started.
  uint64_t awaitedNanoseconds(int rank) const {
    return control.rank(rank).awaitedNanoseconds.load();
  }
  /// Has all ranks end behind the same step: the latest that one of them has
  /// begun, which is returned, or 0 before the first.
  uint64_t stopSteps() const { return control.stopSteps(); }

private:
  Job() = default;

  JobDescriptors files;
  ControlPage control;
};

/// The rank's end, in the rank's process, once. Takes over the descriptors. A
/// rank that runs another program than the job's is refused.
Result<std::unique_ptr<Transport>> attach(const JobDescriptors &descriptors,
                                          int rank,
                                          const ProgramDigest &program = {});

} // namespace polyrank::runtime::shm
