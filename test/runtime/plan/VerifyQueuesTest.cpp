// What the plan verifier refuses about the queues of commands.

#include "runtime/plan/QueueNames.h"
#include "runtime/plan/Queues.h"
#include "runtime/plan/StepTimeline.h"
#include "test/runtime/PipelineBuilder.h"
#include "test/runtime/RecurrentBuilder.h"
#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

/// The update's commands: 0 reduces the gradient over data, on queue 3; 1 and 3
/// are launches; 2 reduces the loss over data and tensor, on queue 4.
CommandT &updateOf(PlanT &plan, int number) {
  return commandOf(plan, updateSegment, number);
}

const Lie lies[] = {
    {"beyondAll", [](PlanT &p) { updateOf(p, 2).queue = 5; },
     "segment 'update', command 2 (Collective, loss): runs on queue 5, and the "
     "program has queues 0 to 4"},
    {"huge", [](PlanT &p) { updateOf(p, 2).queue = UINT32_MAX; },
     "runs on queue 4294967295"},
    {"computesInCommunication", [](PlanT &p) { updateOf(p, 1).queue = 3; },
     "command 1 (Launch, loss): computes on queue 3, and only queue 0 does"},
    {"computesInCopies",
     [](PlanT &p) { commandOf(p, firstSegment, 1).queue = 1; },
     "command 1 (gemm, linear): computes on queue 1, and only queue 0 does"},
    {"waitsElsewhere",
     [](PlanT &p) {
       startEarly(p, updateSegment, 0, 2, 1);
       updateOf(p, 2).queue = 3;
     },
     "command 2 (Wait, linear.gradient): waits on queue 3, and only queue 0 "
     "does"},
    {"communicatesInComputation", [](PlanT &p) { updateOf(p, 0).queue = 0; },
     "command 0 (Collective, linear.gradient): communicates on queue 0, and "
     "only queues from 3 on do"},
    {"communicatesInCopies", [](PlanT &p) { updateOf(p, 0).queue = 2; },
     "communicates on queue 2, and only queues from 3 on do"},
    {"oneGroupOnTwoQueues",
     [](PlanT &p) { updateOf(p, 2).body.AsCollective()->group = 0; },
     "segment 'update', command 2 (Collective, loss): runs on queue 4, and "
     "segment 'update', command 0 (Collective, linear.gradient) on queue 3: "
     "the collectives of data must be on one queue"},
    // Another list of axes for the same ranks.
    {"oneListOfRanksOnTwoQueues",
     [](PlanT &p) {
       programOf(p).groups[1]->axes = {AxisRef(0, 1, 2), AxisRef(1, 1, 1)};
     },
     "the collectives of data must be on one queue"},
    {"queueOfNothing", [](PlanT &p) { programOf(p).communication_queues = 3; },
     "no command runs on queue 5, the last of which is 5"},
    {"manyQueues", [](PlanT &p) { programOf(p).communication_queues = 4097; },
     "has 4097 communication queues; at most 4096 are possible"},
};

class RefusedQueues : public testing::TestWithParam<Lie> {};
TEST_P(RefusedQueues, WithAMessage) { expectRefused(GetParam()); }
INSTANTIATE_TEST_SUITE_P(VerifyQueues, RefusedQueues, testing::ValuesIn(lies),
                         [](auto &info) { return info.param.name; });

PlanT goodPipeline() {
  PipelineModel model;
  model.data = 2, model.batch = 8, model.slots = 1, model.warmUp = 2;
  return pipelinePlan(model);
}
/// The commands of the first program: its send on queue 3, its receives on 4,
/// the reduction of the gradient on 5 and that of all ranks on 6.
CommandT &firstOf(PlanT &plan, int segment, int number) {
  return *plan.programs[0]->segments[segment]->commands[number];
}

