// How a rank lets others have the descriptor of memory that it made after they
// were started.

#pragma once

#include "support/File.h"
#include "support/Result.h"

#include <chrono>
#include <optional>

namespace polyrank::runtime::shm {

/// Two connected sockets: their owner leaves one descriptor, and any number of
/// processes that have the other end take copies of it, at any time. They are
/// created before the processes start, so that all have them by inheritance, or
/// by SCM_RIGHTS. A descriptor that was left keeps its memory as long as a
/// process has the receiving end.
struct MemoryPost {
  Descriptor sending, receiving;

  static Result<MemoryPost> create();
};

/// Leaves a descriptor, or with -1 the message that there is no memory. Called
/// once for each post.
Result<void> leaveMemory(int sending, int descriptor);

/// A descriptor that was left. It is -1 if there is no memory.
struct LeftMemory {
  Descriptor descriptor;
};
/// Returns a copy of the descriptor; nothing if none has been left within
/// `longest`.
Result<std::optional<LeftMemory>> takeMemory(int receiving,
                                             std::chrono::milliseconds longest);

} // namespace polyrank::runtime::shm
