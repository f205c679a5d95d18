// The time of an op follows from its local shapes.

#include "compiler/cost/OpTime.h"

#include <gtest/gtest.h>

#include "compiler/target/cpu/CpuTarget.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace polyrank;

namespace {

class OpTimes : public testing::Test {
protected:
  OpTimes() {
    DialectRegistry registry;
    registerDialects(registry);
    cpu::registerTarget(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  /// The microseconds of the last op of a function with these arguments, on a
  /// machine of 1 GFLOP/s and 1 GB/s, whose links have 5 us and 1 GB/s.
  double timeOf(const std::string &arguments, const std::string &ops) {
    const std::string before = R"(
#mesh = #sharding.mesh<["data"=2, "tensor"=4]>
!whole = tensor<16x32xf32, #sharding.layout<#mesh, [{}, {}]>>
!rows = tensor<16x32xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!columns = tensor<16x32xf32, #sharding.layout<#mesh, [{}, {"tensor"}]>>
!square = tensor<16x16xf32, #sharding.layout<#mesh, [{"data"}, {}]>>
!table = tensor<1000x32xf32, #sharding.layout<#mesh, [{}, {}]>>
!ids = tensor<16xi64, #sharding.layout<#mesh, [{}]>>
module attributes {rank.machine = #rank.machine<links = [<"data", latency = 5.0, bandwidth = 1.0>,
    <"tensor", latency = 5.0, bandwidth = 1.0>], rates = [<f32, 1.0>], bandwidth = 1.0>} {
func.func @f()";
    module = parseSourceString<ModuleOp>(
        before + arguments + ") {\n" + ops + "\nreturn\n}\n}", &context);
    EXPECT_TRUE(module) << ops;
    if (!module)
      return -1;
    cost::Machine machine = *cost::Machine::of(*module);
    Block &body = (*module->getOps<func::FuncOp>().begin()).getBody().front();
    Operation *op = body.getTerminator()->getPrevNode();
    sharding::MeshAttr mesh = sharding::getLayout(op->getOperand(0)).getMesh();
    cost::CostModel model = machine.getModel(mesh);
    return 1e-6 * cost::getOpTime(op, machine, &model);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

TEST_F(OpTimes, OfAnElementwiseOpIsThatOfItsLocalBytes) {
  EXPECT_NEAR(timeOf("%x: !whole", "%y = graph.add %x, %x : !whole"),
              3 * 16 * 32 * 4 * 1e-3, 1e-9);
  EXPECT_NEAR(timeOf("%x: !rows", "%y = graph.add %x, %x : !rows"),
              3 * 8 * 32 * 4 * 1e-3, 1e-9);
  EXPECT_NEAR(timeOf("%x: !columns", "%y = graph.add %x, %x : !columns"),
              3 * 16 * 8 * 4 * 1e-3, 1e-9);
}

TEST_F(OpTimes, OfAProductIsThatOfItsShareOfTheFlops) {
  // 2 * 16 * 16 * 32 FLOPs; the rows of one operand are split over two.
  EXPECT_NEAR(
      timeOf("%x: !rows, %w: !whole",
             "%y = graph.matmul %x, %w batch [] x [] contract [1] x [1] "
             ": (!rows, !whole) -> !square"),
      2 * 16 * 16 * 32 * 1e-3 / 2, 1e-9);
}

TEST_F(OpTimes, OfALookupIsThatOfTheRowsThatItReads) {
  EXPECT_NEAR(timeOf("%t: !table, %i: !ids",
                     "%y = graph.gather %t, %i {axis = 0 : i64, batch_dims = 0 "
                     ": i64} : (!table, !ids) -> !whole"),
              2 * 16 * 32 * 4 * 1e-3, 1e-9);
}

TEST_F(OpTimes, OfWhatComputesNothingIsNothing) {
  EXPECT_EQ(timeOf("%x: !whole", "%y = graph.reshape %x : (!whole) -> !whole"),
            0);
}

TEST_F(OpTimes, OfACollectiveIsThatOfItsLinks) {
  // Each of 4 has 16 x 8 values and sends three times as much, in two rounds.
  EXPECT_NEAR(timeOf("%x: !columns",
                     "%y = sharding.all_gather %x : (!columns) -> !whole"),
              10 + 3 * 16 * 8 * 4 * 1e-3, 1e-9);
  // Each device takes its part of what it has.
  EXPECT_EQ(timeOf("%x: !whole", "%y = sharding.slice %x : (!whole) -> !rows"),
            0);
}

} // namespace
