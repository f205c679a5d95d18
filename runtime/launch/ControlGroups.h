// What the system lets this process have: the time of its cores and memory, by
// the control groups that it is in and what the machine has.

#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace polyrank::runtime {

/// How many cores' time this process may use, by the quotas of its control
/// group and those above it (cgroup v1 and v2). `root` stands before /proc and
/// /sys.
inline constexpr double unlimited = std::numeric_limits<double>::infinity();
double cpuQuota(const std::string &root = "");

/// How much more memory processes of this group can have before the system
/// begins to swap or to kill.
struct MemoryRoom {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  /// Of the control group that sets the bound; 0 where the machine does.
  uint64_t limit = 0;
};

/// The least of what the machine has available (/proc/meminfo) and of what the
/// control group and those above it have left of their limits. Files that a
/// group has in the page cache count as free: they give way. Where nothing can
/// be read, nothing is known, and the room is without bound.
MemoryRoom memoryRoom(const std::string &root = "");

/// The first line of a file; empty where it cannot be read.
std::string firstLine(const std::string &path);

} // namespace polyrank::runtime
