// The choice among several weighted sources for each position of the order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// Position p goes to the source in whose part of [0, 1) the p-th number of van
/// der Corput's sequence lies (the bits of p, mirrored at the binary point: 0,
/// 1/2, 1/4, 3/4, 1/8, ..). For example, for weights 3 and 1:
///
///   p        0    1    2    3    4    5    6    7
///   number   0   1/2  1/4  3/4  1/8  5/8  3/8  7/8
///   source   0    0    0    1    0    0    0    1
///   index    0    1    2    0    3    4    5    1
///
/// Among the first n positions each source gets its share of n to within about
/// log2(n) samples. Both the source of p and the number of earlier positions
/// that went to it are computed from p alone, without a table.
class SourceMix {
public:
  /// Weights are above 0; their sum need not be 1.
  explicit SourceMix(std::span<const double> weights);

  struct Place {
    size_t source;
    uint64_t index; // earlier positions that went to it
  };
  Place at(uint64_t position) const;
  /// The number of positions before this one that go to a source.
  uint64_t countBefore(size_t source, uint64_t position) const;

private:
  /// Where the part of each source but the first begins, in units of 2^-64.
  std::vector<uint64_t> bounds;
};

} // namespace polyrank::runtime
