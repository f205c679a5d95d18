// Makes jobs: the only place that knows which kinds of jobs this program was
// built with.

#pragma once

#include "runtime/job/Job.h"

#include <memory>
#include <optional>
#include <span>

namespace polyrank::runtime {

struct NewJob {
  int ranks = 1; // of all machines
  /// Those that run on this machine, if several machines share them out.
  std::optional<RankRange> here{};
  int threadsPerRank = 1;
  /// True if each thread of the ranks has a core that nobody else needs.
  bool alone = false;
};

/// Creates a job before its ranks start; it is the launcher's end.
Result<std::unique_ptr<JobControl>> createJob(const NewJob &wanted);

/// Joins a rank to its job, by the descriptors that JobControl names.
Result<std::unique_ptr<JobMember>> joinJob(std::span<const int> descriptors,
                                           int rank);

} // namespace polyrank::runtime
