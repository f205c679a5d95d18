// Ranks of a job with consecutive numbers, such as those of one machine.

#pragma once

namespace polyrank {

/// `count` ranks from number `first` on.
struct RankRange {
  int first = 0, count = 0;

  bool has(int rank) const { return rank >= first && rank - first < count; }
  int end() const { return first + count; }

  bool operator==(const RankRange &) const = default;
};

} // namespace polyrank
