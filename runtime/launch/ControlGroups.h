// The CPU time and the memory that this process may use, by its control groups
// and by what the machine has.

#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace polyrank::runtime {

/// Returns the CPU time that this process may use, in cores, by the quotas of
/// its control group and of those above it (cgroup v1 and v2). `root` is a
/// prefix of /proc and /sys, for tests.
inline constexpr double unlimited = std::numeric_limits<double>::infinity();
double cpuQuota(const std::string &root = "");

/// How much more memory processes of this group can use before the system swaps
/// or kills.
struct MemoryRoom {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  /// The limit of the control group that sets the bound; 0 if the machine does.
  uint64_t limit = 0;
};

/// Returns the minimum of the machine's available memory (/proc/meminfo) and of
/// what the control group and those above it have left of their limits. A
/// group's page cache counts as free, since it can be reclaimed. If nothing can
/// be read, the room is unbounded.
MemoryRoom memoryRoom(const std::string &root = "");

/// Returns the first line of a file; empty if it cannot be read.
std::string firstLine(const std::string &path);

} // namespace polyrank::runtime
