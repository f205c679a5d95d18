// Localize: from global tensors with layouts to the tensors of one device.
//
// Of a pipeline there is a function for each coordinate of the pipe axis, which
// has the values that live there, and those that live everywhere as far as it
// needs them.

#include "compiler/lowering/LowerMovement.h"
#include "compiler/lowering/Passes.h"
#include "compiler/lowering/PipelineSchedule.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Phase.h"
#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/rank/Rank.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Movement.h"
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

/// The ids of the values that ops move, the same for all coordinates.
using Ids = DenseMap<Operation *, int64_t>;

/// Of the ranks that run a function of a pipeline.
struct PipePlace {
  int32_t axis;
  int64_t coordinate;
  int64_t slots; // of what microbatches transfer
};

/// Builds one function in local shapes beside the global one.
class Localizer {
public:
  /// `place`: of those that run it; none where all do.
  Localizer(func::FuncOp global, const Ids &ids,
            std::optional<PipePlace> place)
      : global(global), ids(ids), place(place), builder(global),
        context{builder, makeIndex} {}

  LogicalResult run();
  /// The arguments that it reads, by their global numbers.
  void addRead(DenseSet<unsigned> &read);
  /// Erases those of `read` that it does not read itself.
  void eraseUnread(const DenseSet<unsigned> &read);

private:
  /// Where the value lives along the pipe axis; nullopt: everywhere.
  std::optional<int64_t> getCoordinate(Value value) const;
  bool isHere(Value value) const {
    std::optional<int64_t> at = getCoordinate(value);
    return !at || at == place->coordinate;
  }
  void createFunction();
  void finishBoundary();
  LogicalResult localizeReturn(func::ReturnOp op);
  LogicalResult localizeTransfer(pipeline::TransferOp op);
  void localizeJoin(pipeline::JoinOp op);
  LogicalResult checkPartitioned();
  Value axisIndex(ArrayRef<sharding::AxisRef> axes);
  Type localType(Type type) {
    return sharding::getLocalType(cast<RankedTensorType>(type));
  }
  SmallVector<Type> localTypes(TypeRange types) {
    return llvm::map_to_vector(types,
                               [&](Type type) { return localType(type); });
  }
  DictionaryAttr boundaryAttributes(DictionaryAttr attributes, Type type,
                                    unsigned number);
  SmallVector<Value> lookup(ValueRange values) {
    return llvm::map_to_vector(
        values, [&](Value value) { return mapping.lookupOrNull(value); });
  }
  LogicalResult localizeBlock(Block &block);
  LogicalResult localizeOp(Operation &op);
  LogicalResult localizeMicrobatches(graph::MicrobatchesOp op);

