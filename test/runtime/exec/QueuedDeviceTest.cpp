// Nothing above the device relies on host access to its memory, or on work
// being done when a call returns: runs the same program on a CPU and on a
// device that works like a GPU.

#include "test/runtime/queued/QueuedDevice.h"
#include "runtime/device/IdleDevice.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/exec/RankProgram.h"
#include "support/arrays/Npz.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/exec/AloneCommunicator.h"
#include "test/runtime/queued/QueuedCommunicator.h"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

namespace polyrank::runtime::test {
namespace {

constexpr int64_t samples = 20;

class QueuedDeviceTest : public testing::Test {
protected:
  QueuedDeviceTest() {
    auto writer = NpzWriter::create(data);
    std::vector<float> x(samples * features), y(samples * targets);
    std::iota(x.begin(), x.end(), -7.0f);
    std::iota(y.begin(), y.end(), 1.0f);
    for (auto [name, values, width] :
         {std::tuple("x", &x, features), {"labels", &y, targets}}) {
      std::vector<int64_t> shape{samples, width};
      EXPECT_TRUE(writer->add(name, ElementType::F32, shape,
                              std::as_bytes(std::span(*values))));
    }
    EXPECT_TRUE(writer->commit());
  }

  /// The losses of three steps and the weights after them, as text.
  /// With `queues` the communicator works in the background too, and other
  /// ranks have some of what it reduces. Reads all losses.
  std::string train(Device &device, const plan::PlanT &plan, int rank,
                    std::shared_ptr<WorkQueues> queues = {},
                    std::function<void()> onStart = {}, float others = 0) {
    std::vector<uint8_t> bytes = serialise(plan);
    auto verified = verifyPlan(bytes);
    EXPECT_TRUE(verified) << verified.error().message;
    const plan::Plan &packed = **verified;
    auto alone =
        std::make_unique<AloneCommunicator>(rank, int(Mesh(packed).ranks()));
    alone->onStart = std::move(onStart);
    alone->others = others;
    std::unique_ptr<Communicator> communicator = std::move(alone);
    if (queues)
      communicator = std::make_unique<QueuedCommunicator>(
          std::move(communicator), queues, communicatorQueue);
    auto program = RankProgram::create(packed, device, *communicator, 5);
    if (!program)
      return program.error().message;
    std::vector<float> weights(features * targets);
    std::iota(weights.begin(), weights.end(), 0.5f);
    StoredSource source{
        ElementType::F32,
        [&](uint64_t offset, void *into, uint64_t length) -> Result<void> {
          std::memcpy(into,
                      reinterpret_cast<std::byte *>(weights.data()) + offset,
                      length);
          return {};
        }};
    if (auto loaded = (*program)->loadParameters({source}); !loaded)
      return loaded.error().message;
    auto rows = DataSource::open({.paths = {data},
                                  .batch = packed.samples_per_step(),
                                  .order = SampleOrder::Sequential},
                                 inputSpecsOf(packed));
    EXPECT_TRUE(rows) << rows.error().message;
    std::string text;
    for (uint64_t step = 0; step < 3; ++step) {
      if (auto filled = (*program)->fillInputs(*rows, Split::Train, step);
          !filled)
        return filled.error().message;
      if (auto ran = (*program)->runStep(step + 1); !ran)
        return ran.error().message;
      if (step == 1 && !others)
        continue; // nobody looks, and the next one waits for this one
      auto metrics = (*program)->metrics();
      if (!metrics)
        return metrics.error().message;
      for (const Metric &metric : *metrics)
        text += metric.name + "=" + std::to_string(metric.value) + "\n";
    }
    if (auto finite = (*program)->checkFinite(); !finite)
      return finite.error().message;
    for (const StoredShard &shard : (*program)->storedShards({})) {
      auto held = (*program)->download(*shard.argument->buffer());
      if (!held)
        return held.error().message;
      for (std::byte byte : held->bytes())
        text += std::to_string(std::to_integer<int>(byte)) + " ";
    }
    return text;
  }

  static std::unique_ptr<CpuDevice> cpuOf(const plan::PlanT &plan) {
    std::vector<uint8_t> bytes = serialise(plan);
    return *CpuDevice::create(*plan::GetPlan(bytes.data())->images()->Get(0),
                              std::make_shared<HostTeam>(1, true));
  }

