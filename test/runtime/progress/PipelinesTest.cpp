// Pipelines: a program for each stage, transfers between neighbours,
// alternating forwards and backwards (1F1B; Narayanan et al., Memory-Efficient
// Pipeline-Parallel DNN Training, 2021).

#include "runtime/progress/CheckPrograms.h"
#include "test/runtime/progress/FullProduct.h"

#include <gtest/gtest.h>

using namespace polyrank::progress;
using namespace polyrank::test;
using Action = Command::Action;

namespace {

/// How a stage sends.
enum class Sends {
  AtOnce, // waits until the next stage receives
  Slots   // continues; waits when it needs the memory again
};

class Pipeline {
public:
  Pipeline(int64_t stages, int32_t microbatches, Sends sends,
           int32_t queue = Command::ownQueue)
      : stages(stages), microbatches(microbatches), sends(sends), queue(queue) {
    ranks.mesh = Mesh({{"data", 2}, {"pipe", stages}});
    ranks.classAxes = {1};
    ranks.programOf.clear();
    ranks.groups = {{{{0, 1, 2}}}};
    ranks.movements = {{0, "all_reduce sum", {64, 64}, "gradients"}};
    for (int64_t s = 0; s + 1 < stages; ++s) {
      ranks.groups.push_back({{{1, 1, stages}}, {s, s + 1}});
      ranks.groups.push_back({{{1, 1, stages}}, {s + 1, s}});
      std::string name = "h." + std::to_string(s);
      ranks.movements.push_back({uint64_t(2 * s + 1), "transfer", {8}, name});
      ranks.movements.push_back(
          {uint64_t(2 * s + 2), "transfer", {8}, "gradient of " + name});
    }
  }

  RankPrograms build() {
    for (int64_t s = 0; s < stages; ++s) {
      ranks.programOf.push_back(s);
      ranks.programs.push_back(buildStage(s));
    }
    return ranks;
  }

private:
  Program buildStage(int64_t s) {
    program.clear();
    inFlight.clear();
    int32_t warmUp = std::min<int32_t>(stages - s - 1, microbatches);
    for (int32_t m = 0; m < warmUp; ++m)
      forward(s, m);
    for (int32_t m = warmUp; m < microbatches; ++m) {
      forward(s, m);
      backward(s, m - warmUp);
    }
    for (int32_t m = microbatches - warmUp; m < microbatches; ++m)
      backward(s, m);
    for (auto [movement, started] : inFlight)
      program.push_back({Action::Wait, 0, 0, queue, 0, started});
    program.push_back({Action::Run, 0, 0});
    return program;
  }

  void forward(int64_t s, int32_t microbatch) {
    if (s > 0)
      receive(2 * s - 1, microbatch);
    if (s + 1 < stages)
      send(2 * s + 1, microbatch);
  }
  void backward(int64_t s, int32_t microbatch) {
    if (s + 1 < stages)
      receive(2 * s + 2, microbatch);
    if (s > 0)
      send(2 * s, microbatch);
  }
  // Movement and group have the same number.
  void receive(int32_t movement, int32_t microbatch) {
    program.push_back({Action::Run, movement, movement, queue, microbatch});
  }
  void send(int32_t movement, int32_t microbatch) {
    if (sends == Sends::AtOnce)
      return receive(movement, microbatch);
    if (auto before = inFlight.find(movement); before != inFlight.end())
      program.push_back({Action::Wait, 0, 0, queue, 0, before->second});
    inFlight[movement] = program.size();
    program.push_back({Action::Start, movement, movement, queue, microbatch});
  }