  func::FuncOp global, local;
  const Ids &ids;
  std::optional<PipePlace> place;
  OpBuilder builder;
  std::function<Value(ArrayRef<sharding::AxisRef>)> makeIndex =
      [this](ArrayRef<sharding::AxisRef> axes) { return axisIndex(axes); };
  graph::LocalContext context;
  IRMapping mapping;
  sharding::MeshAttr mesh;
  /// The coordinates in use, made once at the function's start.
  SmallVector<std::pair<rank::AxesAttr, Value>> indices;
  /// Of the arguments, the numbers that they have globally.
  SmallVector<unsigned> numbers;
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

std::optional<int64_t> Localizer::getCoordinate(Value value) const {
  if (place)
    if (sharding::LayoutAttr layout = sharding::getLayout(value))
      for (sharding::Place at : layout.getPlaces())
        if (at.axis == place->axis)
          return at.coordinate;
  return std::nullopt;
}

/// Layout constraints have done their work; what else stands at the boundary
/// stays, with the global type, and the global number where others differ.
DictionaryAttr Localizer::boundaryAttributes(DictionaryAttr attributes,
                                             Type type, unsigned number) {
  NamedAttrList kept;
  if (attributes)
    for (NamedAttribute attribute : attributes)
      if (!attribute.getName().getValue().starts_with("sharding."))
        kept.append(attribute);
  kept.set(rank::globalAttrName, TypeAttr::get(type));
  if (place)
    kept.set(rank::numberAttrName, builder.getI64IntegerAttr(number));
  return kept.getDictionary(builder.getContext());
}

/// With the arguments that are here, and no results yet.
void Localizer::createFunction() {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (BlockArgument argument : global.getArguments())
    if (isHere(argument)) {
      unsigned number = argument.getArgNumber();
      numbers.push_back(number);
      types.push_back(localType(argument.getType()));
      attributes.push_back(boundaryAttributes(
          global.getArgAttrDict(number), argument.getType(), number));
    }
  std::string name = global.getName().str();
  if (place)
    name += "_" + std::to_string(place->coordinate);
  local = func::FuncOp::create(builder, global.getLoc(), name,
                               builder.getFunctionType(types, {}));
  for (NamedAttribute attribute : global->getDiscardableAttrs())
    local->setDiscardableAttr(attribute.getName(), attribute.getValue());
  if (place)
    local->setDiscardableAttr(
        rank::placeAttrName,
        builder.getDictionaryAttr(builder.getNamedAttr(
            mesh.getAxisNames()[place->axis],
            builder.getI64IntegerAttr(place->coordinate))));
  local.setVisibility(global.getVisibility());
  local.setAllArgAttrs(attributes);
  Block *entry = local.addEntryBlock();
  for (auto [number, localArgument] :
       llvm::zip_equal(numbers, entry->getArguments())) {
    localArgument.setLoc(global.getArgument(number).getLoc());
    mapping.map(global.getArgument(number), localArgument);
  }
}

/// The results that are here. What takes an argument's place names it by its
/// number here.
LogicalResult Localizer::localizeReturn(func::ReturnOp op) {
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  graph::Boundary boundary(global);
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    if (!isHere(value))
      continue;
    results.push_back(mapping.lookup(value));
    NamedAttrList kept(boundaryAttributes(global.getResultAttrDict(number),
                                          value.getType(), number));
    if (auto replaced = boundary.getReplaced(number)) {
      unsigned argument = llvm::find(numbers, *replaced) - numbers.begin();
      for (NamedAttribute attribute : graph::Boundary::asDictionary(
               graph::NextAttr::get(builder.getContext(), argument)))
        kept.set(attribute.getName(), attribute.getValue());
    }
    attributes.push_back(kept.getDictionary(builder.getContext()));
  }
  func::ReturnOp::create(builder, op.getLoc(), results);
  local.setType(builder.getFunctionType(local.getArgumentTypes(),
                                        ValueRange(results).getTypes()));
  local.setAllResultAttrs(attributes);
  return success();
}

static void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op))
      eraseDead(microbatches.getBody().front());
    bool isUnused = isa<graph::SeedOp>(op) && op.use_empty();
    if (isUnused || isOpTriviallyDead(&op))
      op.erase();
  }
}

/// What lives everywhere is computed, and read, only where something needs it.
void Localizer::finishBoundary() {
  eraseDead(local.getBody().front());
  for (auto op : llvm::make_early_inc_range(
           local.getBody().front().getOps<graph::MicrobatchesOp>())) {
    llvm::BitVector unread(op.getOf().size());
    for (auto [i, slice] : llvm::enumerate(op.getSlices()))
      if (slice.use_empty())
        unread.set(i);
    for (int i = unread.find_last(); i >= 0; i = unread.find_prev(i)) {
      op.getBody().front().eraseArgument(op.getSlices()[i].getArgNumber());
      op.getOfMutable().erase(i);
    }
  }
  eraseDead(local.getBody().front());
}

void Localizer::addRead(DenseSet<unsigned> &read) {
  for (auto [number, argument] : llvm::zip_equal(numbers, local.getArguments()))
    if (!argument.use_empty())
      read.insert(number);
}

void Localizer::eraseUnread(const DenseSet<unsigned> &read) {
  graph::Boundary boundary(local);
  for (unsigned i = local.getNumArguments(); i-- > 0;)
    if (local.getArgument(i).use_empty() && read.contains(numbers[i]))
      boundary.eraseArgument(i);
}