const Lie pipelineLies[] = {
    {"sendAndReceiveTogether",
     [](PlanT &p) { firstOf(p, forwardSegment, 1).queue = 4; },
     "what goes over pipe from 0 to 1 and what goes over pipe from 1 to 0 are "
     "not in one order on all ranks, and must have queues of their own"},
    {"sendWithACollective",
     [](PlanT &p) { firstOf(p, descentSegment, 0).queue = 3; },
     "what goes over pipe from 0 to 1 and the collectives of data are not in "
     "one order"},
    {"collectivesOfOneProgramAndOfAll",
     [](PlanT &p) { firstOf(p, descentSegment, 2).queue = 5; },
     "at pipe=0: segment 'update', command 2 (Collective, loss): runs on queue "
     "5, as segment 'update', command 0 (Collective, first.gradient) does: "
     "the collectives of data and the collectives of data,pipe are not in one "
     "order on all ranks"},
    {"oneDirectionOnTwoQueues",
     [](PlanT &p) { firstOf(p, nextBackwardSegment, 0).queue = 3; },
     "what goes over pipe from 1 to 0 must be on one queue"},
};

class RefusedQueuesOfPipelines : public testing::TestWithParam<Lie> {};
TEST_P(RefusedQueuesOfPipelines, WithAMessage) {
  expectRefused(GetParam(), goodPipeline());
}
INSTANTIATE_TEST_SUITE_P(VerifyQueues, RefusedQueuesOfPipelines,
                         testing::ValuesIn(pipelineLies),
                         [](auto &info) { return info.param.name; });

TEST(VerifyQueues, ACommandOfALoopComputes) {
  PlanT plan = recurrentPlan(LinearModel()).plan;
  for (auto &segment : plan.programs[0]->segments)
    for (auto &command : segment->commands)
      if (LoopT *loop = command->body.AsLoop())
        loop->commands[0]->queue = 1;
  auto verified = verifyPlan(serialise(plan));
  ASSERT_FALSE(verified);
  EXPECT_NE(verified.error().message.find("computes on queue 1"),
            std::string::npos)
      << verified.error().message;
}

TEST(VerifyQueues, TheRanksOfOneProgramMayHaveOneOrderOfAllGroups) {
  PlanT plan = goodPlan();
  updateOf(plan, 2).queue = 3;
  programOf(plan).communication_queues = 1;
  LoadedPlan loaded = load(plan);
  Mesh mesh(*loaded.plan);
  EXPECT_EQ(communicationQueueNames(loaded.program(0), mesh),
            std::vector<std::string>{"data and data,tensor"});
}

TEST(VerifyQueues, TheGoodPipelineIsAccepted) {
  PlanT plan = goodPipeline();
  expectAccepted(plan);
  LoadedPlan loaded = load(plan);
  EXPECT_EQ(communicationQueueNames(loaded.program(0), Mesh(*loaded.plan)),
            (std::vector<std::string>{"pipe 0 to 1", "pipe 1 to 0", "data",
                                      "data,pipe"}));
}

TEST(QueueNumbers, OfListsOfAxesThatDescribeTheSameRanksAreEqual) {
  QueueNumbers numbers;
  uint32_t first = numbers.ofGroup({{0, 1, 8}});
  EXPECT_EQ(first, firstCommunicationQueue);
  EXPECT_EQ(numbers.ofGroup({{0, 1, 2}, {1, 1, 1}, {0, 2, 4}}), first);
  EXPECT_NE(numbers.ofGroup({{0, 2, 4}, {0, 1, 2}}), first) << "another order";
  EXPECT_NE(numbers.ofLink({{0, 1, 8}}, 0, 1), first);
  EXPECT_EQ(numbers.ofLink({{0, 1, 4}, {0, 4, 2}}, 0, 1),
            numbers.ofLink({{0, 1, 8}}, 0, 1));
  EXPECT_NE(numbers.ofLink({{0, 1, 8}}, 1, 0),
            numbers.ofLink({{0, 1, 8}}, 0, 1));
  EXPECT_EQ(numbers.count(), 4u);
}

} // namespace
} // namespace polyrank::runtime::test