  int64_t stages;
  int32_t microbatches;
  Sends sends;
  int32_t queue;
  RankPrograms ranks;
  Program program;
  std::map<int32_t, int32_t> inFlight; // by movement: its start
};

std::string check(const RankPrograms &ranks) {
  Verdict verdict = checkPrograms(ranks);
  EXPECT_EQ(verdict.fault.has_value(),
            findCommunicationError(expand(ranks), ranks.limits).has_value());
  return verdict.fault ? verdict.fault->toString() : "";
}

// If each send waits for its receive, stage 0 sends its second activation while
// stage 1 sends its first gradient: neither receives.
TEST(Pipelines, OneForwardOneBackwardWithSendsAtOnceIsRejected) {
  EXPECT_EQ(check(Pipeline(2, 4, Sends::AtOnce).build()),
            "ranks wait for each other without end: rank 0 (data=0,pipe=0) "
            "waits in h.0 (command 1, transfer, id 1, microbatch 1, bytes 8, "
            "group 0 1); rank 1 (data=0,pipe=1) waits in gradient of h.0 "
            "(command 1, transfer, id 2, microbatch 0, bytes 8, group 1 0)");
}

// Two ranks are enough to show it, however long the pipeline is.
TEST(Pipelines, TheCounterexampleIsTheShortest) {
  for (int64_t stages = 2; stages <= 8; ++stages)
    for (int32_t microbatches = 2; microbatches <= 12; ++microbatches) {
      auto fault =
          checkPrograms(Pipeline(stages, microbatches, Sends::AtOnce).build())
              .fault;
      ASSERT_TRUE(fault) << stages << " stages, " << microbatches;
      EXPECT_EQ(fault->steps.size(), 2u);
    }
}

TEST(Pipelines, OneForwardOneBackwardWithSlotsEnds) {
  for (int64_t stages = 1; stages <= 6; ++stages)
    for (int32_t microbatches : {1, 2, 3, 8})
      EXPECT_EQ(check(Pipeline(stages, microbatches, Sends::Slots).build()), "")
          << stages << " stages, " << microbatches;
}

// A slot does not help if one queue carries both directions.
TEST(Pipelines, BothDirectionsOnOneQueueAreRejected) {
  std::string error = check(Pipeline(2, 4, Sends::Slots, 0).build());
  EXPECT_NE(error.find("in a queue behind"), std::string::npos) << error;
}

/// Two values from stage 0 to stage 1, received in the opposite order, with or
/// without channels of their own. Each has `transfers` transfers, and one can
/// be in flight.
RankPrograms crossed(bool hasChannels, int64_t transfers = 0) {
  RankPrograms ranks;
  ranks.mesh = Mesh({{"pipe", 2}});
  ranks.classAxes = {0};
  ranks.programOf = {0, 1};
  ranks.limits.operationsOfAGroup = 1;
  ranks.limits.transfers = 1;
  for (int64_t value : {0, 1}) {
    ranks.groups.push_back({{{0, 1, 2}}, {0, 1}, hasChannels ? value + 1 : 0});
    ranks.movements.push_back(
        {uint64_t(value), "transfer", {8}, "value", transfers});
  }
  ranks.programs = {{{Action::Start, 0, 0},
                     {Action::Start, 1, 1},
                     {Action::Wait, 0, 0, Command::ownQueue, 0, 0},
                     {Action::Wait, 0, 0, Command::ownQueue, 0, 1}},
                    {{Action::Run, 1, 1}, {Action::Run, 0, 0}}};
  return ranks;
}

TEST(Pipelines, ChannelsOrderNothingAmongEachOther) {
  EXPECT_EQ(check(crossed(true)), "");
  EXPECT_NE(check(crossed(false)), "");
}

TEST(Pipelines, WhatHasRoomOfItsOwnIsNeverTooMuchInFlight) {
  EXPECT_EQ(check(crossed(true, 0)), "");
  EXPECT_NE(check(crossed(true, 1)), "");
}

TEST(Pipelines, ChangesOfOneStageAreFound) {
  const RankPrograms good = Pipeline(3, 4, Sends::Slots).build();
  for (size_t stage = 0; stage < 3; ++stage)
    for (size_t i = 0; i < good.programs[stage].size(); ++i) {
      if (good.programs[stage][i].action == Action::Wait)
        continue;
      RankPrograms microbatch = good, direction = good, missing = good;
      microbatch.programs[stage][i].microbatch += 1;
      // The last collective over `data` has no partner among stages.
      if (good.programs[stage][i].group != 0)
        EXPECT_NE(check(microbatch), "") << stage << ", " << i;
      if (good.programs[stage][i].action != Action::Run ||
          good.programs[stage][i].group == 0)
        continue;
      int32_t &group = direction.programs[stage][i].group;
      group = (group - 1 ^ 1) + 1;
      EXPECT_NE(check(direction), "") << stage << ", " << i;
      Program &program = missing.programs[stage];
      program.erase(program.begin() + i);
      for (Command &command : program)
        command.started -= command.started > static_cast<int32_t>(i);
      EXPECT_NE(check(missing), "") << stage << ", " << i;
    }
}

TEST(Pipelines, OneThatNeverComesIsNamed) {
  RankPrograms ranks = Pipeline(2, 1, Sends::AtOnce).build();
  ranks.programs[1].erase(ranks.programs[1].begin() + 1);
  EXPECT_EQ(check(ranks),
            "a rank waits without end for one that never comes: rank 0 "
            "(data=0,pipe=0) runs gradient of h.0 (command 1, transfer, id 2, "
            "microbatch 0, bytes 8, group 1 0); rank 1 (data=0,pipe=1) does 0 "
            "things in this group, and nothing after that");
}

} // namespace
