// Rounds the times of links.

#include "support/LinkTime.h"

#include <cmath>

namespace polyrank {

int64_t wholePicoseconds(double picoseconds) {
  constexpr double most = 0x1p60;
  return static_cast<int64_t>(std::round(std::min(picoseconds, most)));
}

int64_t LinkTime::messageTime(uint64_t bytes) const {
  return wholePicoseconds(latency + static_cast<double>(bytes) * perByte);
}

} // namespace polyrank
