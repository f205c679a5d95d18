// Localize: from global tensors with layouts to the tensors of one device.

#include "compiler/lowering/LowerMovement.h"
#include "compiler/lowering/Passes.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace polyrank;

namespace polyrank::lowering {
#define GEN_PASS_DEF_LOCALIZE
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {

/// Builds one function in local shapes beside the global one.
class Localizer {
public:
  Localizer(func::FuncOp global)
      : global(global), builder(global), context{builder, makeIndex} {}

  LogicalResult run();

private:
  LogicalResult checkPartitioned();
  Value axisIndex(ArrayRef<sharding::AxisRef> axes);
  Type localType(Type type) {
    return sharding::getLocalType(cast<RankedTensorType>(type));
  }
  SmallVector<Type> localTypes(TypeRange types) {
    return llvm::map_to_vector(types,
                               [&](Type type) { return localType(type); });
  }
  SmallVector<Attribute> boundaryAttributes(ArrayAttr attributes,
                                            TypeRange types);
  SmallVector<Value> lookup(ValueRange values) {
    return llvm::map_to_vector(
        values, [&](Value value) { return mapping.lookup(value); });
  }
  LogicalResult localizeBlock(Block &block);
  LogicalResult localizeOp(Operation &op);
  LogicalResult localizeMicrobatches(graph::MicrobatchesOp op);

  func::FuncOp global, local;
  OpBuilder builder;
  std::function<Value(ArrayRef<sharding::AxisRef>)> makeIndex =
      [this](ArrayRef<sharding::AxisRef> axes) { return axisIndex(axes); };
  graph::LocalContext context;
  IRMapping mapping;
  sharding::MeshAttr mesh;
  /// The coordinates in use, made once at the function's start.
  SmallVector<std::pair<rank::AxesAttr, Value>> indices;
  int64_t nextId = 0;
};

} // namespace

/// After `partition` every tensor of a function has a layout, over one mesh.
LogicalResult Localizer::checkPartitioned() {
  bool whole = false;
  auto check = [&](Location location, Type type) -> LogicalResult {
    sharding::LayoutAttr layout = sharding::getLayout(type);
    if (!layout)
      whole = true;
    else if (!mesh)
      mesh = layout.getMesh();
    else if (mesh != layout.getMesh())
      return emitError(location) << "is laid out over " << layout.getMesh()
                                 << ", other values over " << mesh;
    if (whole && mesh)
      return emitError(location)
             << "a value without a layout, of type " << type
             << ", among values that have one: partition comes first";
    return success();
  };
  for (BlockArgument argument : global.getArguments())
    if (failed(check(argument.getLoc(), argument.getType())))
      return failure();
  WalkResult result = global.getBody().walk([&](Operation *op) {
    for (Value value : op->getResults())
      if (failed(check(value.getLoc(), value.getType())))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

Value Localizer::axisIndex(ArrayRef<sharding::AxisRef> axes) {
  auto attribute = rank::AxesAttr::get(mesh, axes);
  for (auto &[known, value] : indices)
    if (known == attribute)
      return value;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&local.getBody().front());
  OpBuilder::Listener *listener = builder.getListener();
  builder.setListener(nullptr); // it is of no op alone
  Value value = rank::AxisIndexOp::create(
      builder, local.getLoc(), RankedTensorType::get({}, builder.getI64Type()),
      attribute, /*buffers=*/nullptr);
  builder.setListener(listener);
  indices.push_back({attribute, value});
  return value;
}

/// Layout constraints have done their work; what else stands at the boundary
/// stays, with the global type.
SmallVector<Attribute> Localizer::boundaryAttributes(ArrayAttr attributes,
                                                     TypeRange types) {
  SmallVector<Attribute> result;
  for (auto [i, type] : llvm::enumerate(types)) {
    NamedAttrList kept;
    if (attributes)
      for (NamedAttribute attribute : cast<DictionaryAttr>(attributes[i]))
        if (!attribute.getName().getValue().starts_with("sharding."))
          kept.append(attribute);
    kept.set(rank::globalAttrName, TypeAttr::get(type));
    result.push_back(kept.getDictionary(builder.getContext()));
  }
  return result;
}

LogicalResult Localizer::run() {
  if (failed(checkPartitioned()))
    return failure();
  graph::markPhases(global);
  FunctionType type = global.getFunctionType();
  local = func::FuncOp::create(
      builder, global.getLoc(), global.getName(),
      builder.getFunctionType(localTypes(type.getInputs()),
                              localTypes(type.getResults())));
  for (NamedAttribute attribute : global->getDiscardableAttrs())
    local->setDiscardableAttr(attribute.getName(), attribute.getValue());
  local.setVisibility(global.getVisibility());
  local.setArgAttrsAttr(builder.getArrayAttr(
      boundaryAttributes(global.getArgAttrsAttr(), type.getInputs())));
  local.setResAttrsAttr(builder.getArrayAttr(
      boundaryAttributes(global.getResAttrsAttr(), type.getResults())));
  Block *entry = local.addEntryBlock();
  for (auto [argument, localArgument] :
       llvm::zip_equal(global.getArguments(), entry->getArguments())) {
    localArgument.setLoc(argument.getLoc());
    mapping.map(argument, localArgument);
  }
  builder.setInsertionPointToEnd(entry);
  if (failed(localizeBlock(global.getBody().front())))
    return failure();
  global.erase();
  return success();
}

LogicalResult Localizer::localizeBlock(Block &block) {
  for (Operation &op : block)
    if (failed(localizeOp(op)))
      return failure();
  return success();
}

LogicalResult Localizer::localizeOp(Operation &op) {
  if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op))
    return localizeMicrobatches(microbatches);
  SmallVector<Value> operands = lookup(op.getOperands()), results;
  if (isa<func::ReturnOp, graph::YieldOp>(op)) {
    builder.clone(op, mapping);
    return success();
  }
  graph::ProvenanceCopier copier(&op);
  builder.setListener(&copier);
  auto restore = llvm::make_scope_exit([&] { builder.setListener(nullptr); });
  if (auto graphOp = dyn_cast<graph::GraphOp>(op)) {
    if (failed(graphOp.localize(context, operands, results)))
      return failure();
  } else if (isa<sharding::ShardingDialect>(op.getDialect())) {
    if (failed(lowering::localizeMovement(&op, context, operands, results, nextId)))
      return failure();
  } else {
    return op.emitOpError("has no lowering to one device");
  }
  for (auto [i, value] : llvm::enumerate(op.getResults())) {
    if (results[i].getType() != localType(value.getType()))
      return op.emitOpError("result ")
             << i << " is " << results[i].getType() << " on one device; by "
             << value.getType() << " it must be " << localType(value.getType());
    mapping.map(value, results[i]);
  }
  return success();
}

LogicalResult Localizer::localizeMicrobatches(graph::MicrobatchesOp op) {
  auto result = graph::MicrobatchesOp::create(
      builder, op.getLoc(), localTypes(op.getResultTypes()), op.getCount(),
      lookup(op.getOf()), lookup(op.getCarry()));
  Block &body = op.getBody().front();
  Block *block = builder.createBlock(&result.getBody());
  for (BlockArgument argument : body.getArguments())
    mapping.map(argument, block->addArgument(localType(argument.getType()),
                                             argument.getLoc()));
  if (failed(localizeBlock(body)))
    return failure();
  builder.setInsertionPointAfter(result);
  mapping.map(op.getResults(), result.getResults());
  return success();
}

namespace {
struct LocalizePass : lowering::impl::LocalizeBase<LocalizePass> {
  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(Localizer(function).run()))
        return signalPassFailure();
  }
};
} // namespace
