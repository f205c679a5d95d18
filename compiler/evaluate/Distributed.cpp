// Evaluation with one tensor per device, compared with the global value after
// each op.

#include "compiler/evaluate/Evaluator.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::evaluate;
using sharding::AxisRef;

FailureOr<SmallVector<Devices>>
polyrank::evaluate::runOnDevices(graph::GraphOp op, ArrayRef<Devices> operands,
                                 sharding::MeshAttr mesh) {
  // Builds the local ops over block arguments: the operands, then one scalar
  // per list of axes for which `localize` asks an index.
  Block block;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointToEnd(&block);
  SmallVector<Value> locals;
  for (Value operand : op->getOperands())
    locals.push_back(block.addArgument(
        sharding::getLocalType(cast<RankedTensorType>(operand.getType())),
        op.getLoc()));
  SmallVector<SmallVector<AxisRef>> indices;
  // The context keeps a reference to this lambda, so it needs a name to outlive
  // the call.
  auto axisIndex = [&](ArrayRef<AxisRef> axes) -> Value {
    indices.emplace_back(axes);
    return block.addArgument(RankedTensorType::get({}, builder.getI64Type()),
                             op.getLoc());
  };
  graph::LocalContext context{builder, axisIndex};
  SmallVector<Value> results;
  if (failed(op.localize(context, locals, results)))
    return op.emitOpError("cannot be localized"), failure();
  for (Operation &local : block)
    if (failed(verify(&local)))
      return failure();
  for (auto [result, local] : llvm::zip_equal(op->getResults(), results)) {
    auto expected =
        sharding::getLocalType(cast<RankedTensorType>(result.getType()));
    if (local.getType() != expected)
      return op.emitOpError("gives each device ")
             << local.getType() << " where the layout says " << expected;
  }

  SmallVector<Devices> outputs(op->getNumResults(),
                               Devices(mesh.getNumDevices()));
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    llvm::DenseMap<Value, Tensor> values;
    bool lives = true;
    for (auto [i, operand] : llvm::enumerate(operands)) {
      values[block.getArgument(i)] = operand[device];
      lives &= static_cast<bool>(operand[device].elementType);
    }
    for (Value result : op->getResults())
      for (sharding::Place place : sharding::getLayout(result).getPlaces())
        lives &= mesh.getCoordinate(device, mesh.getAxis(place.axis)) ==
                 place.coordinate;
    if (!lives)
      continue;
    for (auto [i, axes] : llvm::enumerate(indices)) {
      Tensor index(builder.getI64Type(), {});
      index.integers[0] = mesh.getLinearIndex(device, axes);
      values[block.getArgument(operands.size() + i)] = index;
    }
    for (Operation &local : block) {
      SmallVector<Tensor> inputs;
      for (Value input : local.getOperands())
        inputs.push_back(values[input]);
      auto computed = evaluateOp(&local, inputs);
      if (failed(computed))
        return failure();
      for (auto [result, tensor] :
           llvm::zip_equal(local.getResults(), *computed))
        values[result] = std::move(tensor);
    }
    for (auto [output, result] : llvm::zip_equal(outputs, results))
      output[device] = values[result];
  }
  return outputs;
}

namespace {
/// The values of one scope: per device, and global.
struct Scope {
  llvm::DenseMap<Value, Devices> devices;
  llvm::DenseMap<Value, Tensor> whole;
  /// For the whole program.
  double tolerance = 0;
};
} // namespace

static LogicalResult runBlock(Block &block, Scope &scope,
                              sharding::MeshAttr mesh, uint64_t seed);

/// Reassembles and compares an op's results; if they agree, stores them in
/// `scope`.
static LogicalResult settle(Operation *op, ArrayRef<Devices> devices,
                            ArrayRef<Tensor> whole, Scope &scope) {
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    std::string reason;
    FailureOr<Tensor> value =
        assemble(devices[i], cast<RankedTensorType>(result.getType()), reason);
    if (failed(value) || !agree(*value, whole[i], reason, scope.tolerance))
      return op->emitOpError("distributed result ") << i << ": " << reason;
    scope.devices[result] = devices[i];
    scope.whole[result] = whole[i];
  }
  return success();
}

static Devices sliceMicrobatch(const Devices &devices, int64_t number) {
  Devices result;
  for (const Tensor &tensor : devices) {
    if (!tensor.elementType) {
      result.emplace_back();
      continue;
    }
    SmallVector<int64_t> start(tensor.getRank(), 0), size = tensor.shape;
    start[0] = number;
    size[0] = 1;
    result.push_back(tensor.slice(start, size)
                         .reshaped(ArrayRef(tensor.shape).drop_front()));
  }
  return result;
}

static void addInto(Devices &sum, const Devices &part) {
  for (auto [to, from] : llvm::zip_equal(sum, part))
    for (int64_t i = 0, n = to.elementType ? to.size() : 0; i < n; ++i)
      to.set(i, to.at(i) + from.at(i));
}

