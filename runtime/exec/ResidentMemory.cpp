// Reads /proc/self/status and statm.

#include "runtime/exec/ResidentMemory.h"

#include <cstdio>
#include <unistd.h>

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

uint64_t residentBytes() {
  FILE *file = std::fopen("/proc/self/statm", "re");
  if (!file)
    return 0;
  unsigned long long pages = 0;
  if (std::fscanf(file, "%*u %llu", &pages) != 1)
    pages = 0;
  std::fclose(file);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

} // namespace polyrank::runtime
