// The bandwidth of messages by their size, and groups on nodes.

#include "support/LinkLevel.h"

#include <cmath>

namespace polyrank {

double LinkLevel::timePerByte(double bytes) const {
  if (reached.empty())
    return link.perByte;
  if (bytes <= reached.front().bytes)
    return link.perByte / reached.front().share;
  for (size_t i = 1; i < reached.size(); ++i) {
    const Reached &before = reached[i - 1], &after = reached[i];
    if (bytes >= after.bytes)
      continue;
    double part =
        std::log(bytes / before.bytes) / std::log(after.bytes / before.bytes);
    return link.perByte / (before.share + part * (after.share - before.share));
  }
  return link.perByte / reached.back().share;
}

GroupPlaces GroupPlaces::of(std::span<const GroupDim> dims, int64_t devices) {
  GroupPlaces places;
  for (const GroupDim &dim : dims) {
    int64_t inNode = std::clamp<int64_t>(devices / dim.stride, 1, dim.size);
    places.inNode *= inNode;
    places.nodes *= dim.size / inNode;
  }
  return places;
}

} // namespace polyrank
