// When commands run, on a plan that is small enough to follow by hand.

#include "runtime/plan/StepTimeline.h"

#include "test/runtime/PlanBuilder.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

constexpr int64_t kernel = 10, collective = 30;

/// Of three microbatches with 5, 4 and 4 commands; the update reduces the
/// gradient, totals the loss, reduces it and descends. Where it is `overlapped`
/// the gradient's reduction is waited for in front of the descent.
plan::PlanT timed(bool overlapped) {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = 3, model.batch = 12;
  plan::PlanT plan = linearPlan(model);
  for (auto &segment : plan.programs[0]->segments)
    for (auto &command : segment->commands)
      command->picoseconds = command->body.AsCollective() ? collective : kernel;
  if (!overlapped)
    return plan;
  auto &update = plan.programs[0]->segments[updateSegment]->commands;
  update[0]->body.AsCollective()->ticket = 1;
  auto wait = std::make_unique<plan::CommandT>();
  plan::WaitT body;
  body.ticket = 1;
  wait->body.Set(std::move(body));
  update.insert(update.begin() + 3, std::move(wait));
  return plan;
}

TEST(StepTimeline, OneAfterAnother) {
  StepTimeline timeline = stepTimelineOf(load(timed(false)));
  EXPECT_EQ(timeline.computation, 15 * kernel);
  EXPECT_EQ(timeline.communication, 2 * collective);
  EXPECT_EQ(timeline.makespan, 15 * kernel + 2 * collective);
  EXPECT_EQ(timeline.lowerBound, 15 * kernel);
  ASSERT_EQ(timeline.segments.size(), 4u);
  EXPECT_EQ(timeline.segments[1].name, "next");
  EXPECT_EQ(timeline.segments[2].microbatch, 2u);
  EXPECT_EQ(timeline.segments[2].time.start, 9 * kernel);
  ASSERT_EQ(timeline.overlap.size(), 1u);
  EXPECT_EQ(timeline.overlap[0].kind, "all_reduce");
  EXPECT_EQ(timeline.overlap[0].axes, "data");
  EXPECT_EQ(timeline.overlap[0].count, 2u);
  EXPECT_EQ(timeline.overlap[0].started, 0u);
  EXPECT_EQ(timeline.overlap[0].hidden, 0);
}

// The loss is reduced behind the gradient, for which nobody stands.
TEST(StepTimeline, AQueueRunsBesideTheCommands) {
  StepTimeline timeline = stepTimelineOf(load(timed(true)));
  int64_t begin = 13 * kernel;
  EXPECT_EQ(timeline.makespan, begin + 2 * collective + kernel);
  EXPECT_EQ(timeline.overlap[0].started, 1u);
  EXPECT_EQ(timeline.overlap[0].time, 2 * collective);
  EXPECT_EQ(timeline.overlap[0].hidden, collective);
  std::vector<int64_t> starts;
  for (const PlannedCommand &planned : timeline.commands)
    if (planned.queue)
      starts.push_back(planned.time.start);
  EXPECT_EQ(starts, (std::vector<int64_t>{begin, begin + collective}));
}

TEST(StepTimeline, ThePictureNamesQueuesSegmentsAndCommands) {
  LoadedPlan plan = load(timed(true));
  std::string picture = scheduleSvg(stepTimelineOf(plan), plan);
  for (const char *text : {"compute", ">data<", "next 2", "update 0",
                           "AllReduce of linear.gradient: 0.00 us from 0.00 us",
                           "white: the queue stands"})
    EXPECT_NE(picture.find(text), std::string::npos) << text;
}

} // namespace
} // namespace polyrank::runtime::test
