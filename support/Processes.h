// What the system tells about processes of this machine.

#pragma once

#include <cstdint>

namespace polyrank {

/// Identifies a process for good: the start time tells it from a later process
/// with the same id.
struct ProcessName {
  int32_t pid = 0;
  // Clock ticks since boot, as in /proc/PID/stat; 0 if unknown.
  uint64_t startTime = 0;
};

ProcessName thisProcess();

/// Returns false once the process has ended, even if its parent has not reaped
/// it. If the system does not tell (no /proc, no free descriptor), the process
/// counts as alive.
bool isAlive(const ProcessName &process);

/// The state in /proc/PID/stat: R running, S sleeping, D waiting for a disk, T
/// stopped, t stopped by a debugger, Z ended; '?' if the system does not tell.
char processState(int32_t pid);

} // namespace polyrank
