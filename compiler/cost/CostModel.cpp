// The alpha-beta model of communication.

#include "compiler/cost/CostModel.h"

#include "runtime/plan/CollectiveTime.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cost;
using sharding::AxisRef;
using sharding::MovementKind;

int64_t polyrank::cost::getLocalBytes(RankedTensorType type) {
  RankedTensorType local = sharding::getLocalType(type);
  return local.getNumElements() *
         llvm::divideCeil(local.getElementTypeBitWidth(), 8);
}

LinkTime polyrank::cost::getLink(rank::MachineAttr machine, StringRef axis) {
  rank::LinkAttr stated = machine ? machine.getLink(axis) : rank::LinkAttr();
  if (!stated)
    return defaultLink;
  return LinkTime::of(stated.getLatency().getValueAsDouble(),
                      stated.getBandwidth().getValueAsDouble());
}

CostModel::CostModel(sharding::MeshAttr mesh, rank::MachineAttr machine)
    : mesh(mesh) {
  for (StringAttr axis : mesh.getAxisNames())
    links.push_back(cost::getLink(machine, axis));
}

CostModel::CostModel(sharding::MeshAttr mesh, rank::MachineAttr machine,
                     const Reach &reach)
    : CostModel(mesh, machine) {
  levels = reach.levels;
  for (StringAttr axis : mesh.getAxisNames())
    isLinked.push_back(llvm::is_contained(reach.linkedAxes, axis.getValue()));
}

int64_t polyrank::cost::getExecutions(Operation *op) {
  int64_t count = 1;
  while ((op = op->getParentOp()))
    if (auto region = dyn_cast<graph::MicrobatchesOp>(op))
      count *= region.getCount();
  return count;
}

int64_t polyrank::cost::getFlops(func::FuncOp function) {
  int64_t total = 0;
  function.walk([&](graph::GraphOp op) {
    if (graph::isInScan(op)) // its scan op counts it
      return;
    total += op.getCost().flops * getExecutions(op);
  });
  return total;
}

std::string polyrank::cost::explainMissingAxis(sharding::MeshAttr mesh,
                                               StringRef name) {
  std::vector<std::string> names;
  for (StringAttr other : mesh.getAxisNames())
    names.push_back(other.str());
  return "the mesh has no axis '" + name.str() + "'; it has " +
         (names.empty() ? "none" : llvm::join(names, ", ")) +
         nearestWords(name, names);
}

CostModel CostModel::countingBytes(sharding::MeshAttr mesh) {
  CostModel model(mesh);
  llvm::fill(model.links, LinkTime{0, 1});
  return model;
}

LinkTime CostModel::getLink(ArrayRef<AxisRef> axes) const {
  LinkTime slowest;
  for (AxisRef ref : axes)
    slowest = slowest.slower(links[ref.axis]);
  return slowest;
}

int64_t CostModel::getBytes(MovementKind kind, int64_t devices, int64_t before,
                            int64_t after) {
  auto collective = sharding::getCollectiveKind(kind);
  return collective ? runtime::sentBytes(*collective, devices, before, after)
                    : 0;
}

int64_t CostModel::getPicoseconds(MovementKind kind, ArrayRef<AxisRef> axes,
                                  int64_t before, int64_t after) const {
  auto collective = sharding::getCollectiveKind(kind);
  return collective ? getPicoseconds(*collective, axes,
                                     getBytes(kind, sharding::product(axes),
                                              before, after))
                    : 0;
}

int64_t CostModel::getPicoseconds(runtime::CollectiveKind kind,
                                  ArrayRef<AxisRef> axes,
                                  int64_t sentBytes) const {
  return wholePicoseconds(getExactTime(kind, axes, sentBytes));
}

GroupPlaces CostModel::getPlaces(ArrayRef<AxisRef> axes) const {
  SmallVector<GroupDim> dims;
  for (AxisRef ref : axes) {
    // The devices of a node are neighbours in the order of the last axes.
    int64_t stride = mesh.getAxisSizes()[ref.axis] / (ref.pre * ref.size);
    for (int64_t size : mesh.getAxisSizes().drop_front(ref.axis + 1))
      stride *= size;
    dims.push_back({ref.size, stride});
  }
  return GroupPlaces::of(dims, levels->devices);
}

double CostModel::getExactTime(runtime::CollectiveKind kind,
                               ArrayRef<AxisRef> axes,
                               int64_t sentBytes) const {
  auto sent = static_cast<uint64_t>(sentBytes);
  if (levels && llvm::none_of(axes, [&](const AxisRef &ref) {
        return isLinked[ref.axis];
      }))
    return runtime::exactCollectiveTime(kind, getPlaces(axes), sent, *levels);
  return runtime::exactCollectiveTime(kind, sharding::product(axes), sent,
                                      getLink(axes));
}

int64_t CostModel::getBytes(sharding::MovementOp op) {
  int64_t bytes = 0;
  if (op.getCollectiveKind())
    for (auto [i, operand, result] :
         llvm::enumerate(op->getOperandTypes(), op->getResultTypes()))
      bytes += getBytes(op.getMovementKind(),
                        sharding::product(op.getMovement(i).axes),
                        getLocalBytes(cast<RankedTensorType>(operand)),
                        getLocalBytes(cast<RankedTensorType>(result)));
  return bytes;
}
