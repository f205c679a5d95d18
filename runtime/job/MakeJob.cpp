// Jobs on one machine.

#include "runtime/job/MakeJob.h"

#include "runtime/job/local/LocalJob.h"

namespace polyrank::runtime {

Result<std::unique_ptr<JobControl>> createJob(const NewJob &wanted) {
  local::JobOptions options;
  options.ranks = wanted.ranks;
  options.here = wanted.here;
  options.threadsPerRank = wanted.threadsPerRank;
  options.alone = wanted.alone;
  return local::createJob(options);
}

Result<std::unique_ptr<JobMember>> joinJob(std::span<const int> descriptors,
                                           int rank) {
  return local::joinJob(descriptors, rank);
}

} // namespace polyrank::runtime
