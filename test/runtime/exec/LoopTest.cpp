// Commands that run several times, one iteration after the other.

#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/plan/CommandText.h"
#include "runtime/plan/MemoryTimeline.h"
#include "runtime/plan/PlanReport.h"
#include "runtime/plan/StepTimeline.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/PlanParts.h"
#include "test/runtime/device/QueuedDevice.h"
#include "test/runtime/exec/AloneTransport.h"

#include <cstring>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

constexpr uint32_t times = 5, microbatches = 2;
constexpr int64_t width = 4;
constexpr uint64_t row = 4 * width; // bytes
/// States have one row more than there are times.
constexpr uint64_t sequence = row * times, states = row * (times + 1);

plan::BufferRef moving(uint64_t offset, int64_t each, uint64_t stride) {
  return plan::BufferRef(offset, row, stride, 0, each, 0, 0,
                         plan::Region::Private);
}

/// What the loops read and write, in bytes of the private region, each for all
/// microbatches.
struct Places {
  uint64_t x, h, w, y, reversed, g, end;
};

/// In each microbatch, as a recurrent layer does: h[t + 1] = x[t] - h[t], y[t] =
/// h[t + 1] W and a copy of y from its end; then, from the last time on, g[t] =
/// y[t] - g[t + 1].
plan::PlanT recurrentPlan(Places &at, std::vector<float> &x,
                          std::vector<float> &w) {
  LinearModel model;
  model.microbatches = microbatches;
  plan::PlanT plan = linearPlan(model);
  plan::ProgramT &program = *plan.programs[0];
  uint64_t end = program.private_size;
  auto take = [&](uint64_t bytes) {
    uint64_t begin = end;
    end += (bytes + 63) / 64 * 64;
    return begin;
  };
  at.x = take(microbatches * sequence), at.h = take(microbatches * states);
  at.w = take(row * width), at.y = take(microbatches * sequence);
  at.reversed = take(microbatches * sequence);
  at.g = take(microbatches * states);
  at.end = program.private_size = end;
  for (uint64_t i = 0; i < microbatches * times * width; ++i)
    x.push_back(float(i % 7) - 2);
  for (uint64_t i = 0; i < width * width; ++i)
    w.push_back(float(i % 5) - 1);
  for (auto [offset, values] : {std::pair(at.x, &x), {at.w, &w}}) {
    auto constant = std::make_unique<plan::ConstantT>();
    constant->data.resize(4 * values->size());
    std::memcpy(constant->data.data(), values->data(), constant->data.size());
    constant->buffer = std::make_unique<plan::BufferRef>(
        offset, constant->data.size(), 0, 0, 0, 0, 0, plan::Region::Private);
    program.constants.push_back(std::move(constant));
  }

  plan::LoopT forward, backward;
  forward.count = backward.count = times;
  int64_t next = int64_t(row);
  plan::BufferRef matrix(at.w, row * width, 0, 0, 0, 0, 0,
                         plan::Region::Private);
  plan::BufferRef y = moving(at.y, next, sequence);
  forward.commands.push_back(
      command(launch(difference, width,
                     {moving(at.x, next, sequence), moving(at.h, next, states)},
                     {moving(at.h + row, next, states)}),
              "cell"));
  forward.commands.push_back(
      command(gemm(1, width, width, moving(at.h + row, next, states), false,
                   matrix, y, 0),
              "cell"));
  plan::CopyT copy;
  copy.element = 4, copy.inner = width;
  copy.input = copyOf(y);
  copy.output = copyOf(moving(at.reversed + sequence - row, -next, sequence));
  forward.commands.push_back(command(std::move(copy), "flip"));
  backward.commands.push_back(
      command(launch(difference, width,
                     {moving(at.y + sequence - row, -next, sequence),
                      moving(at.g + states - row, -next, states)},
                     {moving(at.g + sequence - row, -next, states)}),
              "cell.gradient"));
  for (int segment : {firstSegment, nextSegment}) {
    auto &commands = program.segments[segment]->commands;
    commands.push_back(command(plan::LoopT(forward), "lstm"));
    commands.back()->picoseconds = 7000;
    commands.push_back(command(plan::LoopT(backward), "lstm.gradient"));
    commands.back()->phase = plan::Phase::Backward;
  }
  return plan;
}

struct Recurrent {
  Recurrent() : plan(recurrentPlan(at, x, w)), bytes(serialise(plan)) {
    auto verified = verifyPlan(bytes);
    EXPECT_TRUE(verified) << verified.error().message;
    packed = *verified;
  }

  std::unique_ptr<CpuDevice> cpu() const {
    return *CpuDevice::create(*packed->kernels(), {});
  }

