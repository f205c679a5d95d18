// The numbers of a machine file are found again in times that follow from them,
// by formulas that are written here once more.

#include "tools/polyrank-run/FitMachine.h"

#include "runtime/calibrate/Workload.h"

#include <cmath>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// Times of a machine that is exactly as a machine file can say: 100 GFLOP/s in
/// f32 and 200 in bf16, memory so fast that products never wait for it, tiles
/// of 8, of which 10 reach half of the rate, and a depth of 40 that does.
Measurements exactMachine() {
  Measurements all;
  all.devices = 4;
  auto timeOf = [](double seconds) { return Timing{seconds, 1.01 * seconds}; };
  for (auto [elements, rate] :
       {std::pair(ElementType::F32, 100e9), {ElementType::BF16, 200e9}})
    for (const ProductTrial &work : calibratedProducts(elements)) {
      double m = double(work.m), n = double(work.n), k = double(work.k),
             b = double(work.batch);
      double tiles = b * std::ceil(m / 8) * std::ceil(n / 8);
      all.products.push_back(
          {work, timeOf(2 * b * m * n * k / rate * (tiles + 10) * 64 /
                        (b * m * n) * (k + 40) / k)});
    }
  all.additions = {{{1000}, timeOf(12000 / 1e12)}};
  all.launch = timeOf(2e-6), all.host = timeOf(1e-6);
  return all;
}

/// Collectives by rings, with 3 us and 5 GB/s, of which messages of at most 1
/// MB reach a half.
void addRings(Measurements &all) {
  for (int64_t members : {2, 3, 4})
    for (CollectiveKind kind : calibratedKinds())
      for (uint64_t bytes :
           {uint64_t(120), uint64_t(1200000), uint64_t(12e6)}) {
        double rounds = kind == CollectiveKind::AllReduce ? 2 : 1;
        double bandwidth = bytes <= 1200000 ? 2.5e9 : 5e9;
        double seconds = rounds * double(members - 1) *
                         (3e-6 + double(bytes) / double(members) / bandwidth);
        all.collectives.push_back({kind, members, bytes, {seconds, seconds}});
      }
}

TEST(FitMachine, FindsTheRatesAndTheCurveOfProducts) {
  Measurements measured = exactMachine();
  FittedMachine fitted = fitMachine(measured, "a machine");
  const MachineFile &machine = fitted.machine;
  EXPECT_EQ(machine.name, "a machine");
  EXPECT_NEAR(machine.f32.value, 100, 2);
  EXPECT_NEAR(machine.bf16->value, 200, 4);
  EXPECT_FALSE(machine.f16);
  EXPECT_EQ(machine.f32.source, "measured");
  EXPECT_EQ(machine.products->tile->value, 8);
  EXPECT_NEAR(machine.products->halfTiles->value, 10, 2);
  EXPECT_NEAR(machine.products->halfDepth->value, 40, 4);
  EXPECT_EQ(machine.bandwidth.value, 1000);
  EXPECT_EQ(machine.launch->value, 2);
  EXPECT_EQ(machine.host->value, 1);
  EXPECT_EQ(machine.devices.value, 4);
  for (const FitRow &row : fitted.rows)
    EXPECT_LT(row.error(), 0.03) << row.group << ": " << row.what;
}

TEST(FitMachine, OfProductsThatWaitForMemoryKeepsTheirRate) {
  Measurements measured = exactMachine();
  // 1e9 bytes a second: all products are slower than their FLOPs.
  measured.additions[0].seconds = {12e-6, 12e-6};
  FittedMachine fitted = fitMachine(measured, "slow");
  EXPECT_EQ(fitted.machine.bandwidth.value, 1);
  double worst = 0;
  for (const FitRow &row : fitted.rows)
    worst = std::max(worst, row.error());
  EXPECT_GT(worst, 0.5); // and the summary says so
  EXPECT_NE(describeErrors(fitted.rows).find("f32 products: 20 times, met to"),
            std::string::npos)
      << describeErrors(fitted.rows);
}

TEST(FitMachine, FindsTheAlgorithmAndTheLinksOfCollectives) {
  Measurements measured = exactMachine();
  addRings(measured);
  FittedMachine fitted = fitMachine(measured, "rings");
  const MachineFile::Level &node = fitted.machine.node;
  EXPECT_EQ(node.algorithms, std::vector<std::string>{"ring"});
  EXPECT_NEAR(node.latency.value, 3, 0.1);
  EXPECT_NEAR(node.bandwidth.value, 5, 0.1);
  // The smallest size is all latency, and says nothing of bytes.
  ASSERT_EQ(node.reached.size(), 2u);
  EXPECT_EQ(node.reached[0].bytes, 1.2e6);
  EXPECT_NEAR(node.reached[0].share, 0.5, 0.01);
  EXPECT_EQ(node.reached[1].share, 1);
  for (const FitRow &row : fitted.rows)
    EXPECT_LT(row.error(), 0.03) << row.group << ": " << row.what;
}

TEST(FitMachine, WritesAFileThatSaysTheSame) {
  Measurements measured = exactMachine();
  addRings(measured);
  FittedMachine fitted = fitMachine(measured, "Xeon \"8\"");
  auto read = MachineFile::parse(fitted.machine.toText(), "m.toml");
  ASSERT_TRUE(read) << read.error().message << fitted.machine.toText();
  EXPECT_EQ(read->toText(), fitted.machine.toText());
  EXPECT_EQ(read->name, "Xeon \"8\"");
  EXPECT_EQ(read->node.reached, fitted.machine.node.reached);
  EXPECT_EQ(read->host->source, "measured");
}

TEST(FitMachine, OfOneDeviceAssumesLinks) {
  Measurements measured = exactMachine();
  measured.devices = 1;
  FittedMachine fitted = fitMachine(measured, "alone");
  EXPECT_EQ(fitted.machine.node.latency.source, "assumed");
  EXPECT_EQ(fitted.machine.node.bandwidth.source, "assumed");
  auto read = MachineFile::parse(fitted.machine.toText(), "m.toml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->devices.source, "measured");
  EXPECT_EQ(read->node.latency.source, "assumed");
}

TEST(DescribeNoise, NamesWhatVariesAndNothingElse) {
  Measurements measured = exactMachine();
  addRings(measured);
  EXPECT_EQ(describeNoise(measured), "");
  // One time of many is no noise of all.
  measured.products[0].seconds.median *= 3;
  EXPECT_EQ(describeNoise(measured), "");
  measured.launch.median = 1.5 * measured.launch.least;
  for (Measurements::Collective &one : measured.collectives)
    if (one.members == 3)
      one.seconds.median = 1.25 * one.seconds.least;
  EXPECT_EQ(describeNoise(measured),
            "launches 50 %, collectives of 3 ranks 25 %");
  EXPECT_EQ(describeNoise(measured, 0.3), "launches 50 %");
}

TEST(DescribeErrors, SaysTheMedianAndTheWorstOfEachGroup) {
  std::vector<FitRow> rows = {{"a", "one", 1, 1.1},
                              {"a", "two", 1, 0.5},
                              {"a", "three", 2, 2},
                              {"b", "four", 4, 5}};
  EXPECT_EQ(describeErrors(rows),
            "a: 3 times, met to 10 % in the median and 50 % at worst (two)\n"
            "b: 1 times, met to 25 % in the median and 25 % at worst (four)\n");
}

} // namespace
} // namespace polyrank::runtime::test
