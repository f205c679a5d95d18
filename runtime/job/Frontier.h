// Lets several processes that work piece by piece all stop after the same
// piece.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace polyrank::runtime {

/// Lives in shared memory that is initially zero. Pieces are numbered from 1,
/// in an order that is the same for all processes.
class Frontier {
public:
  enum class Answer {
    Yes,
    No,  // nor any later piece
    Wait // that is not decided yet: ask again
  };
  /// Asks to begin this piece, which must be later than any that the process
  /// has begun before. After Yes all processes will begin it.
  Answer ask(uint64_t piece) {
    uint64_t seen = word.load();
    while (piece > (seen & pieces))
      if (seen & noFurther)
        return Answer::No;
      else if (seen & held)
        return Answer::Wait;
      else if (word.compare_exchange_weak(seen, piece))
        return Answer::Yes;
    return Answer::Yes;
  }
  /// The same where nobody holds.
  bool mayBegin(uint64_t piece) { return ask(piece) == Answer::Yes; }
  /// Forbids all pieces that no process has begun yet. Returns the latest piece
  /// that some process has begun, or 0.
  uint64_t close() {
    uint64_t seen = word.load();
    while (!word.compare_exchange_weak(seen, (seen & pieces) | noFurther))
      ;
    return seen & pieces;
  }
  /// Makes processes wait that ask for a piece that none has begun yet, until
  /// `release`, `close` or `stopAfter`. Returns the latest piece that some
  /// process has begun, or 0.
  uint64_t hold() { return word.fetch_or(held) & pieces; }
  void release() { word.fetch_and(~held); }
  /// Lets processes begin all pieces up to this one, and forbids later ones. A
  /// later piece that a process has begun stays the last one.
  void stopAfter(uint64_t piece) {
    uint64_t seen = word.load();
    while (!word.compare_exchange_weak(seen, std::max(seen & pieces, piece) |
                                                 noFurther))
      ;
  }
  /// True if the frontier is closed and no process will ever begin this piece.
  /// False may become true later.
  bool isClosedBefore(uint64_t piece) const {
    uint64_t seen = word.load();
    return seen & noFurther && (seen & pieces) < piece;
  }
  /// Resets to the initial state. No other process may access it meanwhile.
  void reset() { word = 0; }

private:
  static constexpr uint64_t noFurther = uint64_t(1) << 63,
                            held = uint64_t(1) << 62, pieces = held - 1;
  std::atomic<uint64_t> word{0};
};

} // namespace polyrank::runtime