  TemporaryDirectory directory;
  std::string data = directory / "data.npz";
};

TEST_F(QueuedDeviceTest, TrainsToTheBitsOfTheCpu) {
  std::vector<LinearModel> models(3);
  models[1].microbatches = 3, models[1].batch = 6;
  models[2].data = 2, models[2].batch = 5; // with a row of padding
  for (const LinearModel &model : models)
    for (bool meets : {true, false}) {
      plan::PlanT plan = linearPlan(model);
      // Without collectives nothing but events holds a step back.
      if (!meets) {
        std::erase_if(plan.programs[0]->segments[updateSegment]->commands,
                      [](const auto &command) {
                        return command->body.AsCollective() != nullptr;
                      });
        assignQueues(plan);
      }
      for (int rank = 0; rank < int(model.data); ++rank) {
        std::string expected = train(*cpuOf(plan), plan, rank);
        EXPECT_NE(expected.find("loss="), std::string::npos) << expected;
        for (uint64_t seed = 1; seed <= 5; ++seed) {
          std::unique_ptr<CpuDevice> cpu = cpuOf(plan);
          auto queues = makeQueues(seed);
          QueuedDevice queued(std::move(cpu), queues);
          EXPECT_EQ(train(queued, plan, rank), expected);
          EXPECT_EQ(train(queued, plan, rank, queues), expected);
        }
      }
    }
}

// Whatever begins before one of its events is over computes something else,
// unless another event orders it too.
TEST_F(QueuedDeviceTest, EachEventThatIsLeftOutShows) {
  uint64_t tried = 0;
  for (bool inFlight : {false, true})
    for (int64_t microbatches : {1, 2, 3}) {
      LinearModel model;
      model.microbatches = microbatches, model.batch = 2 * microbatches;
      plan::PlanT plan = linearPlan(model);
      if (inFlight)
        startEarly(plan, updateSegment, 0, 3, 9);
      constexpr float others = 0.5;
      std::string expected = train(*cpuOf(plan), plan, 0, {}, {}, others);
      // Per step: the first command after the inputs, the first all-reduce, the
      // sum of the loss, its all-reduce, the update, the reading of the loss,
      // the next inputs. The sum touches nothing of the all-reduce before it,
      // and all that comes after it waits for the communicator's second one.
      uint64_t crossing = 0, perStep = inFlight ? 6 : 7;
      std::set<uint64_t> orderedOtherwise;
      if (!inFlight)
        orderedOtherwise = {3};
      for (uint64_t left = 0; left <= crossing; ++left) {
        std::unique_ptr<CpuDevice> cpu = cpuOf(plan);
        auto queues = makeQueues(left, std::chrono::microseconds(200), left);
        QueuedDevice queued(std::move(cpu), queues);
        std::string trained = train(queued, plan, 0, queues, {}, others);
        crossing = std::max(crossing, queues->numCrossing());
        tried += left > 0;
        // On a busy machine it may have come between those before it.
        if (queues->ranEarly() && queues->ranLate())
          continue;
        bool isHarmless = orderedOtherwise.contains((left - 1) % perStep + 1);
        EXPECT_EQ(trained == expected, !queues->ranEarly() || isHarmless)
            << "without the events of task " << left << " of " << crossing
            << ", microbatches " << microbatches << ", in flight " << inFlight;
      }
    }
  EXPECT_GE(tried, 100u);
}

TEST_F(QueuedDeviceTest, IsThroughWithAllBeforeACollectiveStarts) {
  LinearModel model;
  model.data = 2;
  plan::PlanT plan = linearPlan(model);
  startEarly(plan, updateSegment, 0, 3, 9);
  QueuedDevice queued(cpuOf(plan), makeQueues(1));
  int starts = 0;
  std::string text = train(queued, plan, 0, {}, [&] {
    ++starts;
    EXPECT_EQ(queued.pending(), 0u);
  });
  EXPECT_NE(text.find("loss="), std::string::npos) << text;
  EXPECT_EQ(starts, 2 * 3);
}

TEST_F(QueuedDeviceTest, AnErrorInTheBackgroundIsThatOfALaterCall) {
  class Broken : public Operation {
    Result<void> run(Invocation) override { return Error{"out of paper"}; }
  } broken;
  QueuedDevice queued(cpuOf(linearPlan({})), makeQueues(1));
  auto event = queued.enqueue(broken, {}, {});
  ASSERT_TRUE(event);
  Result<void> over = event->wait();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().message, "out of paper");
}

} // namespace
} // namespace polyrank::runtime::test
