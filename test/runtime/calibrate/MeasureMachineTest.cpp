// What a rank measures, and how it reports it.

#include "runtime/calibrate/MeasureMachine.h"

#include "runtime/calibrate/Calibrate.h"
#include "runtime/calibrate/Workload.h"
#include "runtime/device/MakeDevice.h"
#include "support/Cores.h"
#include "test/runtime/exec/AloneCommunicator.h"

#include <gtest/gtest.h>
#include <set>

namespace polyrank::runtime::test {
namespace {

TEST(Timing, IsTheLeastAndTheMedianInAnyOrder) {
  Timing timing = Timing::of({3, 1, 2, 10, 4});
  EXPECT_EQ(timing.least, 1);
  EXPECT_EQ(timing.median, 3);
  EXPECT_EQ(timing.spread(), 2);
  EXPECT_EQ(Timing::of({5}), (Timing{5, 5}));
}

TEST(Measurements, ArriveAtTheLauncherAsTheRankReportedThem) {
  Measurements sent;
  sent.devices = 3, sent.threads = 4;
  sent.launch = {1, 2}, sent.host = {3, 4};
  sent.products = {
      {{ElementType::BF16, ElementType::F32, 2, 3, 4, 5, true, false}, {6, 7}}};
  sent.additions = {{{8}, {9, 10}}};
  sent.collectives = {{CollectiveKind::AllGather, 3, 1020, {11, 12}}};
  auto got =
      nlohmann::json::parse(nlohmann::json(sent).dump()).get<Measurements>();
  EXPECT_EQ(nlohmann::json(got), nlohmann::json(sent));
  EXPECT_EQ(got.devices, 3);
  EXPECT_EQ(got.threads, 4);
  EXPECT_EQ(got.host, (Timing{3, 4}));
  ASSERT_EQ(got.products.size(), 1u);
  const ProductTrial &work = got.products[0].work;
  EXPECT_EQ(work.elements, ElementType::BF16);
  EXPECT_EQ(work.result, ElementType::F32);
  EXPECT_EQ(work.batch * 1000 + work.m * 100 + work.n * 10 + work.k, 2345);
  EXPECT_TRUE(work.transposeA && !work.transposeB);
  EXPECT_EQ(got.additions[0].work.elements, 8);
  EXPECT_EQ(got.collectives[0].kind, CollectiveKind::AllGather);
  EXPECT_EQ(got.collectives[0].bytes, 1020u);
}

TEST(Measurements, OfOneDeviceHaveAllButCollectives) {
  flatbuffers::FlatBufferBuilder builder;
  plan::PlanT made = makeLaunchPlan(1, 1);
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &made));
  const plan::Plan &plan = *plan::GetPlan(builder.GetBufferPointer());
  std::shared_ptr<const HostTeam> team = makeTeam(plan);
  auto device = makeDevice(plan, *plan.programs()->Get(0), team);
  ASSERT_TRUE(device) << device.error().message;
  AloneCommunicator communicator(0, 1);
  std::set<std::string> shown;
  double last = 0;
  auto measured = measureMachine({plan, **device, communicator, team},
                                 {0.001, [&](double share, const auto &what) {
                                    EXPECT_GE(share, last);
                                    EXPECT_LE(share, 1);
                                    last = share;
                                    shown.insert(what);
                                  }});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(shown,
            (std::set<std::string>{"f32 products", "bf16 products",
                                   "f16 products", "memory", "commands"}));
  EXPECT_EQ(measured->devices, 1);
  EXPECT_TRUE(measured->collectives.empty());
  EXPECT_EQ(measured->products.size(),
            3 * calibratedProducts(ElementType::F32).size());
  auto isTime = [](const Timing &timing, double most) {
    return timing.least > 1e-10 && timing.least <= timing.median &&
           timing.median < most;
  };
  for (const auto &[work, seconds] : measured->products)
    EXPECT_TRUE(isTime(seconds, 10))
        << work.m << " " << work.n << " " << work.k;
  ASSERT_EQ(measured->additions.size(), 1u);
  EXPECT_TRUE(isTime(measured->additions[0].seconds, 10));
  // Times of one command, not of a step.
  EXPECT_TRUE(isTime(measured->launch, 1e-4)) << measured->launch.least;
  EXPECT_TRUE(isTime(measured->host, 1e-4)) << measured->host.least;
}

TEST(CountDevices, GivesEachThreadACore) {
  int cores = usableCores();
  EXPECT_EQ(*countDevices(1), cores);
  EXPECT_EQ(*countDevices(cores), 1);
  auto none = countDevices(cores + 1);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("--threads " + std::to_string(cores + 1)),
            std::string::npos)
      << none.error().message;
}

} // namespace
} // namespace polyrank::runtime::test
