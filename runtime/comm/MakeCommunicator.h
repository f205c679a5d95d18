// Makes communicators for plans: the only place that knows which ways to move
// data this program was built with.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/plan/PlanFile.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// The facts about a plan that communicators need before the ranks start.
struct CommunicatorNeeds {
  /// For each rank, the bytes of the channels in which it sends
  /// (runtime/plan/Channels.h).
  std::vector<uint64_t> channelBytes;
  /// The plan's hash: ranks that run another one are refused.
  PlanHash program{};
};

/// The launcher's end of the communicators of one plan. It is created before
/// the ranks start, and kept until they have ended; all is gone with it.
class CommunicatorHost {
public:
  virtual ~CommunicatorHost() = default;
  /// The files by which a rank attaches, to be handed to its process in this
  /// order: as many as communicatorFilesOf says.
  virtual std::vector<int> descriptors() const = 0;
  /// Wakes the ranks that sleep in a communicator. Whoever has this does it
  /// when it aborts the job (Job::onAbort); in ranks, communicators do.
  virtual void wakeSleepers() const = 0;
};

Result<std::unique_ptr<CommunicatorHost>>
hostCommunicators(const CommunicatorNeeds &needs);
/// The number of files by which a rank of a job of `ranks` ranks attaches.
int communicatorFilesOf(int ranks);

/// Makes the communicator of a rank that has joined its job, once for each
/// plan. Takes over the descriptors, unless it refuses them. `job` outlives the
/// communicator. Fails if the launcher runs another plan.
Result<std::unique_ptr<Communicator>>
attachCommunicator(std::span<const int> descriptors, JobMember &job,
                   const PlanHash &program);

} // namespace polyrank::runtime
