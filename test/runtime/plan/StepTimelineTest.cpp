// The times of commands, on a plan small enough to check by hand.

#include "runtime/plan/StepTimeline.h"

#include "test/runtime/PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

constexpr int64_t kernel = 10, collective = 30;

/// Returns a plan of three microbatches with 5, 4 and 4 commands; the update
/// reduces the gradient, totals the loss, reduces it and descends. If
/// `overlapped` the gradient's reduction is waited for just before the descent.
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
  update[0]->body.AsCollective()->request = 1;
  auto wait = std::make_unique<plan::CommandT>();
  plan::WaitT body;
  body.request = 1;
  wait->body.Set(std::move(body));
  update.insert(update.begin() + 3, std::move(wait));
  return plan;
}

const OverlapLine &lineOf(const StepTimeline &timeline,
                          const std::string &axes) {
  auto found =
      std::find_if(timeline.overlap.begin(), timeline.overlap.end(),
                   [&](const OverlapLine &line) { return line.axes == axes; });
  EXPECT_NE(found, timeline.overlap.end()) << axes;
  return *found;
}

TEST(StepTimeline, OneAfterAnother) {
  StepTimeline timeline = planTimelineOf(load(timed(false))).programs[0];
  EXPECT_EQ(timeline.computation, 15 * kernel);
  EXPECT_EQ(timeline.communication, 2 * collective);
  EXPECT_EQ(timeline.makespan, 15 * kernel + 2 * collective);
  EXPECT_EQ(timeline.lowerBound, 15 * kernel);
  ASSERT_EQ(timeline.segments.size(), 4u);
  EXPECT_EQ(timeline.segments[1].name, "next");
  EXPECT_EQ(timeline.segments[2].microbatch, 2u);
  EXPECT_EQ(timeline.segments[2].time.start, 9 * kernel);
  const OverlapLine &gradient = lineOf(timeline, "data");
  EXPECT_EQ(gradient.kind, "all_reduce");
  EXPECT_EQ(gradient.count, 1u);
  EXPECT_EQ(gradient.started, 0u);
  EXPECT_EQ(gradient.time, collective);
  EXPECT_EQ(gradient.hidden, 0);
}

// The loss is reduced in a group of its own, concurrently with the gradient,
// for which the rank then does not stall.
TEST(StepTimeline, QueuesRunBesideEachOther) {
  StepTimeline timeline = planTimelineOf(load(timed(true))).programs[0];
  int64_t begin = 13 * kernel;
  EXPECT_EQ(timeline.makespan, begin + kernel + collective + kernel);
  const OverlapLine &gradient = lineOf(timeline, "data");
  EXPECT_EQ(gradient.started, 1u);
  EXPECT_EQ(gradient.hidden, collective);
  EXPECT_EQ(lineOf(timeline, "data,tensor").hidden, 0);
  std::vector<int64_t> starts;
  for (const PlannedCommand &planned : timeline.commands)
    if (planned.queue)
      starts.push_back(planned.time.start);
  EXPECT_EQ(starts, (std::vector<int64_t>{begin, begin + kernel}));
}

// In one group one collective runs after another, whoever waits.
TEST(StepTimeline, AGroupIsOneQueue) {
  plan::PlanT plan = timed(true);
  auto &update = plan.programs[0]->segments[updateSegment]->commands;
  update[2]->body.AsCollective()->group = update[0]->body.AsCollective()->group;
  assignQueues(plan);
  StepTimeline timeline = planTimelineOf(load(plan)).programs[0];
  EXPECT_EQ(timeline.makespan, 13 * kernel + 2 * collective + kernel);
  EXPECT_EQ(lineOf(timeline, "data").count, 2u);
  EXPECT_EQ(lineOf(timeline, "data").hidden, collective);
}

// The plan says what is one queue, and not the groups.
TEST(StepTimeline, TwoGroupsMayHaveOneQueue) {
  plan::PlanT plan = timed(true);
  auto &update = plan.programs[0]->segments[updateSegment]->commands;
  update[2]->queue = update[0]->queue;
  plan.programs[0]->communication_queues = 1;
  StepTimeline timeline = planTimelineOf(load(plan)).programs[0];
  EXPECT_EQ(timeline.makespan, 13 * kernel + 2 * collective + kernel);
  EXPECT_EQ(lineOf(timeline, "data").count, 1u);
  EXPECT_EQ(lineOf(timeline, "data,tensor").count, 1u);
  EXPECT_EQ(timeline.queues,
            (std::vector<std::string>{"compute", "data and data,tensor"}));
  EXPECT_EQ(timeline.busy, (std::vector<int64_t>{15 * kernel, 2 * collective}));
}

// Two lists of axes for the same ranks are one queue.
TEST(StepTimeline, ListsOfTheSameRanksAreOneQueue) {
  plan::PlanT plan = timed(true);
  plan.programs[0]->groups[1]->axes = {plan::AxisRef(0, 1, 2),
                                       plan::AxisRef(1, 1, 1)};
  assignQueues(plan);
  StepTimeline timeline = planTimelineOf(load(plan)).programs[0];
  EXPECT_EQ(timeline.queues.size(), 2u);
  EXPECT_EQ(timeline.makespan, 13 * kernel + 2 * collective + kernel);
}

TEST(StepTimeline, ThePictureNamesQueuesSegmentsAndCommands) {
  LoadedPlan plan = load(timed(true));
  std::string picture = scheduleSvg(planTimelineOf(plan), plan);
  for (const char *text : {"compute", ">data<", "next 2", "update 0",
                           "AllReduce of linear.gradient: 0.00 us from 0.00 us",
                           "white: the queue stands"})
    EXPECT_NE(picture.find(text), std::string::npos) << text;
}

} // namespace
} // namespace polyrank::runtime::test
