// The pieces in which collectives go between machines.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace polyrank::runtime::net {

/// The bytes of a piece, in what a sum is taken in.
inline constexpr int64_t pieceBytes = 1 << 18;

/// Calls function(part, from, to) for each part that overlaps [from, to), with
/// the overlap counted from the part's start. `starts` has the start of each
/// part, and the end of the last one.
template <typename Function>
void forEachPart(const std::vector<int64_t> &starts, int64_t from, int64_t to,
                 const Function &function) {
  size_t p =
      std::upper_bound(starts.begin(), starts.end(), from) - starts.begin() - 1;
  for (; from < to; ++p) {
    int64_t end = std::min(to, starts[p + 1]);
    if (from < end)
      function(p, from - starts[p], end - starts[p]);
    from = std::max(from, end);
  }
}

} // namespace polyrank::runtime::net