static LogicalResult runMicrobatches(graph::MicrobatchesOp op, Scope &outer,
                                     sharding::MeshAttr mesh, uint64_t seed) {
  SmallVector<Devices> carried, sums;
  SmallVector<Tensor> carriedWhole, sumsWhole;
  for (Value value : op.getCarry()) {
    carried.push_back(outer.devices[value]);
    carriedWhole.push_back(outer.whole[value]);
  }
  for (int64_t i = 0, count = op.getCount(); i < count; ++i) {
    Scope scope = outer;
    Tensor index(
        cast<RankedTensorType>(op.getIndex().getType()).getElementType(), {});
    index.integers[0] = i;
    scope.whole[op.getIndex()] = index;
    scope.devices[op.getIndex()] = Devices(mesh.getNumDevices(), index);
    for (auto [argument, value] : llvm::zip_equal(op.getSlices(), op.getOf())) {
      scope.devices[argument] = sliceMicrobatch(outer.devices[value], i);
      scope.whole[argument] =
          sliceMicrobatch(Devices{outer.whole[value]}, i)[0];
    }
    for (auto [k, argument] : llvm::enumerate(op.getCarried())) {
      scope.devices[argument] = carried[k];
      scope.whole[argument] = carriedWhole[k];
    }
    if (failed(runBlock(op.getBody().front(), scope, mesh, seed)))
      return failure();
    auto yield = cast<graph::YieldOp>(op.getBody().front().getTerminator());
    for (auto [k, value] : llvm::enumerate(yield.getSum())) {
      if (i == 0) {
        sums.push_back(scope.devices[value]);
        sumsWhole.push_back(scope.whole[value]);
        continue;
      }
      addInto(sums[k], scope.devices[value]);
      Devices whole{sumsWhole[k]};
      addInto(whole, Devices{scope.whole[value]});
      sumsWhole[k] = whole[0];
    }
    for (auto [k, value] : llvm::enumerate(yield.getCarry())) {
      carried[k] = scope.devices[value];
      carriedWhole[k] = scope.whole[value];
    }
  }
  llvm::append_range(sums, carried);
  llvm::append_range(sumsWhole, carriedWhole);
  return settle(op, sums, sumsWhole, outer);
}

static LogicalResult runBlock(Block &block, Scope &scope,
                              sharding::MeshAttr mesh, uint64_t seed) {
  for (Operation &op : block.without_terminator()) {
    if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op)) {
      if (failed(runMicrobatches(microbatches, scope, mesh, seed)))
        return failure();
      continue;
    }
    SmallVector<Devices> devices;
    SmallVector<Tensor> whole;
    for (Value operand : op.getOperands()) {
      devices.push_back(scope.devices[operand]);
      whole.push_back(scope.whole[operand]);
    }
    FailureOr<SmallVector<Tensor>> expected = evaluateOp(&op, whole);
    if (failed(expected))
      return failure();
    auto graphOp = dyn_cast<graph::GraphOp>(op);
    FailureOr<SmallVector<Devices>> computed = failure();
    if (std::optional<Devices> changed = changeStage(&op, devices))
      computed = SmallVector<Devices>{*changed};
    else if (isa<graph::AfterOp>(op)) // its token may live elsewhere
      computed = SmallVector<Devices>{devices[0]};
    else if (graphOp)
      computed = runOnDevices(graphOp, devices, mesh);
    else
      computed = moveOnDevices(&op, devices);
    if (failed(computed) || failed(settle(&op, *computed, *expected, scope)))
      return failure();
  }
  return success();
}

FailureOr<SmallVector<Tensor>> polyrank::evaluate::evaluateDistributed(
    func::FuncOp function, ArrayRef<Tensor> arguments, uint64_t seed) {
  Scope scope;
  scope.tolerance = getRoundingTolerance(function, Rounding::Exact);
  sharding::MeshAttr mesh;
  for (auto [argument, tensor] :
       llvm::zip_equal(function.getArguments(), arguments)) {
    sharding::LayoutAttr layout = sharding::getLayout(argument);
    if (!layout)
      return function.emitError()
             << "argument " << argument.getArgNumber()
             << " has no layout; distributed evaluation needs them all";
    mesh = layout.getMesh();
    scope.whole[argument] = tensor;
    scope.devices[argument] =
        scatter(tensor, layout, seed + argument.getArgNumber());
  }
  function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (sharding::LayoutAttr layout = sharding::getLayout(result))
        mesh = layout.getMesh();
  });
  if (!mesh)
    return function.emitError("has no layouts to distribute by");
  Block &body = function.getBody().front();
  if (failed(runBlock(body, scope, mesh, seed)))
    return failure();
  SmallVector<Tensor> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(scope.whole[value]);
  return results;
}
