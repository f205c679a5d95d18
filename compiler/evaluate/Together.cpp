// Evaluation of functions that ranks run at the same time.

#include "compiler/evaluate/RankEvaluator.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;

namespace {
/// A joint function in execution.
class Together {
public:
  Together(const JointFunction &joint, uint64_t seed)
      : joint(joint), seed(seed) {}

  std::vector<std::unique_ptr<RunningProgram>> programs;
  /// Null unless the functions are placed.
  std::unique_ptr<Exchange> exchange;
  int64_t numDevices = 1;

  LogicalResult setArguments(ArrayRef<Tensor> arguments);
  LogicalResult run();
  FailureOr<SmallVector<Tensor>> getResults();

private:
  bool runs(size_t program, int64_t device) const {
    return !exchange || exchange->programs.runs(program, device);
  }
  FailureOr<Devices> getParts(int64_t number);
  LogicalResult fillIn(const BoundaryValue &result, Devices &parts,
                       ArrayRef<bool> isThere);

  const JointFunction &joint;
  uint64_t seed;
};
} // namespace

LogicalResult Together::setArguments(ArrayRef<Tensor> arguments) {
  for (auto [program, function] : llvm::enumerate(joint.getFunctions()))
    for (BlockArgument argument :
         func::FuncOp(function).getBody().getArguments()) {
      BoundaryValue value{function, argument.getArgNumber()};
      int64_t number = joint.getNumber(value, false);
      Devices parts =
          scatterArgument(value, arguments[number], numDevices, seed + number);
      for (int64_t device = 0; device < numDevices; ++device) {
        if (!runs(program, device))
          parts[device] = {};
        else if (exchange && !parts[device].elementType)
          return value.function.emitError()
                 << "argument " << value.number << " of @"
                 << value.function.getName() << " does not live at device "
                 << device << ", which runs it";
      }
      programs[program]->setArgument(argument, parts);
    }
  return success();
}

LogicalResult Together::run() {
  if (!exchange)
    return programs.front()->run();
  return exchange->interleaving.run(
      [&](size_t program) { return programs[program]->run(); });
}

/// Fills in the result of devices whose function does not return it: a result
/// that lives on all devices may be returned by some functions only, since the
/// other ranks would have the same value.
LogicalResult Together::fillIn(const BoundaryValue &result, Devices &parts,
                               ArrayRef<bool> isThere) {
  func::FuncOp function = result.function;
  sharding::LayoutAttr layout =
      sharding::getLayout(getGlobalType(function, result.number, true));
  const rank::Programs &places = exchange->programs;
  sharding::MeshAttr mesh = places.getMesh();
  // A value with places is returned by the functions of these places.
  if (layout && !layout.getPlaces().empty()) {
    for (int64_t device = 0; device < numDevices; ++device)
      if (!isThere[device] &&
          llvm::all_of(layout.getPlaces(), [&](sharding::Place place) {
            return mesh.getCoordinate(device, mesh.getAxis(place.axis)) ==
                   place.coordinate;
          }))
        return function.emitError()
               << "result " << result.number << " of @" << function.getName()
               << " lives at device " << device
               << ", whose function does not return it";
    return success();
  }
  SmallVector<sharding::AxisRef> axes;
  for (int32_t axis : places.getAxes()) {
    axes.push_back(mesh.getAxis(axis));
    if (layout && llvm::any_of(layout.getPartialAxes(),
                               [&](auto ref) { return ref.axis == axis; }))
      return function.emitError()
             << "result " << result.number << " of @" << function.getName()
             << " is partial over " << mesh.toString(axes.back())
             << ", and some functions do not return it";
  }
  for (int64_t device = 0; device < numDevices; ++device)
    for (int64_t peer : mesh.getGroup(device, axes))
      if (!isThere[device] && isThere[peer])
        parts[device] = parts[peer];
  return success();
}

/// The devices' parts of a result.
FailureOr<Devices> Together::getParts(int64_t number) {
  Devices parts(numDevices);
  SmallVector<bool> isThere(numDevices);
  const Tensor *first = nullptr;
  BoundaryValue result = joint.getResults()[number];
  bool hasLayout = bool(
      sharding::getLayout(getGlobalType(result.function, result.number, true)));
  for (auto [program, function] : llvm::enumerate(joint.getFunctions())) {
    Operation *end = func::FuncOp(function).getBody().front().getTerminator();
    for (OpOperand &operand : end->getOpOperands()) {
      if (joint.getNumber({function, operand.getOperandNumber()}, true) !=
          number)
        continue;
      Devices own = programs[program]->getResult(operand.get());
      for (int64_t device = 0, n = own.size(); device < n; ++device) {
        if (!runs(program, device))
          continue;
        isThere[device] = true;
        parts[device] = std::move(own[device]);
        std::string reason;
        if (!first)
          first = &parts[device];
        else if (exchange && !hasLayout &&
                 !agree(parts[device], *first, reason, 0))
          return func::FuncOp(function).emitError()
                 << "returns another result " << number << " at device "
                 << device << " than others: " << reason;
      }
    }
  }
  if (exchange && failed(fillIn(result, parts, isThere)))
    return failure();
  return parts;
}

FailureOr<SmallVector<Tensor>> Together::getResults() {
  SmallVector<Tensor> results;
  for (auto [number, result] : llvm::enumerate(joint.getResults())) {
    FailureOr<Devices> parts = getParts(number);
    if (failed(parts))
      return failure();
    FailureOr<Tensor> whole = assembleResult(result, *parts);
    if (failed(whole))
      return failure();
    results.push_back(std::move(*whole));
  }
  return results;
}

FailureOr<SmallVector<Tensor>> polyrank::evaluate::evaluateTogether(
    const JointFunction &joint, ArrayRef<Tensor> arguments, uint64_t seed,
    std::optional<uint64_t> interleaving,
    llvm::function_ref<std::unique_ptr<RunningProgram>(func::FuncOp, Exchange *,
                                                       size_t)>
        make) {
  Together together(joint, seed);
  sharding::MeshAttr mesh;
  if (joint.isPlaced()) {
    mesh = joint.getPrograms().getMesh();
    together.exchange =
        std::make_unique<Exchange>(joint.getPrograms(), interleaving);
  } else {
    mesh = getMesh(joint.getFunctions().front());
  }
  together.numDevices = mesh ? mesh.getNumDevices() : 1;
  for (auto [number, function] : llvm::enumerate(joint.getFunctions()))
    together.programs.push_back(
        make(function, together.exchange.get(), number));
  for (std::unique_ptr<RunningProgram> &program : together.programs)
    if (failed(program->load()))
      return failure();
  if (failed(together.setArguments(arguments)) || failed(together.run()))
    return failure();
  return together.getResults();
}
