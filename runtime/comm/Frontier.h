// Ends work that several processes do piece by piece, all behind the same
// piece.

#pragma once

#include <atomic>
#include <cstdint>

namespace polyrank::runtime {

/// Lies in memory that the processes share, with zeros at first. Pieces are
/// numbered from 1, in an order that is the same for all.
class Frontier {
public:
  /// Whether a process may begin this piece, which is later than any that it
  /// has begun before; then all processes will.
  bool mayBegin(uint64_t piece) {
    uint64_t seen = word.load();
    while (piece > (seen & ~noFurther))
      if (seen & noFurther)
        return false;
      else if (word.compare_exchange_weak(seen, piece))
        return true;
    return true;
  }
  /// Lets nobody begin a piece that nobody has begun. The latest that somebody
  /// has, or 0.
  uint64_t close() { return word.fetch_or(noFurther) & ~noFurther; }
  /// Whether it is closed and nobody will begin this piece. What is not closed
  /// yet may be later.
  bool isClosedBefore(uint64_t piece) const {
    uint64_t seen = word.load();
    return seen >= noFurther && seen - noFurther < piece;
  }
  /// As in the beginning. Nobody else looks meanwhile.
  void reset() { word = 0; }

private:
  static constexpr uint64_t noFurther = uint64_t(1) << 63;
  std::atomic<uint64_t> word{0};
};

} // namespace polyrank::runtime
