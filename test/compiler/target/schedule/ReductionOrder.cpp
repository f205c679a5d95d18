// The orders that targets' schedules state, and their verifier.

#include "test/compiler/target/schedule/ReductionOrder.h"

#include "compiler/target/cpu/Cpu.h"
#include "compiler/target/cuda/Cuda.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;
using kernel::LoopsOp;

LogicalResult ReductionOrder::verify(LoopsOp loops) const {
  SmallVector<int> uses(loops.getVariables().size());
  for (int64_t v : variables) {
    if (v < 0 || v >= static_cast<int64_t>(uses.size()) ||
        !loops.getVariables()[v].isReduced)
      return loops.emitOpError("[1] has an order of variable ")
             << v << ", which is not reduced";
    ++uses[v];
  }
  for (auto [v, variable] : llvm::enumerate(loops.getVariables()))
    if (variable.isReduced && uses[v] != 1)
      return loops.emitOpError("[1] has an order with reduced variable ")
             << v << " " << uses[v] << " times; it runs once";
  uint64_t sum = 0;
  for (int64_t distance : distances) {
    if (distance < 1 || !llvm::isPowerOf2_64(distance) || (sum & distance))
      return loops.emitOpError("[2] adds partial results over distance ")
             << distance << ", which is no power of two or stands twice";
    sum |= distance;
  }
  if (slots < 1 || sum + 1 != llvm::PowerOf2Ceil(slots))
    return loops.emitOpError("[2] has ")
           << slots << " partial results, and distances that add "
           << static_cast<int64_t>(sum) + 1;
  if (run < 0 || part < 0)
    return loops.emitOpError("[3] has runs of ")
           << run << " and parts of " << part << " values";
  return success();
}

FailureOr<ReductionOrder> target::getCpuOrder(LoopsOp loops) {
  auto schedule = dyn_cast_or_null<cpu::ScheduleAttr>(loops.getScheduleAttr());
  if (!schedule)
    return loops.emitOpError("has no schedule for a cpu: run lower-kernels");
  ReductionOrder order;
  order.variables.assign(schedule.getReductions().begin(),
                         schedule.getReductions().end());
  order.part = schedule.getPart();
  if (schedule.getKind() == cpu::LoopKind::Row) {
    order.variables.push_back(schedule.getVector());
    order.run = loops.getVariables()[schedule.getVector()].size;
    order.slots = schedule.getLanes();
    for (int64_t half = order.slots / 2; half >= 1; half /= 2)
      order.distances.push_back(half);
  }
  return order;
}

FailureOr<ReductionOrder> target::getCudaOrder(LoopsOp loops) {
  auto schedule = dyn_cast_or_null<cuda::ScheduleAttr>(loops.getScheduleAttr());
  if (!schedule)
    return loops.emitOpError("has no schedule for a GPU: run lower-kernels");
  ReductionOrder order;
  order.variables.assign(schedule.getReductions().begin(),
                         schedule.getReductions().end());
  order.part = schedule.getPart();
  constexpr int64_t warp = 32;
  int64_t sharing = schedule.getSharing();
  auto halve = [&](int64_t count, int64_t distance) {
    for (int64_t half = llvm::PowerOf2Ceil(count) / 2; half >= 1; half /= 2)
      order.distances.push_back(half * distance);
  };
  if (schedule.getKind() == cuda::LoopKind::Row) {
    // Lanes of a thread, threads of a warp, warps.
    int64_t lanes = schedule.getLanes();
    order.variables.push_back(schedule.getVector());
    order.slots = lanes * sharing;
    halve(lanes, 1);
    halve(std::min(sharing, warp), lanes);
    halve(llvm::divideCeil(sharing, warp), lanes * warp);
  } else if (schedule.getKind() == cuda::LoopKind::Column) {
    order.slots = sharing;
    halve(sharing, 1);
  }
  return order;
}
