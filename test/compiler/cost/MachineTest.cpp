// Passes ask one machine: what the module states, and else the target's
// answers.

#include <gtest/gtest.h>

#include "compiler/cost/Machine.h"
#include "compiler/cost/ReachAttr.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "compiler/target/cuda/CudaTarget.h"
#include "dialects/Register.h"
#include "dialects/rank/Reach.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/device/cpu/Gemm.h"

using namespace mlir;
using namespace polyrank;

namespace {

class Machines : public testing::Test {
protected:
  Machines() {
    DialectRegistry registry;
    registerDialects(registry);
    cpu::registerTarget(registry);
    cuda::registerTarget(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  cost::Machine machineOf(const std::string &text) {
    module = parseSourceString<ModuleOp>("module attributes {" + text + "} {}",
                                         &context);
    EXPECT_TRUE(module) << text;
    return *cost::Machine::of(*module);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  Type f32 = Float32Type::get(&context), bf16 = BFloat16Type::get(&context);
};

TEST_F(Machines, AreTheDefaultTargetWithOneThreadWhereTheModuleHasNone) {
  cost::Machine machine = machineOf("");
  target::Rates rates = machine.getTarget().getRates(/*threads=*/1);
  EXPECT_EQ(machine.getTarget().getName(), "cpu");
  EXPECT_EQ(machine.getThreads(), 1);
  EXPECT_EQ(machine.getFlopsPerSecond(f32), rates.flopsPerSecond);
  EXPECT_EQ(machine.getBytesPerSecond(), rates.bytesPerSecond);
  EXPECT_EQ(machine.getLink("data"), LinkTime::of(10, 10));
}

TEST_F(Machines, AskTheTargetForAllThreadsWhatIsNotStated) {
  cost::Machine machine = machineOf(
      R"(rank.machine = #rank.machine<#cpu.target<"native">, threads = 3>)");
  target::Rates rates = machine.getTarget().getRates(/*threads=*/3);
  EXPECT_EQ(machine.getThreads(), 3);
  EXPECT_EQ(machine.getFlopsPerSecond(f32), rates.flopsPerSecond);
  EXPECT_EQ(machine.getBytesPerSecond(), rates.bytesPerSecond);
}

TEST_F(Machines, TakeAsLongForALaunchAsTheTargetWhereNoFileSaysIt) {
  EXPECT_EQ(machineOf("").getLaunchTime(), 0);
  const std::string gpu =
      R"(rank.machine = #rank.machine<#cuda.target<["sm_90a"]>>)";
  EXPECT_EQ(machineOf(gpu).getLaunchTime(), 3e6);
  cost::Reach reach;
  reach.launch = 5e6;
  module = parseSourceString<ModuleOp>("module attributes {" + gpu + "} {}",
                                       &context);
  (*module)->setAttr(rank::reachAttrName, cost::toAttribute(&context, reach));
  EXPECT_EQ(cost::Machine::of(*module)->getLaunchTime(), 5e6);
}

TEST_F(Machines, HaveARateForEachElementType) {
  cost::Machine machine = machineOf(
      R"(rank.machine = #rank.machine<#cpu.target<"native">, rates = [<f32, 120.0>]>)");
  target::Rates rates = machine.getTarget().getRates(/*threads=*/1);
  EXPECT_EQ(machine.getFlopsPerSecond(f32), 120e9);
  // A rate that is not stated follows from that of f32 and the target.
  EXPECT_EQ(machine.getFlopsPerSecond(bf16),
            120e9 * machine.getTarget().getProductSpeed(bf16));
  EXPECT_EQ(machine.getBytesPerSecond(), rates.bytesPerSecond);
}

TEST_F(Machines, MultiplyNarrowElementsAsFastAsTheirTargetDoes) {
  cost::Machine stated = machineOf(
      R"(rank.machine = #rank.machine<#cpu.target<"native">, rates = [<f32, 120.0>, <bf16, 300.0>]>)");
  EXPECT_EQ(stated.getFlopsPerSecond(bf16), 300e9);
  EXPECT_EQ(stated.getFlopsPerSecond(Float16Type::get(&context)), 120e9);
  // The instructions for bf16 belong to no level of x86-64.
  cost::Machine level =
      machineOf(R"(rank.machine = #rank.machine<#cpu.target<"x86-64-v4">>)");
  EXPECT_EQ(level.getFlopsPerSecond(bf16), level.getFlopsPerSecond(f32));
  cost::Machine own = machineOf("");
  EXPECT_EQ(own.getFlopsPerSecond(bf16),
            own.getFlopsPerSecond(f32) *
                (runtime::hasNarrowMatmul(ElementType::BF16, ElementType::F32)
                     ? 2
                     : 1));
}

TEST_F(Machines, HaveTheStatedBandwidthAndLinks) {
  cost::Machine machine = machineOf(
      R"(rank.machine = #rank.machine<#cpu.target<"native">, bandwidth = 16.0,
                                      links = [<"tensor", latency = 0.5, bandwidth = 25.0>]>)");
  EXPECT_EQ(machine.getBytesPerSecond(), 16e9);
  EXPECT_EQ(machine.getLink("tensor"), (LinkTime{500'000, 40}));
  auto name = [&](const char *text) { return StringAttr::get(&context, text); };
  auto mesh =
      sharding::MeshAttr::get(&context, {name("data"), name("tensor")}, {2, 2});
  cost::CostModel model = machine.getModel(mesh);
  EXPECT_EQ(model.getLink({mesh.getAxis(0)}), LinkTime::of(10, 10));
  EXPECT_EQ(model.getLink({mesh.getAxis(1)}), (LinkTime{500'000, 40}));
  // The slower of each, by itself.
  EXPECT_EQ(model.getLink({mesh.getAxis(0), mesh.getAxis(1)}),
            LinkTime::of(10, 10));
}

TEST_F(Machines, ReachWhatAnAttributeOfTheModuleSays) {
  cost::Reach reach;
  reach.launch = 5e6;
  reach.host = 20e6;
  reach.products = cost::ProductCurve{128, 32, 100};
  reach.levels = LinkLevels{
      8,
      {LinkTime::of(2, 200), {{1e6, 0.5}}, {CollectiveAlgorithm::Ring}},
      LinkLevel{LinkTime::of(10, 20), {}, {CollectiveAlgorithm::Tree}},
      true};
  reach.linkedAxes = {"pipe"};
  cost::Machine plain = machineOf("");
  EXPECT_EQ(cost::toAttribute(&context, cost::Reach()), DictionaryAttr());
  EXPECT_EQ(cost::getReach(*module), cost::Reach());
  EXPECT_EQ(plain.getHostTime(), 0);
  (*module)->setAttr(rank::reachAttrName, cost::toAttribute(&context, reach));
  EXPECT_TRUE(succeeded(verify(*module)));
  EXPECT_EQ(cost::getReach(*module), reach);
  cost::Machine machine = *cost::Machine::of(*module);
  EXPECT_EQ(machine.getHostTime(), 20e6);
  EXPECT_EQ(machine.getLaunchTime(), 5e6);
  EXPECT_EQ(machine.getCommandTime({0, 8e9}, f32),
            plain.getCommandTime({0, 8e9}, f32) + 5e6);
  double flops = 2.0 * 128 * 128 * 100;
  EXPECT_DOUBLE_EQ(
      machine.getCommandTime({flops, 0, cost::Product{1, 128, 128, 100}}, f32),
      33 * 2 * plain.getCommandTime({flops, 0}, f32));
}

TEST_F(Machines, ReduceOverLevelsWhereNoAxisHasALinkOfItsOwn) {
  machineOf("");
  cost::Reach reach;
  reach.levels = LinkLevels{
      4,
      {LinkTime::of(1, 1), {}, {CollectiveAlgorithm::Ring}},
      LinkLevel{LinkTime::of(10, 0.1), {}, {CollectiveAlgorithm::Ring}},
      true};
  auto name = [&](const char *text) { return StringAttr::get(&context, text); };
  auto mesh =
      sharding::MeshAttr::get(&context, {name("data"), name("tensor")}, {2, 4});
  auto microseconds = [&](ArrayRef<sharding::AxisRef> axes, int64_t sent) {
    cost::CostModel model(mesh, rank::MachineAttr(), reach);
    return model.getPicoseconds(runtime::CollectiveKind::AllReduce, axes,
                                sent) /
           1'000'000;
  };
  sharding::AxisRef data = mesh.getAxis(0), tensor = mesh.getAxis(1);
  // 4,000 bytes: test/runtime/plan/CollectiveTimeTest.cpp.
  EXPECT_EQ(microseconds({tensor}, 6000), 6 + 6);
  EXPECT_EQ(microseconds({data}, 4000), 20 + 40);
  EXPECT_EQ(microseconds({data, tensor}, 7000), 6 + 30 + 6);
  // The half of `tensor` whose members are neighbours, and the other one.
  EXPECT_EQ(microseconds({{1, 2, 2}}, 4000), 2 + 4);
  EXPECT_EQ(microseconds({{1, 1, 2}}, 4000), 2 + 4);
  // Halves of nodes: a mesh of eight neighbours has two nodes.
  reach.levels->devices = 2;
  EXPECT_EQ(microseconds({{1, 2, 2}}, 4000), 2 + 4);
  EXPECT_EQ(microseconds({{1, 1, 2}}, 4000), 20 + 40);
  // The default link of an axis that the user has linked.
  reach.linkedAxes = {"tensor"};
  EXPECT_EQ(microseconds({tensor}, 60'000), 4 * 10 + 6);
  EXPECT_EQ(microseconds({data}, 4000), 20 + 40);
}

TEST_F(Machines, ThatReachNothingKnownAreRefused) {
  auto faultOf = [&](const char *text) {
    std::string fault;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      fault = diagnostic.str();
      return success();
    });
    auto parsed = parseSourceString<ModuleOp>(
        std::string("module attributes {rank.reach = ") + text + "} {}",
        &context);
    EXPECT_FALSE(parsed) << text;
    return fault;
  };
  EXPECT_NE(faultOf("3").find("[reach 1] rank.reach is a dictionary"),
            std::string::npos);
  for (const char *wrong :
       {"{lunch = 1.0}", "{launch = -1.0}", "{host = \"fast\"}",
        "{products = array<f64: 1.0>}", "{devices = 0, node = {}}",
        "{hierarchical = 1}", "{linked = 1}",
        "{devices = 8, node = {algorithms = array<i64: 3>, latency = 1.0, "
        "per_byte = 1.0, reached = array<f64>}}",
        "{devices = 8, node = {algorithms = array<i64: 0>, latency = -1.0, "
        "per_byte = 1.0, reached = array<f64>}}",
        "{devices = 8, node = {algorithms = array<i64: 0>, latency = 1.0, "
        "per_byte = 1.0, reached = array<f64: 4.0>}}"})
    EXPECT_NE(faultOf(wrong).find("[reach 2] rank.reach says launch, host"),
              std::string::npos)
        << wrong << faultOf(wrong);
  EXPECT_NE(faultOf("{devices = 8}").find("[reach 3]"), std::string::npos);
}

} // namespace
