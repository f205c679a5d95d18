// The time without progress after which a job is ended.

#include "runtime/launch/Watch.h"

#include "runtime/job/local/LocalJob.h"

#include <gtest/gtest.h>

namespace polyrank::runtime {
namespace {

using namespace std::chrono_literals;

TEST(Watch, WaitsAsLongAsTwentyStepsAndAMinuteAtLeast) {
  auto job = local::createJob({.ranks = 2});
  ASSERT_TRUE(job);
  Watch watch(**job, 2, {});
  EXPECT_EQ(watch.limit(), 300s); // loading
  for (int step = 0; step < 101; ++step)
    watch.addStep(2);
  EXPECT_EQ(watch.limit(), 60s);
  for (int step = 0; step < 50; ++step)
    watch.addStep(10); // which is not yet the median
  EXPECT_EQ(watch.limit(), 60s);
  watch.addStep(10);
  EXPECT_EQ(watch.limit(), 200s);
  for (int step = 0; step < 101; ++step)
    watch.addStep(1);
  EXPECT_EQ(watch.limit(), 60s); // the old ones count no more
}

} // namespace
} // namespace polyrank::runtime
