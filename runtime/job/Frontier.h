// Lets several processes that work piece by piece all stop after the same
// piece.

#pragma once

#include <atomic>
#include <cstdint>

namespace polyrank::runtime {

/// Lives in shared memory that is initially zero. Pieces are numbered from 1,
/// in an order that is the same for all processes.
class Frontier {
public:
  /// Returns true if a process may begin this piece, which must be later than
  /// any it has begun before; then all processes will begin it.
  bool mayBegin(uint64_t piece) {
    uint64_t seen = word.load();
    while (piece > (seen & ~noFurther))
      if (seen & noFurther)
        return false;
      else if (word.compare_exchange_weak(seen, piece))
        return true;
    return true;
  }
  /// Forbids all pieces that no process has begun yet. Returns the latest piece
  /// that some process has begun, or 0.
  uint64_t close() { return word.fetch_or(noFurther) & ~noFurther; }
  /// True if the frontier is closed and no process will ever begin this piece.
  /// False may become true later.
  bool isClosedBefore(uint64_t piece) const {
    uint64_t seen = word.load();
    return seen >= noFurther && seen - noFurther < piece;
  }
  /// Resets to the initial state. No other process may access it meanwhile.
  void reset() { word = 0; }

private:
  static constexpr uint64_t noFurther = uint64_t(1) << 63;
  std::atomic<uint64_t> word{0};
};

} // namespace polyrank::runtime
