// Commands that run several times, one iteration after the other.

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/plan/CommandText.h"
#include "runtime/plan/MemoryTimeline.h"
#include "runtime/plan/PlanReport.h"
#include "runtime/plan/StepTimeline.h"
#include "runtime/report/TraceFile.h"
#include "test/runtime/RecurrentBuilder.h"
#include "test/runtime/exec/AloneCommunicator.h"
#include "test/runtime/queued/QueuedDevice.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

constexpr uint32_t microbatches = 2;
constexpr uint64_t times = recurrentTimes, width = recurrentWidth;

LinearModel twoMicrobatches() {
  LinearModel model;
  model.microbatches = microbatches;
  return model;
}

/// Removes collectives, for a communicator without other ranks.
void removeCollectives(plan::PlanT &plan) {
  std::erase_if(plan.programs[0]->segments[updateSegment]->commands,
                [](const auto &command) {
                  return command->body.AsCollective() != nullptr;
                });
  assignQueues(plan);
}

/// Says that the products inside loops are of bf16. What is computed stays.
void sayBFloat16(plan::PlanT &plan) {
  for (const auto &segment : plan.programs[0]->segments)
    for (const auto &command : segment->commands)
      if (plan::LoopT *loop = command->body.AsLoop())
        for (const auto &nested : loop->commands)
          if (plan::CallT *call = nested->body.AsCall())
            call->factors = plan::ElementType::BF16;
}

struct Recurrent {
  explicit Recurrent(void (*change)(plan::PlanT &) = [](plan::PlanT &) {})
      : at(recurrentPlan(twoMicrobatches())) {
    change(at.plan);
    bytes = serialise(at.plan);
    auto verified = verifyPlan(bytes);
    EXPECT_TRUE(verified) << verified.error().message;
    packed = *verified;
  }

  std::unique_ptr<CpuDevice> cpu() const {
    return *CpuDevice::create(*packed->images()->Get(0),
                              std::make_shared<HostTeam>(1, true));
  }

  /// Runs steps on the device. Returns an error, or an empty text.
  std::string run(Device &device, int steps = 1) {
    communicator = std::make_unique<AloneCommunicator>(0, 1);
    program = *RankProgram::create(*packed, device, *communicator, 0);
    program->startProfile();
    for (int step = 1; step <= steps; ++step)
      if (auto ran = program->runStep(step); !ran)
        return ran.error().message;
    return "";
  }

  std::vector<float> held(uint64_t offset, uint64_t bytesHeld) const {
    auto memory = program->download(plan::BufferRef(
        offset, bytesHeld, 0, 0, 0, 0, 0, plan::Region::Private));
    EXPECT_TRUE(memory);
    std::vector<float> values(bytesHeld / 4);
    std::memcpy(values.data(), memory->data(), bytesHeld);
    return values;
  }

  RecurrentPlan at;
  std::vector<uint8_t> bytes;
  const plan::Plan *packed = nullptr;
  std::unique_ptr<AloneCommunicator> communicator;
  std::unique_ptr<RankProgram> program;
};

void expectResult(const Recurrent &recurrent) {
  std::vector<float> h(microbatches * (times + 1) * width),
      g = h, y(microbatches * times * width), reversed = y;
  for (uint64_t m = 0; m < microbatches; ++m) {
    auto state = [&](uint64_t t, uint64_t i) {
      return (m * (times + 1) + t) * width + i;
    };
    auto value = [&](uint64_t t, uint64_t i) {
      return (m * times + t) * width + i;
    };
    for (uint64_t t = 0; t < times; ++t) {
      for (uint64_t i = 0; i < width; ++i)
        h[state(t + 1, i)] = recurrent.at.xValues[value(t, i)] - h[state(t, i)];
      for (uint64_t i = 0; i < width; ++i) {
        for (uint64_t j = 0; j < width; ++j)
          y[value(t, i)] +=
              h[state(t + 1, j)] * recurrent.at.wValues[j * width + i];
        reversed[value(times - 1 - t, i)] = y[value(t, i)];
      }
    }
    for (uint64_t t = times; t-- > 0;)
      for (uint64_t i = 0; i < width; ++i)
        g[state(t, i)] = y[value(t, i)] - g[state(t + 1, i)];
  }
  const RecurrentPlan &at = recurrent.at;
  EXPECT_EQ(recurrent.held(at.h, microbatches * statesBytes), h);
  EXPECT_EQ(recurrent.held(at.y, microbatches * sequenceBytes), y);
  EXPECT_EQ(recurrent.held(at.reversed, microbatches * sequenceBytes),
            reversed);
  EXPECT_EQ(recurrent.held(at.g, microbatches * statesBytes), g);
}

