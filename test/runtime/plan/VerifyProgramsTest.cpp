// What the plan verifier refuses in several programs: places, sends, and
// disagreements between programs.

#include "runtime/plan/PlanMesh.h"
#include "test/runtime/PipelineBuilder.h"
#include "test/runtime/plan/Lies.h"

namespace polyrank::runtime::test {
namespace {

/// Four microbatches, of which each program has two on the way: one slot for an
/// activation of 4 x 3 floats, 48 bytes.
PlanT goodPipeline() {
  PipelineModel model;
  model.data = 2, model.batch = 8, model.slots = 1, model.warmUp = 2;
  return pipelinePlan(model);
}

ProgramT &first(PlanT &plan) { return *plan.programs[0]; }
ProgramT &second(PlanT &plan) { return *plan.programs[1]; }
auto &commandsOf(ProgramT &program, int segment) {
  return program.segments[static_cast<size_t>(segment)]->commands;
}
SendT &sendOf(PlanT &plan) {
  return *commandsOf(first(plan), forwardSegment)[1]->body.AsSend();
}
ReceiveT &receiveOf(PlanT &plan, int segment = firstSegment) {
  return *commandsOf(second(plan), segment)[segment == firstSegment ? 1 : 0]
              ->body.AsReceive();
}
const std::vector<Lie> lies = {
    // Places.
    {"axisOfAPlace", [](PlanT &p) { first(p).at[0] = Place(2, 0); },
     "a program is at a coordinate of axis 2 of a mesh of 2 axes"},
    {"negativeAxisOfAPlace", [](PlanT &p) { first(p).at[0] = Place(-1, 0); },
     "a program is at a coordinate of axis -1"},
    {"axisTwice",
     [](PlanT &p) {
       for (auto &program : p.programs)
         program->at.push_back(program->at[0]);
     },
     "a program is at two coordinates of axis 'pipe'"},
    {"otherAxes", [](PlanT &p) { second(p).at[0] = Place(0, 1); },
     "program 1 names other axes than program 0"},
    {"coordinateOfAPlace", [](PlanT &p) { second(p).at[0] = Place(1, 2); },
     "program 1 is at pipe=2, and the axis has size 2"},
    {"negativeCoordinate", [](PlanT &p) { second(p).at[0] = Place(1, -1); },
     "program 1 is at pipe=-1"},
    {"placeTwice", [](PlanT &p) { second(p).at[0] = Place(1, 0); },
     "programs 0 and 1 are both for the ranks at pipe=0"},
    {"ranksWithoutAProgram", [](PlanT &p) { p.mesh[1]->size = 3; },
     "has 2 programs for 3 coordinates: some ranks have none"},
    // One end by itself.
    {"sendGroup", [](PlanT &p) { sendOf(p).group = 9; }, "group 9 of 3"},
    {"receiveGroup", [](PlanT &p) { receiveOf(p).group = 9; }, "group 9 of 3"},
    {"fromOutside", [](PlanT &p) { receiveOf(p).from = 2; },
     "goes from index 2 to 1 of a group of 2"},
    {"toOutside", [](PlanT &p) { sendOf(p).to = 2; },
     "goes from index 0 to 2 of a group of 2"},
    {"toItself", [](PlanT &p) { sendOf(p).to = 0; },
     "goes from index 0 to 0 of a group of 2"},
    {"ofAllRanks", [](PlanT &p) { sendOf(p).group = dataGroup; },
     "its group is over axis 'data', and ranks with any coordinate there run "
     "the program"},
    {"theOthersSend", [](PlanT &p) { std::swap(sendOf(p).from, sendOf(p).to); },
     "is of the rank with index 1 over pipe, and those that run it have 0"},
    {"noSlot", [](PlanT &p) { sendOf(p).slots = 0; }, "0 slots; 1 to "},
    {"tooManySlots", [](PlanT &p) { sendOf(p).slots = 1u << 20; },
     "1048576 slots; 1 to "},
    {"sentBytes", [](PlanT &p) { sendOf(p).bytes = 47; },
     "values of 47 bytes, and its buffer has 48"},
    {"receivedBytes", [](PlanT &p) { receiveOf(p).bytes = 49; },
     "values of 49 bytes, and its buffer has 48"},
    {"sentOutside",
     [](PlanT &p) { move(sendOf(p).input, first(p).private_size); },
     "behind the private region's"},
    {"receivedOutside",
     [](PlanT &p) { move(receiveOf(p).output, second(p).private_size); },
     "behind the private region's"},
    {"reasonOfASend", [](PlanT &p) { sendOf(p).why = 2; }, "reason 2 of 2"},
    {"reasonOfAReceive", [](PlanT &p) { receiveOf(p).why = 2; },
     "reason 2 of 2"},
    {"thePlaceIsNamed", [](PlanT &p) { receiveOf(p).slots = 0; },
     "at pipe=1: segment 'first', command 1 (Receive, second)"},
    // Arguments and outputs of one name must agree in all programs.
    {"roleOfAName",
     [](PlanT &p) {
       second(p).arguments[1]->name = "x";
       second(p).arguments[1]->dims[2]->size = 3;
       second(p).arguments[1]->dims[2]->padded = 3;
       *second(p).arguments[1]->buffer =
           ofSize(*second(p).arguments[1]->buffer, 4 * 4 * 3 * 4);
     },
     "both have argument 'x', and the role differs"},
    {"dtypeOfAName",
     [](PlanT &p) {
       second(p).arguments[1]->name = "x";
       second(p).arguments[1]->role = Role::Input;
       second(p).arguments[1]->dtype = ElementType::I32;
     },
     "both have argument 'x', and the dtype differs"},
    {"shapeOfAName",
     [](PlanT &p) {
       second(p).arguments[1]->name = "x";
       second(p).arguments[1]->role = Role::Input;
     },
     "the programs at pipe=0 and pipe=1 both have argument 'x', and the shape "
     "differs"},
    {"samplesOfAName",
     [](PlanT &p) {
       second(p).arguments[1]->name = "x";
       second(p).arguments[1]->role = Role::Input;
       second(p).arguments[1]->dims[2]->size = 3;
       second(p).arguments[1]->dims[2]->padded = 3;
       *second(p).arguments[1]->buffer =
           ofSize(*second(p).arguments[1]->buffer, 4 * 4 * 3 * 4);
       second(p).arguments[1]->batch_dim = 1;
     },
     "both have argument 'x', and the dim of the samples differs"},
    {"viewOfAName",
     [](PlanT &p) {
       second(p).arguments[0]->name = "first.weight";
       second(p).arguments[0]->dims[1]->size = 3;
       second(p).arguments[0]->dims[1]->padded = 3;
       *second(p).arguments[0]->buffer =
           ofSize(*second(p).arguments[0]->buffer, 36);
     },
     "both have argument 'first.weight', and the view differs"},
    {"outputOfAName", [](PlanT &p) { second(p).outputs[0]->geometric = true; },
     "both have output 'loss', and its kind, dtype or shape differs"},
    // Both ends say the same.
    {"nothingSends",
     [](PlanT &p) {
       for (int segment : {firstBackwardSegment, nextBackwardSegment})
         commandsOf(first(p), segment)[0]->body.AsReceive()->id = 99;
     },
     "receives value 99 from pipe=1, where nothing sends it there"},
    {"nothingReceives",
     [](PlanT &p) {
       auto command = std::make_unique<CommandT>();
       SendT other = sendOf(p);
       other.id = 99;
       command->body.Set(std::move(other));
       commandsOf(first(p), forwardSegment).push_back(std::move(command));
     },
     "sends value 99 to pipe=1, where nothing receives it"},
    {"otherSlots",
     [](PlanT &p) {
       for (int segment : {firstSegment, nextSegment})
         receiveOf(p, segment).slots = 2;
     },
     "value 7: has slots: 1 at pipe=0 in segment 'forward', command 1 (Send, "
     "first), and 2 at pipe=1 in segment 'first', command 1 (Receive, second)"},
    {"otherBytes",
     [](PlanT &p) {
       for (int segment : {firstSegment, nextSegment}) {
         *receiveOf(p, segment).output =
             ofSize(*receiveOf(p, segment).output, 44);
         receiveOf(p, segment).bytes = 44;
       }
     },
     "value 7: has bytes: 48 at pipe=0"},
    {"twoChannelsOfOneValue",
     [](PlanT &p) { receiveOf(p, nextSegment).slots = 2; },
     "value 7 has another channel than in segment 'first', command 1"},
    {"fewerExecutions",
     [](PlanT &p) { second(p).schedule.erase(second(p).schedule.begin() + 1); },
     "value 7: has executions in a step: 4 at pipe=0"},
    // They come to the end.
    {"firstWaitsForSlotsThatNobodyFrees",
     [](PlanT &p) {
       // All four forwards first, with a slot for one.
       auto &schedule = first(p).schedule;
       schedule = {
           Action(forwardSegment, 0),       Action(forwardSegment, 1),
           Action(forwardSegment, 2),       Action(forwardSegment, 3),
           Action(firstBackwardSegment, 0), Action(nextBackwardSegment, 1),
           Action(nextBackwardSegment, 2),  Action(nextBackwardSegment, 3),
           Action(descentSegment, 0)};
     },
     "ranks wait for each other without end: at pipe=0 in segment 'forward', "
     "command 1 (Send, first), microbatch 3; at pipe=1 in segment 'next', "
     "command 5 (Send, second.gradient), microbatch 1"},
    {"backwardBeforeForward",
     [](PlanT &p) {
       auto &schedule = first(p).schedule;
       std::swap(schedule[0], schedule[2]);
       std::swap(schedule[1], schedule[4]);
     },
     "ranks wait for each other without end: at pipe=0 in segment 'backward'"},
    {"collectivesInAnotherOrder",
     [](PlanT &p) {
       commandsOf(second(p), updateSegment)[2]->body.AsCollective()->id = 9;
     },
     "at pipe=1 the next collective over data,pipe is of value 9 (AllReduce), "
     "and at pipe=0 of value 2 (AllReduce)"},
    {"collectivesOfOtherShapes",
     [](PlanT &p) {
       commandsOf(second(p), updateSegment)[2]->body.AsCollective()->reduction =
           Reduction::Max;
     },
     "the next collective over data,pipe is of value 2"},
    {"aCollectiveThatOneLacks",
     [](PlanT &p) {
       auto &commands = commandsOf(second(p), updateSegment);
       commands.erase(commands.begin() + 2);
     },
     "ranks wait for each other without end: at pipe=0 in segment 'update', "
     "command 2 (Collective, loss)"},
    {"timesWithoutEnd",
     [](PlanT &p) {
       for (auto &command : commandsOf(first(p), forwardSegment))
         command->picoseconds = uint64_t(1) << 62;
     },
     "its commands take 18446744073709551615 picoseconds in a step"},
};

class RefusedPipeline : public testing::TestWithParam<Lie> {};

TEST_P(RefusedPipeline, NamesThePlaceAndTheValues) {
  expectRefused(GetParam(), goodPipeline());
}

INSTANTIATE_TEST_SUITE_P(VerifyPrograms, RefusedPipeline,
                         testing::ValuesIn(lies), [](const auto &lie) {
                           return std::string(lie.param.name);
                         });

TEST(VerifyPrograms, WhatIsSentFitsIntoMemory) {
  auto refusal = [](uint64_t bytes, uint32_t slots) {
    PlanT plan = goodPipeline();
    first(plan).private_size = bytes + (1 << 20);
    SendT &send = sendOf(plan);
    *send.input = ofSize(*send.input, bytes);
    send.bytes = bytes;
    send.slots = slots;
    auto verified = verifyPlan(serialise(plan));
    return verified ? "" : verified.error().message;
  };
  // Less than that is refused since it is received in another way.
  EXPECT_NE(refusal(uint64_t(1) << 40, 1).find("has bytes:"),
            std::string::npos);
  EXPECT_NE(refusal(uint64_t(1) << 40, 1 << 16)
                .find("the values that it sends take 72057594037927936 bytes "
                      "of channels"),
            std::string::npos);
}

TEST(VerifyPrograms, GoodPlansAreAccepted) {
  expectAccepted(goodPipeline());
  for (int64_t microbatches : {1, 2, 5})
    for (uint32_t slots : {1u, 2u, 3u})
      for (int64_t warmUp : {1, 2})
        if (warmUp <= microbatches) {
          PipelineModel model;
          model.microbatches = microbatches, model.slots = slots,
          model.warmUp = warmUp;
          expectAccepted(pipelinePlan(model));
          expectAccepted(pipelineForwardPlan(model));
        }
}

// With as many slots as there are leading forwards, the same schedule ends.
TEST(VerifyPrograms, SlotsDecideWhetherAScheduleEnds) {
  for (uint32_t slots : {1u, 2u, 3u}) {
    PipelineModel model;
    model.slots = slots, model.warmUp = 4;
    auto verified = verifyPlan(serialise(pipelinePlan(model)));
    EXPECT_EQ(bool(verified), slots >= 2) << slots;
  }
}

// A collective of several programs that is started, and waited for later.
TEST(VerifyPrograms, ProgramsMayStartWhatTheyShare) {
  PlanT plan = goodPipeline();
  for (auto &program : plan.programs) {
    auto &commands = program->segments.back()->commands;
    commands[2]->body.AsCollective()->request = 3;
    auto wait = std::make_unique<CommandT>();
    WaitT body;
    body.request = 3;
    wait->body.Set(std::move(body));
    commands.push_back(std::move(wait));
  }
  expectAccepted(plan);
}

TEST(VerifyPrograms, ARankRunsTheProgramOfItsCoordinates) {
  PlanT built = goodPipeline();
  std::swap(built.programs[0], built.programs[1]); // in any order
  LoadedPlan plan = load(built);
  Mesh mesh(*plan.plan);
  EXPECT_EQ(mesh.ranks(), 4);
  for (int64_t rank = 0; rank < 4; ++rank) {
    uint32_t number = programOf(*plan.plan, mesh, rank);
    EXPECT_EQ(number, rank % 2 == 0 ? 1u : 0u);
    EXPECT_TRUE(isAt(mesh, rank, plan.program(number).at()));
    EXPECT_FALSE(isAt(mesh, rank, plan.program(1 - number).at()));
    EXPECT_EQ(firstRankOf(mesh, plan.program(number).at()), rank % 2);
    EXPECT_EQ(ranksOf(mesh, plan.program(number).at()), 2);
    EXPECT_EQ(describePlaces(mesh, plan.program(number).at()),
              rank % 2 == 0 ? "pipe=0" : "pipe=1");
    // Among the replicas in one program one owns the block, whatever other
    // programs hold.
    const auto *dims = plan.program(number).arguments()->Get(0)->dims();
    const Places *at = plan.program(number).at();
    EXPECT_EQ(ownsBlock(mesh, rank, dims, at), rank < 2);
    Replica replica = replicaOf(mesh, rank, dims, at);
    EXPECT_EQ(replica.count, 2);
    EXPECT_EQ(replica.index, rank / 2);
  }
}

} // namespace
} // namespace polyrank::runtime::test
