// Exchanges tensors between the programs of different ranks while they run.

#include "compiler/evaluate/Exchange.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

SmallVector<int64_t> Exchange::getDevices(size_t number) const {
  SmallVector<int64_t> devices;
  for (int64_t device = 0, n = programs.getMesh().getNumDevices(); device < n;
       ++device)
    if (programs.runs(number, device))
      devices.push_back(device);
  return devices;
}

Exchange::Meeting &
Exchange::come(size_t number, rank::CollectiveOp op, ArrayRef<int64_t> devices,
               llvm::function_ref<const Tensor &(Value, int64_t)> at) {
  const void *axes = op.getAxes().getAsOpaquePointer();
  Meeting &meeting = meetings[{axes, counts[{axes, number}]++}];
  for (int64_t device : devices) {
    Meeting::Member &member = meeting.members[device];
    member.op = op;
    for (Value operand : op->getOperands())
      member.operands.push_back(at(operand, device));
  }
  return meeting;
}

LogicalResult Exchange::awaitAll(size_t number, rank::CollectiveOp op,
                                 ArrayRef<int64_t> devices, Meeting &meeting) {
  sharding::MeshAttr mesh = programs.getMesh();
  auto forEachPeer = [&](llvm::function_ref<bool(int64_t)> visit) {
    return llvm::all_of(devices, [&](int64_t device) {
      return llvm::all_of(mesh.getGroup(device, op.getAxes().getAxes()), visit);
    });
  };
  std::string what =
      ("@" + op->getParentOfType<func::FuncOp>().getName() +
       " waits for the other members of the collective with id " +
       Twine(op.getId()))
          .str();
  if (failed(interleaving.await(number, op, what, [&] {
        return forEachPeer(
            [&](int64_t peer) { return meeting.members.count(peer) > 0; });
      })))
    return failure();
  auto doesTheSame = [&](int64_t peer) {
    rank::CollectiveOp other = meeting.members.at(peer).op;
    return other.getId() == op.getId() && other->getName() == op->getName() &&
           TypeRange(other->getOperandTypes()) ==
               TypeRange(op->getOperandTypes()) &&
           other.getReduction() == op.getReduction();
  };
  if (!forEachPeer(doesTheSame))
    return op->emitOpError("meets other collectives of its group's members");
  return success();
}