TEST(Loop, GoesThroughASequenceForwardsAndBackInEachMicrobatch) {
  Recurrent recurrent;
  auto device = recurrent.cpu();
  ASSERT_EQ(recurrent.run(*device), "");
  expectResult(recurrent);
  const CommandTimes &measured = recurrent.program->times();
  EXPECT_EQ(measured.counts[int(plan::CommandBody::Loop)], 2u * microbatches);
  EXPECT_EQ(measured.counts[int(plan::CommandBody::Copy)], 0u);
}

TEST(Loop, IsInOrderOnADeviceWithQueues) {
  Recurrent recurrent;
  QueuedDevice device(recurrent.cpu(), makeQueues(1));
  ASSERT_EQ(recurrent.run(device), "");
  expectResult(recurrent);
  recurrent.program.reset();
  recurrent.communicator.reset();
}

TEST(Loop, AProfileCountsItsCommandsInAllIterations) {
  Recurrent recurrent;
  auto device = recurrent.cpu();
  ASSERT_EQ(recurrent.run(*device, 3), "");
  DeviceRates rates{1e9, 1e9};
  uint64_t copies = 0, products = 0, differences = 0;
  for (const ProfileLine &line :
       recurrent.program->profile()->lines(*recurrent.packed, rates)) {
    if (line.kind == "copy")
      copies += line.count;
    if (line.command == "gemm 1x4x4 Sgemm")
      products += line.count;
    if (line.command == "difference")
      differences += line.count;
  }
  EXPECT_EQ(copies, times * microbatches);
  EXPECT_EQ(products, times * microbatches);
  EXPECT_EQ(differences, (2 * times + 1) * microbatches);
}

TEST(Loop, AProfileComparesProductsWithTheRateOfTheirElements) {
  Recurrent recurrent(sayBFloat16);
  auto device = recurrent.cpu();
  ASSERT_EQ(recurrent.run(*device, 3), "");
  using Rates = std::map<ElementType, double>;
  EXPECT_EQ(narrowFactors(*recurrent.packed->programs()->Get(0)),
            std::vector{ElementType::BF16});
  const Profile &profile = *recurrent.program->profile();
  // Memory is so fast that FLOPs take longer.
  std::vector<ProfileLine> lines = profile.lines(
      *recurrent.packed, {1e9, 1e15, Rates{{ElementType::BF16, 4e9}}});
  uint64_t products = 0;
  for (const ProfileLine &line : lines)
    if (line.isCall && line.factors == ElementType::BF16) {
      EXPECT_EQ(line.floor, line.flops / 4e9);
      products += line.count;
    }
  EXPECT_EQ(products, times * microbatches);
  DeviceRates reached = Profile::reached(lines);
  EXPECT_EQ(reached.narrow.size(), 1u);
  EXPECT_GT(reached.flopsOf(ElementType::BF16), 0);
  std::string table = profile.table(
      *recurrent.packed, {1e9, 1e15, Rates{{ElementType::BF16, 4e9}}});
  EXPECT_NE(table.find("floor: 1.0,bf16=4.0 GFLOP/s in products"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("--rates compute="), std::string::npos) << table;
  std::string json = profile.json(*recurrent.packed, {1e9, 1e15, {}});
  EXPECT_NE(json.find("flops_per_second_bf16"), std::string::npos) << json;
}

/// A device that fails at one of the enqueued operations.
class Failing : public QueuedDevice {
public:
  Failing(std::unique_ptr<CpuDevice> cpu, uint32_t last)
      : QueuedDevice(std::move(cpu), makeQueues(1)), left(last) {}
  Result<Event> enqueue(Operation &operation, Invocation invocation,
                        Events after) override {
    if (left-- == 0)
      return Error{"out of paper"};
    return QueuedDevice::enqueue(operation, invocation, after);
  }

private:
  uint32_t left;
};

TEST(Loop, AnErrorNamesTheIteration) {
  Recurrent recurrent;
  // Five commands are before the loop, which has three.
  Failing device(recurrent.cpu(), 5 + 3 * 2 + 2);
  EXPECT_EQ(recurrent.run(device),
            "step 1, segment 'first', microbatch 0, lstm: iteration 2, flip: "
            "out of paper");
  while (device.pending() != 0) // which uses the program's operations
    std::this_thread::yield();
  recurrent.program.reset();
  recurrent.communicator.reset();
}

TEST(Loop, ReportsCountItsCommandsInAllIterations) {
  Recurrent recurrent;
  LoadedPlan plan = load(recurrent.at.plan);
  PlanReport report = reportOf(plan),
             without = reportOf(load(linearPlan(twoMicrobatches())));
  uint64_t all = times * microbatches;
  EXPECT_EQ(report.loops, 2u * microbatches);
  EXPECT_EQ(report.copies, all);
  EXPECT_EQ(report.launches, without.launches + 2 * all);
  EXPECT_EQ(report.allCalls().calls, without.allCalls().calls + all);
  EXPECT_EQ(report.allCalls().flops,
            without.allCalls().flops + 2 * width * width * all);
  const plan::Command &loop =
      *plan.program().segments()->Get(firstSegment)->commands()->Get(5);
  EXPECT_EQ(describeWork(*plan.plan, loop), "loop x 5");
  EXPECT_TRUE(isComputed(loop));
  PlanTimeline timeline = planTimelineOf(plan);
  EXPECT_EQ(timeline.makespan, 7000 * int64_t(microbatches));
  EXPECT_EQ(timeline.programs[0].computation, timeline.makespan);
}

TEST(Loop, IsOneCommandOfATrace) {
  RecurrentPlan at = recurrentPlan(twoMicrobatches());
  removeCollectives(at.plan);
  LoadedPlan plan = load(at.plan);
  auto device = *CpuDevice::create(*plan.plan->images()->Get(0),
                                   std::make_shared<HostTeam>(1, true));
  AloneCommunicator communicator(0, 1);
  auto program = *RankProgram::create(*plan.plan, *device, communicator, 0);
  Trace trace(plan, 0);
  program->startTrace(trace);
  ASSERT_TRUE(program->runStep(1));
  std::string text = trace.prologue(/*rehearsed=*/false, /*links=*/{});
  ASSERT_TRUE(trace.write([&](std::string_view piece) -> Result<void> {
    text += piece;
    return {};
  }));
  text += Trace::epilogue();
  EXPECT_NE(text.find("\"name\":\"lstm\",\"cat\":\"loop\",\"args\":{\"op\":"
                      "\"lstm\",\"command\":\"loop x 5\""),
            std::string::npos)
      << text;
  TemporaryDirectory directory;
  writeFile(directory / "trace.json", text.data(), text.size());
  auto read = readTrace(directory / "trace.json", plan);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->steps.size(), 1u);
  EXPECT_EQ(read->steps[0][0].size(), 7u + 6u + 2u);
}

