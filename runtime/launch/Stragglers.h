// Detects a rank that delays the others in every step.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace polyrank::runtime {

/// A rank that is slower than the others is the last to start each collective,
/// so the others wait for it. If this is most of all waiting, and a large part
/// of the time, the user should look at the rank's core, its memory and other
/// processes there.
class Stragglers {
public:
  using Duration = std::chrono::nanoseconds;
  struct Found {
    int rank;
    double share;    // its share of all waiting
    double timeLost; // share of the other ranks' time
  };

  /// The time over which waiting is measured.
  static constexpr Duration window = std::chrono::seconds(10);

  /// `awaited` is how long others have waited for each rank since the job
  /// began, in nanoseconds, and `now` is the current time. Each rank is
  /// reported once.
  std::optional<Found> look(Duration now, const std::vector<uint64_t> &awaited);

private:
  std::vector<uint64_t> before;
  std::vector<bool> reported;
  Duration begin{};
};

} // namespace polyrank::runtime
