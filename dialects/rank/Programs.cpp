// The functions of a module, and which ranks run each of them.

#include "dialects/rank/Programs.h"

#include "runtime/plan/Channels.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

static DictionaryAttr getPlace(Operation *function) {
  return function->getAttrOfType<DictionaryAttr>(placeAttrName);
}

sharding::MeshAttr rank::getMesh(func::FuncOp function) {
  sharding::MeshAttr mesh;
  function.walk([&](Operation *op) {
    if (auto collective = dyn_cast<CollectiveOp>(op))
      mesh = collective.getAxes().getMesh();
    else if (auto transfer = getTransfer(op))
      mesh = transfer->axes.getMesh();
    return mesh ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (mesh)
    return mesh;
  for (auto attributes :
       {function.getArgAttrsAttr(), function.getResAttrsAttr()})
    if (attributes)
      attributes.walk([&](sharding::MeshAttr found) { mesh = found; });
  return mesh;
}

std::optional<int64_t> rank::getCoordinate(Operation *function,
                                           sharding::MeshAttr mesh,
                                           int32_t axis) {
  DictionaryAttr place = getPlace(function);
  auto coordinate =
      place ? place.getAs<IntegerAttr>(mesh.getAxisNames()[axis].getValue())
            : IntegerAttr();
  return coordinate ? std::optional(coordinate.getInt()) : std::nullopt;
}

bool rank::runsOn(Operation *function, sharding::MeshAttr mesh,
                  int64_t device) {
  for (int32_t axis = 0, e = mesh.getAxisNames().size(); axis < e; ++axis)
    if (auto coordinate = getCoordinate(function, mesh, axis))
      if (*coordinate != mesh.getCoordinate(device, mesh.getAxis(axis)))
        return false;
  return true;
}

bool rank::spansPrograms(CollectiveOp op) {
  auto function = op->getParentOfType<func::FuncOp>();
  AxesAttr axes = op.getAxes();
  return llvm::any_of(axes.getAxes(), [&](sharding::AxisRef ref) {
    return getCoordinate(function, axes.getMesh(), ref.axis).has_value();
  });
}

std::optional<Transfer> rank::getTransfer(Operation *op) {
  auto get = [](auto end, Type type, bool isSend) {
    Transfer transfer;
    transfer.axes = end.getAxes();
    transfer.from = end.getFrom();
    transfer.to = end.getTo();
    transfer.id = end.getId();
    transfer.slots = end.getSlots();
    transfer.type = cast<RankedTensorType>(type);
    transfer.isSend = isSend;
    return transfer;
  };
  if (auto send = dyn_cast<SendOp>(op))
    return get(send, send.getInput().getType(), true);
  if (auto receive = dyn_cast<RecvOp>(op))
    return get(receive, receive.getOutput().getType(), false);
  return std::nullopt;
}

bool Programs::runs(int64_t number, int64_t device) const {
  return runsOn(functions[number], mesh, device);
}

FailureOr<Programs> Programs::of(ModuleOp module) {
  Programs programs;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && getPlace(function))
      programs.functions.push_back(function);
  for (func::FuncOp function : programs.functions) {
    sharding::MeshAttr mesh = rank::getMesh(function);
    if (programs.mesh && mesh && mesh != programs.mesh)
      return function.emitError()
             << "@" << function.getName() << " communicates over " << mesh
             << ", another function over " << programs.mesh;
    programs.mesh = mesh ? mesh : programs.mesh;
  }
  if (programs.empty())
    return programs;
  func::FuncOp first = programs.functions.front();
  if (!programs.mesh)
    return first.emitError() << "has the place " << getPlace(first)
                             << " and nothing that says of which mesh";
  sharding::MeshAttr mesh = programs.mesh;
  int64_t count = 1; // of coordinates
  for (NamedAttribute coordinate : getPlace(first)) {
    int32_t axis = mesh.lookup(coordinate.getName());
    if (axis < 0)
      return first.emitError()
             << "has a place on the axis " << coordinate.getName() << ", which "
             << mesh << " has not";
    programs.axes.push_back(axis);
    count *= mesh.getAxisSizes()[axis];
  }
  llvm::sort(programs.axes);
  programs.functionOf.assign(count, -1);
  for (auto [number, function] : llvm::enumerate(programs.functions)) {
    DictionaryAttr place = getPlace(function);
    int64_t index = 0;
    bool isPlace = place.size() == programs.axes.size();
    for (int32_t axis : programs.axes) {
      auto coordinate = getCoordinate(function, mesh, axis);
      int64_t size = mesh.getAxisSizes()[axis];
      isPlace &= coordinate && *coordinate >= 0 && *coordinate < size;
      index = index * size + coordinate.value_or(0);
    }
    if (!isPlace)
      return function.emitError()
             << "has the place " << place
             << ", which is no coordinate along the axes of the place "
             << getPlace(first) << " in " << mesh;
    if (int32_t other = programs.functionOf[index]; other >= 0)
      return function.emitError() << "has the place " << place << ", as @"
                                  << programs.functions[other].getName()
                                  << " has; a rank runs one function";
    programs.functionOf[index] = number;
  }
  for (int32_t number : programs.functionOf)
    if (number < 0)
      return first.emitError()
             << "is one of " << programs.functions.size() << " functions for "
             << count << " coordinates of " << mesh
             << ": some ranks have nothing to run";
  return programs;
}

int64_t rank::getChannelBytes(func::FuncOp function) {
  int64_t sum = 0;
  llvm::DenseSet<int64_t> ids;
  function.walk([&](SendOp send) {
    if (ids.insert(send.getId()).second)
      sum += static_cast<int64_t>(runtime::channelBytesOf(
          static_cast<uint64_t>(getByteSize(send.getInput().getType())),
          static_cast<uint64_t>(send.getSlots())));
  });
  return sum;
}