  /// Runs steps on the device; empty, or what went wrong.
  std::string run(Device &device, int steps = 1) {
    transport = std::make_unique<AloneTransport>(
        0, 1,
        *device.allocate(packed->programs()->Get(0)->shared_size(),
                         arenaAlignment));
    program = *RankProgram::create(*packed, device, *transport, 0);
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

  Places at;
  std::vector<float> x, w;
  plan::PlanT plan;
  std::vector<uint8_t> bytes;
  const plan::Plan *packed = nullptr;
  std::unique_ptr<AloneTransport> transport;
  std::unique_ptr<RankProgram> program;
};

void expectResult(const Recurrent &recurrent) {
  std::vector<float> h(microbatches * (times + 1) * width), g = h,
      y(microbatches * times * width), reversed = y;
  for (uint64_t m = 0; m < microbatches; ++m) {
    auto state = [&](uint64_t t, uint64_t i) {
      return (m * (times + 1) + t) * width + i;
    };
    auto value = [&](uint64_t t, uint64_t i) {
      return (m * times + t) * width + i;
    };
    for (uint64_t t = 0; t < times; ++t) {
      for (uint64_t i = 0; i < width; ++i)
        h[state(t + 1, i)] = recurrent.x[value(t, i)] - h[state(t, i)];
      for (uint64_t i = 0; i < width; ++i) {
        for (uint64_t j = 0; j < width; ++j)
          y[value(t, i)] += h[state(t + 1, j)] * recurrent.w[j * width + i];
        reversed[value(times - 1 - t, i)] = y[value(t, i)];
      }
    }
    for (uint64_t t = times; t-- > 0;)
      for (uint64_t i = 0; i < width; ++i)
        g[state(t, i)] = y[value(t, i)] - g[state(t + 1, i)];
  }
  const Places &at = recurrent.at;
  EXPECT_EQ(recurrent.held(at.h, microbatches * states), h);
  EXPECT_EQ(recurrent.held(at.y, microbatches * sequence), y);
  EXPECT_EQ(recurrent.held(at.reversed, microbatches * sequence), reversed);
  EXPECT_EQ(recurrent.held(at.g, microbatches * states), g);
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
  QueuedDevice device(recurrent.cpu());
  ASSERT_EQ(recurrent.run(device), "");
  expectResult(recurrent);
  recurrent.program.reset();
  recurrent.transport.reset();
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

/// Gives up at one of what is enqueued.
class Failing : public QueuedDevice {
public:
  Failing(std::unique_ptr<CpuDevice> cpu, uint32_t last)
      : QueuedDevice(std::move(cpu)), left(last) {}
  Result<QueueTicket> enqueue(Operation &operation, Turn turn,
                              QueueTicket after) override {
    if (left-- == 0)
      return Error{"out of paper"};
    return QueuedDevice::enqueue(operation, turn, after);
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
  recurrent.program.reset();
  recurrent.transport.reset();
}

TEST(Loop, ReportsCountItsCommandsInAllIterations) {
  Recurrent recurrent;
  LoadedPlan plan = load(recurrent.plan);
  PlanReport report = reportOf(plan), without = reportOf(load([] {
    LinearModel model;
    model.microbatches = microbatches;
    return linearPlan(model);
  }()));
  uint64_t all = times * microbatches;
  EXPECT_EQ(report.loops, 2u * microbatches);
  EXPECT_EQ(report.copies, all);
  EXPECT_EQ(report.launches, without.launches + 2 * all);
  EXPECT_EQ(report.gemms, without.gemms + all);
  EXPECT_EQ(report.gemmFlops,
            without.gemmFlops + 2 * width * width * all);
  const plan::Command &loop =
      *plan.program().segments()->Get(firstSegment)->commands()->Get(5);
  EXPECT_EQ(describeWork(*plan.plan, loop), "loop x 5");
  EXPECT_TRUE(isComputed(loop));
  PlanTimeline timeline = planTimelineOf(plan);
  EXPECT_EQ(timeline.makespan, 7000 * int64_t(microbatches));
  EXPECT_EQ(timeline.programs[0].computation, timeline.makespan);
}

// From the loop that writes them to the last one that reads them, all rows.
TEST(Loop, HoldsWhatAllItsIterationsWrite) {
  Recurrent recurrent;
  MemoryTimeline timeline = timelineOf(load(recurrent.plan));
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
  EXPECT_TRUE(has(recurrent.at.h + row, sequence, 5, 5));
  EXPECT_TRUE(has(recurrent.at.y, sequence, 5, 6));
  EXPECT_TRUE(has(recurrent.at.reversed, sequence, 5, 5));
  EXPECT_TRUE(has(recurrent.at.g, sequence, 6, 6));
}

} // namespace
} // namespace polyrank::runtime::test
