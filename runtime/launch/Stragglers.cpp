// Finds stragglers by their share of the waiting in a window.

#include "runtime/launch/Stragglers.h"

#include <algorithm>

namespace polyrank::runtime {

// A straggler causes most of the waiting, and much of it: ranks that share a
// core are last by turns, and short waits occur on all ranks.
constexpr double leastShare = 0.75, leastTimeLost = 0.2;

std::optional<Stragglers::Found>
Stragglers::look(Duration now, const std::vector<uint64_t> &awaited) {
  if (before.size() != awaited.size()) {
    before = awaited, begin = now;
    reported.resize(awaited.size());
    return std::nullopt;
  }
  if (now - begin < window)
    return std::nullopt;
  size_t most = 0;
  double all = 0, mine = 0;
  for (size_t r = 0; r < awaited.size(); ++r) {
    auto grown = static_cast<double>(awaited[r] - before[r]);
    all += grown;
    if (grown > mine)
      most = r, mine = grown;
  }
  double others = static_cast<double>(awaited.size() - 1) *
                  static_cast<double>((now - begin).count());
  before = awaited, begin = now;
  if (awaited.size() < 2 || reported[most] || mine < leastShare * all ||
      mine < leastTimeLost * others)
    return std::nullopt;
  reported[most] = true;
  return Found{static_cast<int>(most), mine / all, mine / others};
}

} // namespace polyrank::runtime