LogicalResult Localizer::run() {
  if (failed(checkPartitioned()))
    return failure();
  createFunction();
  builder.setInsertionPointToEnd(&local.getBody().front());
  if (failed(localizeBlock(global.getBody().front())))
    return failure();
  if (place)
    finishBoundary();
  return success();
}

/// From where the value is to where it is needed, of which the two ends know
/// alone.
LogicalResult Localizer::localizeTransfer(pipeline::TransferOp op) {
  Value input = op.getInput(), result = op.getResult();
  std::optional<int64_t> from = getCoordinate(input), to = getCoordinate(result);
  if (!to)
    return op.emitOpError("leads nowhere: place-values comes first");
  if (!from || from == to) {
    if (isHere(result))
      mapping.map(result, mapping.lookup(input));
    return success();
  }
  if (!isHere(input) && !isHere(result))
    return success();
  auto axes = rank::AxesAttr::get(mesh, mesh.getAxis(place->axis));
  int64_t slots = isa<graph::MicrobatchesOp>(op->getParentOp()) ? place->slots : 1;
  if (isHere(input)) {
    // At once: what comes behind need not be waited for.
    Block *block = builder.getInsertionBlock();
    Value value = mapping.lookup(input);
    OpBuilder::InsertionGuard guard(builder);
    Block::iterator point = builder.getInsertionPoint();
    while (point != block->begin() && isPure(&*std::prev(point)) &&
           &*std::prev(point) != value.getDefiningOp())
      --point;
    builder.setInsertionPoint(block, point);
    auto send = rank::SendOp::create(
        builder, op.getLoc(), value, axes, *from, *to, ids.at(op), slots, nullptr, nullptr, nullptr);
    graph::setStage(send, op.getFrom());
    return success();
  }
  mapping.map(result, rank::RecvOp::create(
                          builder, op.getLoc(), localType(result.getType()),
                          axes, *from, *to, ids.at(op), slots, nullptr, nullptr,
                          nullptr)
                          .getOutput());
  return success();
}

