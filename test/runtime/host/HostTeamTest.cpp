// Ranges are covered once, on threads that treat denormals alike.

#include "runtime/host/HostTeam.h"

#include <atomic>
#include <gtest/gtest.h>
#include <vector>

namespace polyrank::runtime::test {
namespace {

TEST(HostTeam, CoversARangeOnceInPiecesOfTheGrain) {
  HostTeam team(2, true);
  for (int64_t range : {0, 1, 7, 64, 1000})
    for (int64_t grain : {1, 3, 64}) {
      std::vector<std::atomic<int>> visits(range);
      team.parallelFor(range, grain, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % grain, 0);
        EXPECT_TRUE(end % grain == 0 || end == range);
        for (int64_t i = begin; i < end; ++i)
          ++visits[i];
      });
      for (auto &count : visits)
        EXPECT_EQ(count, 1);
    }
}

TEST(HostTeam, FlushesDenormalsOnEachThread) {
  HostTeam team(2, true);
  team.parallelFor(2, 1, [](int64_t begin, int64_t end) {
    volatile float tiny = 1e-38f;
    for (int64_t i = begin; i < end; ++i)
      EXPECT_EQ(tiny * 0.01f, 0.0f);
  });
  HostTeam keeping(2, false);
  keeping.parallelFor(2, 1, [](int64_t begin, int64_t end) {
    volatile float tiny = 1e-38f;
    for (int64_t i = begin; i < end; ++i)
      EXPECT_NE(tiny * 0.01f, 0.0f);
  });
}

} // namespace
} // namespace polyrank::runtime::test
