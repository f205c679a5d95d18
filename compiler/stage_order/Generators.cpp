// Schedules whose backward is one part: gpipe, 1f1b, interleaved.

#include "compiler/stage_order/Generators.h"

#include <algorithm>

using namespace polyrank::stage_order;

namespace {

Entry makeEntry(Part part, int64_t chunk, int64_t microbatch) {
  return {part, static_cast<int32_t>(chunk), static_cast<int32_t>(microbatch)};
}

/// `warmUp` forwards, then one forward and one backward alternately, then the
/// remaining backwards.
Entries alternate(const Entries &forwards, const Entries &backwards,
                  int64_t warmUp) {
  Entries entries;
  entries.reserve(2 * forwards.size());
  size_t begun = std::min<size_t>(warmUp, forwards.size());
  entries.insert(entries.end(), forwards.begin(), forwards.begin() + begun);
  for (const Entry &backward : backwards) {
    if (begun < forwards.size())
      entries.push_back(forwards[begun++]);
    entries.push_back(backward);
  }
  return entries;
}

} // namespace

// With several chunks, all microbatches of one chunk come before the first of
// the next.
Entries polyrank::stage_order::makeGpipe(const Sizes &sizes, int64_t rank) {
  Entries entries;
  for (int64_t chunk = 0; chunk < sizes.chunks; ++chunk)
    for (int64_t m = 0; m < sizes.microbatches; ++m)
      entries.push_back(makeEntry(Part::Forward, chunk, m));
  for (int64_t chunk = sizes.chunks; chunk-- > 0;)
    for (int64_t m = 0; m < sizes.microbatches; ++m)
      entries.push_back(makeEntry(Part::Backward, chunk, m));
  return entries;
}

// Before its first gradient can arrive, a rank begins one microbatch more than
// there are ranks after it.
Entries polyrank::stage_order::make1f1b(const Sizes &sizes, int64_t rank) {
  Entries forwards, backwards;
  for (int64_t m = 0; m < sizes.microbatches; ++m) {
    forwards.push_back(makeEntry(Part::Forward, 0, m));
    backwards.push_back(makeEntry(Part::Backward, 0, m));
  }
  return alternate(forwards, backwards, sizes.ranks - 1 - rank);
}

std::vector<int64_t>
polyrank::stage_order::getGroupSizes(int64_t ranks, int64_t microbatches) {
  int64_t groups = std::max<int64_t>(1, microbatches / ranks);
  std::vector<int64_t> sizes(groups, microbatches / groups);
  for (int64_t i = 0; i < microbatches % groups; ++i)
    ++sizes[i];
  return sizes;
}

// On the last rank, the forward that the k-th backward needs comes (chunks - 1)
// * group places after the k-th forward, so this many forwards come first. Each
// earlier rank begins two more, since a gradient arrives one later and an
// activation is needed one earlier. Megatron-LM has the same for groups of as
// many microbatches as there are ranks.
Entries polyrank::stage_order::makeInterleaved(const Sizes &sizes,
                                               int64_t rank) {
  if (sizes.chunks == 1)
    return make1f1b(sizes, rank);
  std::vector<int64_t> groups = getGroupSizes(sizes.ranks, sizes.microbatches);
  Entries forwards, backwards;
  int64_t first = 0;
  for (int64_t group : groups) {
    for (int64_t chunk = 0; chunk < sizes.chunks; ++chunk)
      for (int64_t m = first; m < first + group; ++m) {
        forwards.push_back(makeEntry(Part::Forward, chunk, m));
        backwards.push_back(
            makeEntry(Part::Backward, sizes.chunks - 1 - chunk, m));
      }
    first += group;
  }
  int64_t warmUp =
      (sizes.chunks - 1) * groups.front() + 2 * (sizes.ranks - 1 - rank);
  return alternate(forwards, backwards, warmUp);
}
