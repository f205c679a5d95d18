#include "support/ByteText.h"

#include <fmt/format.h>

using namespace polyrank;

std::string polyrank::bytesText(uint64_t bytes) {
  if (bytes < 1024)
    return fmt::format("{} B", bytes);
  double value = bytes;
  const char *unit = "B";
  for (const char *next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, unit);
}
