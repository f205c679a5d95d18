// Counts in van der Corput's sequence, bit by bit.

#include "runtime/data/SourceMix.h"

#include <algorithm>

namespace polyrank::runtime {
namespace {

uint64_t mirror(uint64_t bits) {
  uint64_t mirrored = 0;
  for (int bit = 0; bit < 64; ++bit)
    mirrored |= (bits >> bit & 1) << (63 - bit);
  return mirrored;
}

/// Returns how many of the first `count` numbers of the sequence are below
/// `bound`. In a block of 2^b positions that begins at a multiple of 2^b the
/// numbers are 2^-b apart, and the least one has the mirrored bits of the
/// block's first position.
uint64_t countBelow(uint64_t count, uint64_t bound) {
  uint64_t sum = 0, first = 0;
  for (int b = 63; b >= 0; --b) {
    uint64_t block = uint64_t(1) << b;
    if (!(count & block))
      continue;
    uint64_t least = mirror(first);
    if (b == 0)
      sum += least < bound;
    else if (least < bound)
      sum += ((bound - least - 1) >> (64 - b)) + 1;
    first |= block;
  }
  return sum;
}

} // namespace

SourceMix::SourceMix(std::span<const double> weights) {
  double sum = 0, before = 0;
  for (double weight : weights)
    sum += weight;
  for (size_t source = 0; source + 1 < weights.size(); ++source) {
    before += weights[source];
    // There is no double between 1 - 2^-53 and 1, and 1 is out of range: a
    // source after so large a part begins at the last representable bound.
    auto bound = static_cast<uint64_t>(before / sum * 0x1p63);
    bounds.push_back(std::min(bound, (uint64_t(1) << 63) - 1) * 2);
  }
}

uint64_t SourceMix::countBefore(size_t source, uint64_t position) const {
  uint64_t below =
      source < bounds.size() ? countBelow(position, bounds[source]) : position;
  return below - (source > 0 ? countBelow(position, bounds[source - 1]) : 0);
}

SourceMix::Place SourceMix::at(uint64_t position) const {
  size_t source =
      std::upper_bound(bounds.begin(), bounds.end(), mirror(position)) -
      bounds.begin();
  return {source, countBefore(source, position)};
}

} // namespace polyrank::runtime