// All of it is one sleep.
TEST(Loop, ARehearsalSleepsThroughAllIterations) {
  Recurrent recurrent;
  removeCollectives(recurrent.at.plan);
  for (auto &command :
       recurrent.at.plan.programs[0]->segments[firstSegment]->commands)
    if (command->body.AsLoop())
      command->picoseconds = 20'000'000'000;
  LoadedPlan plan = load(recurrent.at.plan);
  auto device = recurrent.cpu();
  AloneCommunicator communicator(0, 1);
  Rehearsal rehearsal(plannedTimesOf(plan)[0], communicator);
  auto program = *RankProgram::create(*plan.plan, *device, communicator, 0, {},
                                      &rehearsal);
  ASSERT_TRUE(program->runStep(1));
  const CommandTimes &measured = program->times();
  EXPECT_EQ(measured.counts[int(plan::CommandBody::Loop)], 2u * microbatches);
  EXPECT_GE(measured.nanoseconds[int(plan::CommandBody::Loop)], 39'000'000u);
}

// All rows are held from the loop that writes them to the last one that reads
// them.
TEST(Loop, HoldsWhatAllItsIterationsWrite) {
  Recurrent recurrent;
  MemoryTimeline timeline = timelineOf(load(recurrent.at.plan));
  auto has = [&](uint64_t offset, uint64_t size, uint32_t first,
                 uint32_t last) {
    return std::any_of(
        timeline.held.begin(), timeline.held.end(), [&](const HeldBytes &held) {
          return !held.isFixed && held.region == plan::Region::Private &&
                 held.offset == offset && held.size == size &&
                 held.first == first && held.last == last;
        });
  };
  // The first microbatch's.
  EXPECT_TRUE(has(recurrent.at.h + rowBytes, sequenceBytes, 5, 5));
  EXPECT_TRUE(has(recurrent.at.y, sequenceBytes, 5, 6));
  EXPECT_TRUE(has(recurrent.at.reversed, sequenceBytes, 5, 5));
  EXPECT_TRUE(has(recurrent.at.g, sequenceBytes, 6, 6));
}

} // namespace
} // namespace polyrank::runtime::test
