// Notices a rank that holds the others up, step for step.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace polyrank::runtime {

/// A rank that is slower than the others shows in how long they wait for it: it
/// starts last what they have started. Where that is most of all waiting, for a
/// good part of the time, someone should look at its core, its memory and what
/// else runs there.
class Stragglers {
public:
  using Duration = std::chrono::nanoseconds;
  struct Found {
    int rank;
    double share;    // of all waiting that is for it
    double timeLost; // of the other ranks' time
  };

  /// Whether others wait for one rank is judged over such a time.
  static constexpr Duration window = std::chrono::seconds(10);

  /// `awaited` is how long others have waited for each rank since the job
  /// began, and `now` a time. Each rank is found once.
  std::optional<Found> look(Duration now, const std::vector<uint64_t> &awaited);

private:
  std::vector<uint64_t> before;
  std::vector<bool> reported;
  Duration begin{};
};

} // namespace polyrank::runtime
