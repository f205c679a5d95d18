// Pipeline ops on one tensor per device: from the devices of one stage to those
// of another.

#include "compiler/evaluate/Evaluator.h"
#include "dialects/graph/Blocks.h"
#include "dialects/pipeline/Pipeline.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;
using sharding::LayoutAttr;

/// Returns the device with the coordinates of `places` on their axes, and those
/// of `device` on the others.
static int64_t moveTo(sharding::MeshAttr mesh, int64_t device,
                      ArrayRef<sharding::Place> places) {
  for (sharding::Place place : places)
    device = mesh.getGroup(device, mesh.getAxis(place.axis))[place.coordinate];
  return device;
}

static Devices transfer(pipeline::TransferOp op, const Devices &input) {
  LayoutAttr from = sharding::getLayout(op.getInput()),
             to = sharding::getLayout(op.getResult());
  sharding::MeshAttr mesh = to.getMesh();
  Devices result(input.size());
  for (int64_t device = 0, n = input.size(); device < n; ++device)
    if (moveTo(mesh, device, to.getPlaces()) == device)
      result[device] = input[moveTo(mesh, device, from.getPlaces())];
  return result;
}

/// Reduces what each device has of the operands; the identity if it has none.
static Devices join(pipeline::JoinOp op, ArrayRef<Devices> inputs) {
  auto type =
      sharding::getLocalType(cast<RankedTensorType>(op.getResult().getType()));
  Devices result;
  for (size_t device = 0; device < inputs.front().size(); ++device) {
    SmallVector<Tensor> parts{Tensor::splat(
        type, sharding::fillValue(sharding::identityFill(op.getKind())))};
    for (const Devices &input : inputs)
      if (input[device].elementType)
        parts.push_back(input[device]);
    // A single part keeps its bits: adding 0 would change -0.
    result.push_back(parts.size() == 2 ? parts[1]
                                       : graph::reduce(parts, op.getKind()));
  }
  return result;
}

std::optional<Devices>
polyrank::evaluate::changeStage(Operation *op, ArrayRef<Devices> operands) {
  if (auto transferOp = dyn_cast<pipeline::TransferOp>(op))
    return transfer(transferOp, operands[0]);
  if (auto joinOp = dyn_cast<pipeline::JoinOp>(op))
    return join(joinOp, operands);
  return std::nullopt;
}
