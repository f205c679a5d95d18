// The parts of a row of bytes that ranks take. What is assembled is compared in
// RunTest.cpp and by the tests of saved files.

#include "runtime/exec/AssembleWeights.h"

#include "runtime/device/cpu/CpuDevice.h"
#include "test/runtime/PlanBuilder.h"
#include "test/runtime/exec/AloneCommunicator.h"

#include <barrier>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

namespace polyrank::runtime {
namespace {

TEST(WeightAssembler, PartsOfTheRanksCoverAllBytesOnceInWholePages) {
  constexpr uint64_t page = 4096, mib = 1 << 20;
  for (int ranks : {1, 2, 3, 7, 64})
    for (uint64_t begin : {uint64_t(0), uint64_t(1), 3 * page, 32 * mib + 72})
      for (uint64_t length : {uint64_t(0), uint64_t(1), page, 5 * mib,
                              32 * mib - 72, 33 * mib + 9}) {
        uint64_t at = begin, end = begin + length;
        for (int rank = 0; rank < ranks; ++rank) {
          auto [from, to] = WeightAssembler::partOf(begin, end, rank, ranks);
          EXPECT_EQ(from, at);
          EXPECT_GE(to, from);
          EXPECT_TRUE(to % page == 0 || to == end || to == begin);
          at = to;
        }
        EXPECT_EQ(at, end) << ranks << " ranks, " << length << " bytes";
      }
}

TEST(WeightAssembler, NoRankHasMuchMoreThanTheOthers) {
  uint64_t end = 32 << 20, most = 0;
  for (int rank = 0; rank < 4; ++rank) {
    auto [from, to] = WeightAssembler::partOf(0, end, rank, 4);
    most = std::max(most, to - from);
  }
  EXPECT_LE(most, end / 4 + (128 << 10));
}

/// A rank, as a thread, of which `here` are on its machine.
class ThreadJob : public test::AloneJob {
public:
  ThreadJob(int rank, int ranks, RankRange range, std::barrier<> &meeting)
      : AloneJob(rank, ranks), range(range), meeting(meeting) {}
  RankRange here() const override { return range; }
  Result<void> barrier() override {
    meeting.arrive_and_wait();
    return {};
  }

private:
  RankRange range;
  std::barrier<> &meeting;
};

/// What machines with `each` ranks of the plan assemble of its weights, which
/// lie from byte `at` on, all added together as JobMember::gather does.
std::vector<std::byte> assembled(const plan::PlanT &plan, int each,
                                 const std::vector<float> &values,
                                 uint64_t at) {
  std::vector<uint8_t> bytes = test::serialise(plan);
  const plan::Plan &packed = *plan::GetPlan(bytes.data());
  int ranks = int(Mesh(packed).ranks());
  uint64_t size = values.size() * sizeof(float);
  StoredSource source;
  source.read = [&](uint64_t offset, void *into,
                    uint64_t length) -> Result<void> {
    std::memcpy(into, reinterpret_cast<const char *>(values.data()) + offset,
                length);
    return {};
  };
  std::vector<std::vector<std::byte>> windows(
      size_t(ranks / each), std::vector<std::byte>(at + size));
  std::barrier meeting(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto device = *CpuDevice::create(*packed.images()->Get(0),
                                       std::make_shared<HostTeam>(1, true));
      test::AloneCommunicator communicator(rank, ranks);
      auto program = *RankProgram::create(packed, *device, communicator, 0);
      ASSERT_TRUE(program->loadParameters({source}));
      Weights initial;
      StoredSource other = source; // what no rank holds, with another sign
      other.read = [&](uint64_t offset, void *into,
                       uint64_t length) -> Result<void> {
        std::vector<float> part(length / sizeof(float));
        std::memcpy(part.data(),
                    reinterpret_cast<const char *>(values.data()) + offset,
                    length);
        for (float &value : part)
          value = -value;
        std::memcpy(into, part.data(), length);
        return {};
      };
      initial.add(other, "weights", *packed.stored()->Get(0));
      int machine = rank / each;
      ThreadJob job(rank, ranks, {machine * each, each}, meeting);
      WeightAssembler assembler(
          packed, {}, *program, initial, job,
          [](int64_t range, int64_t, const RangeBody &body) { body(0, range); },
          {{at, at + size, 0, ElementType::F32}});
      EXPECT_TRUE(
          assembler.fill(0, at + size, windows[size_t(machine)].data()));
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t machine = 1; machine < windows.size(); ++machine)
    for (size_t n = 0; n < windows[0].size(); ++n) {
      EXPECT_TRUE(windows[0][n] == std::byte() ||
                  windows[machine][n] == std::byte())
          << "two machines fill byte " << n;
      windows[0][n] |= windows[machine][n];
    }
  return windows[0];
}

TEST(WeightAssembler, MachinesTogetherFillWhatOneFills) {
  std::vector<float> values(test::targets * test::features);
  std::iota(values.begin(), values.end(), 1.0f);
  // Half of the weights are in the first piece and half in the second, so
  // replicas on two machines take turns.
  uint64_t at = (128 << 10) - values.size() * sizeof(float) / 2;
  test::LinearModel model;
  model.data = model.tensor = 2;
  for (bool isWhole : {true, false}) {
    plan::PlanT plan = test::linearPlan(model);
    if (!isWhole) // two of the three columns are held
      plan.programs[0]->arguments[test::weightArgument]->dims[0]->size = 2;
    std::vector<std::byte> one = assembled(plan, 4, values, at);
    std::vector<float> got(values.size());
    std::memcpy(got.data(), one.data() + at, got.size() * sizeof(float));
    for (size_t n = 0; n < got.size(); ++n)
      EXPECT_EQ(std::abs(got[n]), values[n]);
    EXPECT_EQ(std::count_if(got.begin(), got.end(),
                            [](float value) { return value < 0; }),
              isWhole ? 0 : 4);
    EXPECT_EQ(assembled(plan, 2, values, at), one);
    EXPECT_EQ(assembled(plan, 1, values, at), one);
  }
}

} // namespace
} // namespace polyrank::runtime