/// What this coordinate gives of what is joined, or the identity.
void Localizer::localizeJoin(pipeline::JoinOp op) {
  Value sum;
  for (Value input : op.getInputs()) {
    Value part = mapping.lookupOrNull(input);
    if (!part)
      continue;
    if (!sum)
      sum = part;
    else if (op.getKind() == sharding::ReductionKind::Sum)
      sum = graph::AddOp::create(builder, op.getLoc(), sum, part);
    else if (op.getKind() == sharding::ReductionKind::Max)
      sum = graph::MaxOp::create(builder, op.getLoc(), sum, part);
    else
      sum = graph::MinOp::create(builder, op.getLoc(), sum, part);
  }
  if (!sum)
    sum = graph::splat(
        builder, op.getLoc(), cast<RankedTensorType>(localType(op.getType())),
        sharding::fillValue(sharding::identityFill(op.getKind())));
  mapping.map(op.getResult(), sum);
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
  if (auto end = dyn_cast<func::ReturnOp>(op))
    return localizeReturn(end);
  graph::ProvenanceCopier copier(&op);
  builder.setListener(&copier);
  auto restore = llvm::make_scope_exit([&] { builder.setListener(nullptr); });
  if (auto transfer = dyn_cast<pipeline::TransferOp>(op))
    return localizeTransfer(transfer);
  if (!llvm::all_of(op.getResults(), [&](Value value) { return isHere(value); }))
    return success();
  if (auto join = dyn_cast<pipeline::JoinOp>(op)) {
    localizeJoin(join);
    return success();
  }
  SmallVector<Value> operands = lookup(op.getOperands()), results;
  if (auto graphOp = dyn_cast<graph::GraphOp>(op)) {
    if (failed(graphOp.localize(context, operands, results)))
      return failure();
  } else if (isa<sharding::ShardingDialect>(op.getDialect())) {
    int64_t id = ids.lookup(&op);
    if (failed(lowering::localizeMovement(&op, context, operands, results, id)))
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
  Block &body = op.getBody().front();
  auto yield = cast<graph::YieldOp>(body.getTerminator());
  auto here = [&](ValueRange values) {
    return llvm::filter_to_vector(values,
                                  [&](Value value) { return isHere(value); });
  };
  // A value is where what becomes of it is.
  SmallVector<Value> of = here(op.getOf()), carry = here(op.getCarry()),
                     sums = here(yield.getSum()),
                     carried = here(yield.getCarry()),
                     outcomes = here(op.getResults());
  auto result = graph::MicrobatchesOp::create(
      builder, op.getLoc(), localTypes(ValueRange(outcomes).getTypes()),
      op.getCount(), lookup(of), lookup(carry));
  Block *block = builder.createBlock(&result.getBody());
  for (BlockArgument argument : body.getArguments())
    if (isHere(argument))
      mapping.map(argument, block->addArgument(localType(argument.getType()),
                                               argument.getLoc()));
  for (Operation &inner : body.without_terminator())
    if (failed(localizeOp(inner)))
      return failure();
  graph::YieldOp::create(builder, yield.getLoc(), lookup(sums),
                         lookup(carried));
  builder.setInsertionPointAfter(result);
  mapping.map(outcomes, result.getResults());
  return success();
}

/// In program order, for whatever becomes a collective or a transfer.
static Ids numberMovements(func::FuncOp function) {
  Ids ids;
  function.walk([&](Operation *op) {
    auto movement = dyn_cast<sharding::MovementOp>(op);
    if (isa<pipeline::TransferOp>(op) ||
        (movement && sharding::getCollectiveKind(movement.getMovementKind())))
      ids.try_emplace(op, ids.size());
  });
  return ids;
}

/// Whether something lives at one coordinate of the pipe axis.
static bool isPlaced(func::FuncOp function, int32_t axis) {
  auto isAt = [&](Type type) {
    sharding::LayoutAttr layout = sharding::getLayout(type);
    return layout && llvm::any_of(layout.getPlaces(), [&](sharding::Place at) {
             return at.axis == axis;
           });
  };
  return llvm::any_of(function.getArgumentTypes(), isAt) ||
         function
             .walk([&](Operation *op) {
               return llvm::any_of(op->getResultTypes(), isAt)
                          ? WalkResult::interrupt()
                          : WalkResult::advance();
             })
             .wasInterrupted();
}

/// A function for each coordinate of the pipe axis, or one for all ranks.
static LogicalResult localize(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  sharding::MeshAttr mesh = sharding::getMesh(module);
  std::optional<pipeline::Stages> stages = pipeline::getStages(module);
  int32_t axis = mesh && stages ? mesh.lookup(stages->axis) : -1;
  graph::markPhases(function);
  Ids ids = numberMovements(function);
  if (axis < 0 || !isPlaced(function, axis)) {
    if (failed(Localizer(function, ids, std::nullopt).run()))
      return failure();
  } else {
    int64_t slots = 1;
    for (auto op : function.getOps<graph::MicrobatchesOp>()) {
      FailureOr<int64_t> found = lowering::getSlots(module, op);
      if (failed(found))
        return failure();
      slots = *found;
    }
    std::vector<std::unique_ptr<Localizer>> localizers;
    DenseSet<unsigned> read, all;
    for (int64_t i = 0; i < mesh.getAxisSizes()[axis]; ++i) {
      localizers.push_back(std::make_unique<Localizer>(
          function, ids, PipePlace{axis, i, slots}));
      if (failed(localizers.back()->run()))
        return failure();
      localizers.back()->addRead(read);
    }
    // What nobody reads stays in the first, so that nothing is lost.
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      all.insert(i);
    for (auto &localizer : localizers)
      localizer->eraseUnread(localizer == localizers.front() ? read : all);
  }
  function.erase();
  return success();
}

namespace {
struct LocalizePass : lowering::impl::LocalizeBase<LocalizePass> {
  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(localize(function)))
        return signalPassFailure();
  }
};
} // namespace
