// The times of several programs' commands, on pipelines small enough to check
// by hand.

#include "runtime/plan/StepTimeline.h"

#include "test/runtime/PipelineBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// Sets the times of each stage's segments per microbatch: the first stage's
/// forward and backward take 10 each, both of the second stage together 20. The
/// updates take nothing except the loss's collective, which takes 30. A value
/// takes `link`.
plan::PlanT timed(const PipelineModel &model, int64_t link) {
  plan::PlanT plan = pipelinePlan(model);
  for (size_t p = 0; p < 2; ++p)
    for (auto &segment : plan.programs[p]->segments) {
      bool isUpdate = segment->name == "update", isFirst = true;
      for (auto &command : segment->commands) {
        if (command->body.AsSend())
          command->picoseconds = uint64_t(link);
        else if (const auto *collective = command->body.AsCollective())
          command->picoseconds = collective->id == 2 ? 30 : 0;
        else if (command->body.AsCall() && isFirst && !isUpdate)
          command->picoseconds = p == 0 ? 10 : 20, isFirst = false;
      }
    }
  return plan;
}

PipelineModel modelOf(int64_t microbatches, uint32_t slots, int64_t warmUp) {
  PipelineModel model;
  model.microbatches = microbatches;
  model.slots = slots, model.warmUp = warmUp;
  return model;
}

// F0 F1 on the first stage, then B and F alternate: the second stage is busy
// from its first microbatch to its last. 10 + 4 * 20 + 10, and the loss.
TEST(PipelineTimeline, OneForwardOneBackward) {
  PlanTimeline timeline = planTimelineOf(load(timed(modelOf(4, 2, 2), 0)));
  ASSERT_EQ(timeline.programs.size(), 2u);
  const StepTimeline &first = timeline.programs[0],
                     &second = timeline.programs[1];
  EXPECT_EQ(first.place, "pipe=0");
  EXPECT_EQ(second.place, "pipe=1");
  EXPECT_EQ(first.computation, 4 * 20);
  EXPECT_EQ(second.computation, 4 * 20);
  EXPECT_EQ(timeline.makespan, 10 + 4 * 20 + 10 + 30);
  EXPECT_EQ(first.makespan, timeline.makespan);
  EXPECT_EQ(second.makespan, timeline.makespan);
  EXPECT_EQ(timeline.idle(0), 20 + 30);
  EXPECT_EQ(timeline.idle(1), 20 + 30);
  EXPECT_NEAR(timeline.bubble(0), 50.0 / 130, 1e-9);
  // The second stage cannot begin before 10, and its update ends with the loss.
  EXPECT_EQ(timeline.lowerBound, 10 + 80 + 30);
}

// The bound knows how long a value travels to a stage and its gradient back.
// With one microbatch there is nothing else to wait for.
TEST(PipelineTimeline, TheBoundOfOneMicrobatchIsItsPath) {
  for (int64_t link : {0, 7}) {
    PlanTimeline timeline = planTimelineOf(load(timed(modelOf(1, 1, 1), link)));
    EXPECT_EQ(timeline.makespan, 70 + 2 * link);
    EXPECT_LE(timeline.lowerBound, timeline.makespan);
    EXPECT_GE(timeline.lowerBound, 10 + link + 20 + 30);
  }
}

// No order of the runs may be shorter than the bound: here are some.
TEST(PipelineTimeline, NoOrderIsShorterThanTheBound) {
  for (int64_t microbatches : {1, 2, 4, 7})
    for (int64_t warmUp : {1, 2, 4})
      for (int64_t link : {0, 3, 40}) {
        PlanTimeline timeline = planTimelineOf(load(timed(
            modelOf(microbatches, 4, std::min(warmUp, microbatches)), link)));
        EXPECT_LE(timeline.lowerBound, timeline.makespan)
            << microbatches << " " << warmUp << " " << link;
        EXPECT_GE(timeline.lowerBound, 10 + link + microbatches * 20 + 30);
      }
}

