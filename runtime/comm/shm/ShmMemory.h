// The memory through which the ranks of one machine communicate, besides that
// of their devices. Their launcher creates it.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/shm/ControlPage.h"
#include "runtime/comm/shm/MemoryPost.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace polyrank::runtime::shm {

struct MemoryOptions {
  /// For each rank, the bytes of the channels in which it sends
  /// (runtime/plan/Channels.h).
  std::vector<uint64_t> slotBytes = {0};
  int groupCapacity = 1024; // distinct groups, over all ranks
  ProgramDigest program{};  // of the plan that all ranks run
  /// How many of the ranks are on this machine; all of them if not given.
  std::optional<int> near = {};
};

/// Created before the ranks start, and kept until they have ended. The memory
/// has no name and vanishes with the last process.
class Memory {
public:
  static Result<Memory> create(const MemoryOptions &options);

  /// The files by which a rank attaches, to be handed to its process in this
  /// order: the control page, and for each rank the two ends of the post by
  /// which others get its memory.
  std::vector<int> descriptors() const;

  /// Wakes the ranks that sleep in a collective. Whoever has the memory does
  /// that when it aborts the job (Job::onAbort); in ranks, communicators do.
  void wakeSleepers() const { control.wakeSleepers(); }

private:
  Memory() = default;

  Descriptor file; // the control page
  ControlPage control;
  std::vector<MemoryPost> posts; // by rank of this machine
};

/// The number of files of so many ranks of this machine.
inline int filesOf(int ranks) { return 1 + 2 * ranks; }

/// Creates the communicator of a rank that has joined its job, once for each
/// memory. Takes over the descriptors, unless it refuses them. `job` outlives
/// the communicator. Fails if the rank runs another program than the memory is
/// for.
Result<std::unique_ptr<Communicator>> attach(std::span<const int> descriptors,
                                             JobMember &job,
                                             const ProgramDigest &program = {});

} // namespace polyrank::runtime::shm
