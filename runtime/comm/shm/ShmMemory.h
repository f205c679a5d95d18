// The shared memory of a job on one machine, which its launcher creates and
// watches.

#pragma once

#include "runtime/comm/Transport.h"
#include "runtime/comm/shm/ControlPage.h"

#include <memory>
#include <optional>
#include <vector>

namespace polyrank::runtime::shm {

/// File descriptors of one job's memfds, the same numbers in every rank. They
/// are passed to a rank as text, in its environment or arguments.
struct JobDescriptors {
  int control = -1;
  std::vector<int> arenas; // by rank

  std::string text() const; // "3:4,5,6"
  static Result<JobDescriptors> parse(std::string_view text);
};

struct JobOptions {
  std::vector<uint64_t> sharedSizes; // of each rank's region, in bytes
  int threadsPerRank = 1;
  /// True if each thread has a core that nobody else needs. By default true if
  /// there are as many cores as threads.
  std::optional<bool> alone{};
  int groupCapacity = 1024; // distinct groups, over all ranks
  ProgramDigest program{};  // of the plan that all ranks run
};

/// The position of a rank, for reports.
struct RankReport {
  RankPhase phase = RankPhase::Starting;
  int pid = 0;
  uint64_t step = 0;
  uint32_t command = 0;
  uint64_t operation = 0;
  bool waiting = false; // for a rank that has not arrived
  uint64_t beats = 0;

  bool operator==(const RankReport &) const = default;
};

/// The event that a rank waits for.
struct RankWait {
  enum class What {
    Nothing,
    Starts, // `ranks` have not started the operation
    Work,   // others still work on the operation
    Value,  // a value that one rank sends
    Room    // a slot that one rank frees by receiving
  };
  What what = What::Nothing;
  std::vector<int> ranks;

  bool operator==(const RankWait &) const = default;
};

/// Created by the launcher before it starts the ranks, and kept until they have
/// ended: if the launcher's process is gone, the ranks end the job. The memory
/// has no name and vanishes with the last process.
class Job {
public:
  static Result<Job> create(const JobOptions &options);

  Job(Job &&other) noexcept;
  ~Job();

  const JobDescriptors &descriptors() const { return files; }
  /// Lets the descriptors survive exec. Called by a child between fork and
  /// exec, where it is safe.
  void keepOpenOverExec() const;

  void abort(const std::string &message) const { control.abort(message); }
  Result<void> health() const { return control.health(); }
  RankReport report(int rank) const;
  RankWait waitOf(int rank) const;
  /// How long other ranks have waited for the rank to start what they had
  /// started.
  uint64_t awaitedNanoseconds(int rank) const {
    return control.rank(rank).awaitedNanoseconds.load();
  }
  /// Lets all ranks end after the same step: the latest that one of them has
  /// begun, which is returned (0 before the first step).
  uint64_t stopSteps() const { return control.stopSteps(); }

private:
  Job() = default;

  JobDescriptors files;
  ControlPage control;
};

/// Creates the rank's transport, once, in the rank's process. Takes over the
/// descriptors. Fails if the rank runs another program than the job's.
Result<std::unique_ptr<Transport>> attach(const JobDescriptors &descriptors,
                                          int rank,
                                          const ProgramDigest &program = {});

} // namespace polyrank::runtime::shm