// With one forward before each backward the stages take turns.
TEST(PipelineTimeline, WithoutWarmUpTheStagesTakeTurns) {
  PlanTimeline timeline = planTimelineOf(load(timed(modelOf(4, 1, 1), 0)));
  EXPECT_EQ(timeline.makespan, 4 * 40 + 30);
}

// A value arrives later over a link. Each direction has its own queue.
TEST(PipelineTimeline, ALinkIsPassedTwiceOnTheWay) {
  PlanTimeline timeline = planTimelineOf(load(timed(modelOf(1, 1, 1), 7)));
  EXPECT_EQ(timeline.makespan, 10 + 7 + 20 + 7 + 10 + 30);
  const StepTimeline &first = timeline.programs[0];
  EXPECT_EQ(first.queues,
            (std::vector<std::string>{"compute", "pipe 0 to 1", "pipe 1 to 0",
                                      "data", "data,pipe"}));
  bool seen = false;
  for (const PlannedCommand &planned : first.commands)
    if (planned.command->body_as_Receive()) {
      seen = true;
      EXPECT_EQ(planned.time.start, 37);
      EXPECT_EQ(planned.time.end, 44);
      EXPECT_EQ(planned.stood, 34); // from when it had sent
    }
  EXPECT_TRUE(seen);
  for (const OverlapLine &line : first.overlap)
    if (line.kind == "receive") {
      EXPECT_EQ(line.axes, "pipe 1 to 0");
      EXPECT_EQ(line.count, 1u);
      EXPECT_EQ(line.time, 7);
      EXPECT_EQ(line.hidden, 0);
    }
}

// A slow link is one queue: values arrive 100 apart, however early they are
// sent.
TEST(PipelineTimeline, ValuesOfOneDirectionGoOneBehindTheOther) {
  plan::PlanT plan = pipelineForwardPlan(modelOf(3, 3, 1));
  plan.programs[0]->segments[0]->commands[0]->picoseconds = 10;
  plan.programs[0]->segments[0]->commands[1]->picoseconds = 100;
  plan.programs[1]->segments[0]->commands[1]->picoseconds = 1;
  PlanTimeline timeline = planTimelineOf(load(plan));
  EXPECT_EQ(timeline.makespan, 10 + 3 * 100 + 1);
  EXPECT_EQ(timeline.programs[0].makespan, 30);
  EXPECT_EQ(timeline.programs[0].communication, 300);
  EXPECT_EQ(timeline.programs[1].communication, 0); // it is the sender's
}

// With one slot the third value waits until the first has been received: the
// sender stalls.
TEST(PipelineTimeline, ASenderStandsWhileNoSlotIsFree) {
  plan::PlanT plan = pipelineForwardPlan(modelOf(3, 1, 1));
  plan.programs[0]->segments[0]->commands[0]->picoseconds = 10;
  plan.programs[1]->segments[0]->commands[1]->picoseconds = 50;
  PlanTimeline timeline = planTimelineOf(load(plan));
  // Received at 10, 60 and 110; the third is sent when the second is received.
  EXPECT_EQ(timeline.programs[0].makespan, 60);
  EXPECT_EQ(timeline.makespan, 10 + 3 * 50);
  int64_t stood = 0;
  for (const PlannedCommand &planned : timeline.programs[0].commands)
    if (planned.command->body_as_Send())
      stood += planned.stood;
  EXPECT_EQ(stood, 30);
}

TEST(PipelineTimeline, APictureHasARowForEachProgram) {
  LoadedPlan plan = load(timed(modelOf(4, 2, 2), 5));
  std::string picture = scheduleSvg(planTimelineOf(plan), plan);
  for (const char *text : {">pipe=0<", ">pipe=1<", ">pipe 0 to 1<",
                           "a rank of each program", "backward", ">forward 0<"})
    EXPECT_NE(picture.find(text), std::string::npos) << text;
}

} // namespace
} // namespace polyrank::runtime::test
