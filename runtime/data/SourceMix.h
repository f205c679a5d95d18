// Which of several sources a position of the order takes, by their weights.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// Position p goes to the source in whose part of [0, 1) the p-th number of van
/// der Corput's sequence lies (the bits of p, mirrored at the point: 0, 1/2,
/// 1/4, 3/4, 1/8, ..). That is, as a worked example, for weights 3 and 1:
///
///   p        0    1    2    3    4    5    6    7
///   number   0   1/2  1/4  3/4  1/8  5/8  3/8  7/8
///   source   0    0    0    1    0    0    0    1
///   index    0    1    2    0    3    4    5    1
///
/// Of the first n positions each source has its share of n to within some
/// log2(n) samples, and which one it is, and how many went to it before, is
/// computed from p alone, without a table.
class SourceMix {
public:
  /// Weights are above 0; their sum need not be 1.
  explicit SourceMix(std::span<const double> weights);

  struct Place {
    size_t source;
    uint64_t index; // how many earlier positions went there
  };
  Place at(uint64_t position) const;
  /// How many of the positions before this one go to a source.
  uint64_t countBefore(size_t source, uint64_t position) const;

private:
  /// Where each source's part begins, but for the first one's, in 2^-64.
  std::vector<uint64_t> bounds;
};

} // namespace polyrank::runtime
