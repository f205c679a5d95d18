// Reads /proc/self/status.

#include "runtime/exec/ResidentMemory.h"

#include <cstdio>

namespace polyrank::runtime {

ResidentMemory residentMemory() {
  ResidentMemory result;
  FILE *file = std::fopen("/proc/self/status", "re");
  if (!file)
    return result;
  char line[256];
  unsigned long long kilobytes;
  while (std::fgets(line, sizeof(line), file)) {
    if (std::sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1)
      result.peak = kilobytes << 10;
    if (std::sscanf(line, "RssAnon: %llu kB", &kilobytes) == 1)
      result.anonymous = kilobytes << 10;
    if (std::sscanf(line, "RssShmem: %llu kB", &kilobytes) == 1)
      result.shared = kilobytes << 10;
  }
  std::fclose(file);
  return result;
}

} // namespace polyrank::runtime
