// A job whose ranks are processes of one machine, which share a page.

#pragma once

#include "runtime/job/Job.h"

#include <memory>
#include <optional>
#include <span>

namespace polyrank::runtime::local {

struct JobOptions {
  int ranks = 1; // of all machines
  /// Those of this machine; by default all.
  std::optional<RankRange> here{};
  int threadsPerRank = 1;
  /// True if each thread has a core that nobody else needs. By default true if
  /// there are as many cores as threads.
  std::optional<bool> alone{};
};

/// Called by the launcher before it starts the ranks. The memory has no name
/// and vanishes with the last process.
Result<std::unique_ptr<JobControl>> createJob(const JobOptions &options);

/// Called once for each rank, in the rank's process, with the job's
/// `descriptors`, which it does not take over.
Result<std::unique_ptr<JobMember>> joinJob(std::span<const int> descriptors,
                                           int rank);

} // namespace polyrank::runtime::local
