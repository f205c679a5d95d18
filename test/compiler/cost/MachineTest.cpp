// Passes ask one machine: what the module states, and else the target's
// answers.

#include <gtest/gtest.h>

#include "compiler/cost/Machine.h"
#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
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

} // namespace
