// The sharding ops on one tensor per device: real data movement.

#include "compiler/evaluate/Evaluator.h"
#include "dialects/graph/Blocks.h"
#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;
using sharding::AxisRef;
using sharding::LayoutAttr;
using sharding::Movement;
using sharding::MovementKind;
using sharding::ReductionKind;

/// Executes all_gather, all_reduce, reduce_scatter, all_to_all, slice or
/// to_partial for one device: reduces or joins the group's tensors, then keeps
/// this device's block.
static Tensor move(MovementKind kind, const Movement &movement, LayoutAttr from,
                   LayoutAttr to, const Devices &devices, int64_t device) {
  sharding::MeshAttr mesh = from.getMesh();
  SmallVector<int64_t> group = mesh.getGroup(device, movement.axes);
  int64_t index = mesh.getLinearIndex(device, movement.axes);
  Tensor result = devices[device];
  SmallVector<Tensor> parts;
  for (int64_t peer : group)
    parts.push_back(devices[peer]);
  if (kind == MovementKind::AllReduce || kind == MovementKind::ReduceScatter)
    result = graph::reduce(parts, from.getPartialKind());
  if (movement.from >= 0)
    result = graph::join(parts, movement.from);
  if (movement.to >= 0)
    result = graph::blockOf(result, movement.to, group.size(), index);
  if (kind == MovementKind::ToPartial && index != 0)
    result = Tensor::splat(
        result.getType(),
        sharding::fillValue(sharding::identityFill(to.getPartialKind())));
  return result;
}

/// Returns a device whose block under `from` is what `device` holds under `to`.
static int64_t findSource(LayoutAttr from, LayoutAttr to, int64_t device) {
  sharding::MeshAttr mesh = from.getMesh();
  for (int64_t source = 0; source < mesh.getNumDevices(); ++source) {
    bool same = mesh.getLinearIndex(source, from.getPartialAxes()) ==
                mesh.getLinearIndex(device, to.getPartialAxes());
    for (sharding::Place place : to.getPlaces())
      same &= mesh.getCoordinate(source, mesh.getAxis(place.axis)) ==
              place.coordinate;
    for (auto [a, b] : llvm::zip_equal(from.getDims(), to.getDims()))
      same &= mesh.getLinearIndex(source, a.getAxes()) ==
              mesh.getLinearIndex(device, b.getAxes());
    if (same)
      return source;
  }
  return -1;
}

FailureOr<SmallVector<Devices>>
polyrank::evaluate::moveOnDevices(Operation *op, ArrayRef<Devices> operands) {
  MovementKind kind = cast<sharding::MovementOp>(op).getMovementKind();
  SmallVector<Devices> results;
  for (auto [i, input] : llvm::enumerate(operands)) {
    auto inType = cast<RankedTensorType>(op->getOperand(i).getType());
    auto outType = cast<RankedTensorType>(op->getResult(i).getType());
    LayoutAttr from = sharding::getLayout(inType),
               to = sharding::getLayout(outType);
    int64_t numDevices = from.getMesh().getNumDevices();
    Devices &output = results.emplace_back(numDevices);

    if (auto collective = sharding::getCollectiveKind(kind);
        collective && runtime::ruleOf(*collective).hasBorders()) {
      auto movement = sharding::getMovement(kind, from, to);
      if (!movement)
        return op->emitOpError("cannot take operand ")
               << i << " from " << from.toString() << " to " << to.toString();
      output = movement->to >= 0 ? moveBorders(input, to, movement->to)
                                 : moveBorders(input, from, movement->from);
      continue;
    }
    std::string reason;
    if (isa<sharding::ReshardOp>(op)) {
      FailureOr<Tensor> value = assemble(input, inType, reason);
      if (failed(value))
        return op->emitOpError() << "operand " << i << ": " << reason;
      output = scatter(*value, to, /*seed=*/i);
      continue;
    }
    if (isa<sharding::RepadOp, sharding::FillOp>(op)) {
      // Blocks change their shape or content, not their device.
      FailureOr<Devices> changed = changeBlocks(input, inType, to, reason);
      if (failed(changed))
        return op->emitOpError() << "operand " << i << ": " << reason;
      output = *changed;
      continue;
    }
    if (isa<sharding::PermuteOp>(op)) {
      for (int64_t device = 0; device < numDevices; ++device) {
        if (!input[device].elementType) // it lives on other devices
          continue;
        int64_t source = findSource(from, to, device);
        if (source < 0)
          return op->emitOpError("operand ")
                 << i << ": no device holds the block that device " << device
                 << " needs";
        output[device] = input[source];
      }
      continue;
    }
    std::optional<Movement> movement = sharding::getMovement(kind, from, to);
    if (!movement)
      return op->emitOpError("cannot take operand ")
             << i << " from " << from.toString() << " to " << to.toString();
    for (int64_t device = 0; device < numDevices; ++device)
      if (input[device].elementType) // else the value does not live here
        output[device] = move(kind, *movement, from, to, input, device);
  }
  return results;
}
