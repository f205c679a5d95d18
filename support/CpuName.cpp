// Reads /proc/cpuinfo.

#include "support/CpuName.h"

#include <fstream>

namespace polyrank {

std::string cpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "";
}

} // namespace polyrank
