// The memory that a plan's commands hold, on plans small enough to check by
// hand.

#include "runtime/plan/MemoryTimeline.h"

#include "runtime/report/LayoutsSvg.h"
#include "support/Svg.h"
#include "test/runtime/PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

plan::PlanT training(int64_t microbatches) {
  LinearModel model;
  model.data = 2, model.tensor = 2, model.microbatches = microbatches;
  model.batch = 8;
  return linearPlan(model);
}

/// Returns lines "FIRST-LAST SIZE KIND NAME", in the order of the timeline.
std::vector<std::string> describe(const MemoryTimeline &timeline) {
  std::vector<std::string> lines;
  for (const HeldBytes &held : timeline.held)
    if (!held.isFixed)
      lines.push_back(
          std::to_string(held.first) + "-" + std::to_string(held.last) + " " +
          std::to_string(held.size) + " " + held.kind + " " + held.name);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The plan is like that of a model whose output is its input.
TEST(MemoryTimeline, AStepWithoutCommandsHoldsWhatIsFixed) {
  plan::PlanT plan = training(1);
  for (auto &segment : plan.programs[0]->segments)
    segment->commands.clear();
  assignQueues(plan);
  MemoryTimeline timeline = timelineOf(load(plan));
  EXPECT_EQ(timeline.commands, 0u);
  EXPECT_FALSE(timeline.held.empty());
  EXPECT_TRUE(describe(timeline).empty());
  EXPECT_TRUE(timeline.heldBytes().empty());
  EXPECT_TRUE(peakOf(timeline).lines.empty());
}

// Commands 0 to 4: zero squares, y = x W, d = y - t, squares += d^2, gradient =
// x^T d. Then 5 to 8 are the same without the first, for all further
// microbatches, and the update: reduce the gradient, total the loss, reduce it,
// descend.
TEST(MemoryTimeline, FollowsWhatIsWrittenUntilItIsLastRead) {
  MemoryTimeline timeline = timelineOf(load(training(3)));
  ASSERT_EQ(timeline.segments.size(), 3u);
  EXPECT_EQ(timeline.segments[1].repeats, 2u);
  EXPECT_EQ(timeline.segments[1].first, 5u);
  EXPECT_EQ(timeline.segmentOf(8).name, "next");
  EXPECT_EQ(timeline.segmentOf(9).name, "update");
  EXPECT_EQ(timeline.commands, 13u);
  EXPECT_EQ(describe(timeline),
            (std::vector<std::string>{
                // A value that a command reads and overwrites is the command's
                // from then on.
                "0-0 8 forward loss",    // squares: the kernel reads no operand
                "1-2 32 forward linear", // y
                "10-10 4 forward loss",  // the loss, summed
                "11-12 4 forward loss",  // and reduced, until the end
                "2-4 32 forward loss",   // d
                "3-3 8 forward loss",    // squares
                "4-7 24 forward linear.gradient", // gradient
                "5-6 32 forward linear",          // y of the next
                "6-8 32 forward loss",            // d of the next
                "7-10 8 forward loss",
                "8-8 24 forward linear.gradient", // with the next's
                "9-12 24 forward linear.gradient"}));
}

TEST(MemoryTimeline, ArgumentsAndConstantsAreThereAllTheTime) {
  MemoryTimeline timeline = timelineOf(load(training(2)));
  uint64_t fixed = 0;
  for (const HeldBytes &held : timeline.held)
    if (held.isFixed) {
      EXPECT_EQ(held.first, 0u);
      EXPECT_EQ(held.last, timeline.commands - 1);
      fixed += held.size;
    }
  EXPECT_EQ(fixed, 24u + 2 * 48 + 2 * 32 + 8); // weight, x, labels, row count
  for (uint64_t bytes : timeline.heldBytes())
    EXPECT_GE(bytes, fixed);
}

TEST(MemoryTimeline, ThePeakIsWhereMostIsHeld) {
  plan::PlanT plan = training(2);
  auto scratch =
      std::make_unique<plan::BufferRef>(plan.programs[0]->private_size, 4096, 0,
                                        0, 0, 0, 0, plan::Region::Private);
  plan.programs[0]->private_size += 4096;
  plan::CommandT &product = *plan.programs[0]->segments[1]->commands[0];
  product.phase = plan::Phase::Backward;
  product.origin = "h.1.mlp/node_matmul";
  product.body.AsCall()->scratch = std::move(scratch);
  MemoryTimeline timeline = timelineOf(load(plan));
  EXPECT_EQ(timeline.peak, 5u);
  PeakReport peak = peakOf(timeline);
  EXPECT_EQ(peak.segment, "next");
  EXPECT_EQ(peak.origin, "h.1.mlp/node_matmul");
  EXPECT_EQ(peak.phase, "backward");
  EXPECT_EQ(peak.bytes, timeline.heldBytes()[5]);
  uint64_t sum = 0;
  for (const PeakReport::Line &line : peak.lines)
    sum += line.bytes;
  EXPECT_EQ(sum, peak.bytes);
  ASSERT_GE(peak.lines.size(), 2u);
  EXPECT_EQ(peak.lines[0].kind, "scratch");
  EXPECT_EQ(peak.lines[0].module, "h.1.mlp");
  EXPECT_EQ(peak.lines[0].bytes, 4096u);
}

// The update: 9 starts the reduction of the gradient in place, 10 totals the
// loss, 11 reduces it, 12 waits, 13 descends.
TEST(MemoryTimeline, WhatACollectiveReadsAndWritesIsHeldUntilItsWait) {
  auto has = [](const plan::PlanT &plan, const char *line) {
    std::vector<std::string> lines = describe(timelineOf(load(plan)));
    return std::count(lines.begin(), lines.end(), line) == 1;
  };
  plan::PlanT plan = training(3);
  startEarly(plan, updateSegment, 0, 3, 4);
  EXPECT_TRUE(has(plan, "8-8 24 forward linear.gradient"));
  EXPECT_TRUE(has(plan, "9-13 24 forward linear.gradient"));
  // The output has another place, which nobody reads: both are held until the
  // wait.
  plan::TransferT &transfer = *plan.programs[0]
                                   ->segments[updateSegment]
                                   ->commands[0]
                                   ->body.AsCollective()
                                   ->transfers[0];
  *transfer.output = plan::BufferRef(plan.programs[0]->shared_size, 24, 0, 0, 0,
                                     0, 0, plan::Region::Shared);
  plan.programs[0]->shared_size += 24;
  plan.programs[0]->segments[updateSegment]->commands.pop_back();
  EXPECT_TRUE(has(plan, "8-12 24 forward linear.gradient"));
  EXPECT_TRUE(has(plan, "9-12 24 forward linear.gradient"));
}

TEST(MemoryTimeline, AValueThatIsOverwrittenInPartIsHeldInTheRest) {
  plan::PlanT plan = training(1);
  // A copy over the first half of y while the rest of it is still to be read.
  plan::ProgramT &program = *plan.programs[0];
  auto &commands = program.segments[0]->commands;
  const plan::BufferRef y = commands[1]->body.AsCall()->writes[0];
  plan::CopyT copy;
  copy.element = 4, copy.inner = 4;
  copy.input = std::make_unique<plan::BufferRef>(0, 16, 0, 0, 0, 0, 0,
                                                 plan::Region::Private);
  copy.output = std::make_unique<plan::BufferRef>(y.offset(), 16, 0, 0, 0, 0, 0,
                                                  plan::Region::Private);
  auto command = std::make_unique<plan::CommandT>();
  command->body.Set(std::move(copy));
  command->origin = "copy";
  commands.insert(commands.begin() + 2, std::move(command));
  std::vector<std::string> lines = describe(timelineOf(load(plan)));
  for (const char *line : {"1-1 16 forward linear", "1-3 16 forward linear",
                           "2-3 16 forward copy"})
    EXPECT_TRUE(std::count(lines.begin(), lines.end(), line)) << line;
}

TEST(Pictures, AreWellFormedWhateverNamesHold) {
  plan::PlanT plan = training(2);
  plan.model = "a<b>&\"c\"\x01.onnx";
  plan.programs[0]->segments[0]->commands[1]->origin = "x<y & z";
  LoadedPlan loaded = load(plan);
  for (const std::string &text :
       {memorySvg(timelineOf(loaded), loaded), layoutsSvg(loaded)}) {
    EXPECT_TRUE(text.starts_with("<svg "));
    EXPECT_TRUE(text.ends_with("</svg>\n"));
    EXPECT_NE(text.find("a&lt;b&gt;&amp;&quot;c&quot;?.onnx"),
              std::string::npos);
    EXPECT_EQ(text.find("x<y"), std::string::npos);
  }
}

TEST(Pictures, LayoutsShowTheRanksOfEachBlock) {
  std::string text = layoutsSvg(load(training(2)));
  // W's columns are split over tensor, x over data, labels over both.
  for (const char *tip : {"ranks 0,2 hold elements [0:3, 0:2]",
                          "ranks 1,3 hold elements [0:3, 2:4]",
                          "ranks 0,1 hold elements [0:2, 0:4, 0:3]",
                          "rank 3 holds elements [0:2, 4:8, 2:4]"})
    EXPECT_NE(text.find(tip), std::string::npos) << tip << "\n" << text;
}

} // namespace
} // namespace polyrank::runtime::test
