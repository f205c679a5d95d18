// Splits the optimizer's updates over devices that would all do the same: ZeRO
// stage 1 (Rajbhandari et al., ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models, 2020, 5.1).
//
// The gradient of a parameter that is replicated over some axes is a partial
// sum over them. Reducing it and gathering the new parameter moves as many
// bytes as all-reducing the gradient, but each device then updates one block
// and keeps only that block of the optimizer state. So the axes are appended to
// the layouts of state and of the gradient, and of the parameter on its way
// through the update. What works on each element alone follows; whatever else
// there is (a norm over all gradients) is laid out again between these.

#include <map>

#include "compiler/sharding/Passes.h"
#include "compiler/sharding/UpdateOps.h"
#include "compiler/sharding/Why.h"
#include "compiler/sharding/WriteLayouts.h"
#include "dialects/graph/Parts.h"
#include "dialects/sharding/Sharding.h"
#include "mlir/IR/IRMapping.h"
#include "support/Names.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;
using sharding::ReshardOp;

namespace polyrank::sharding {
#define GEN_PASS_DEF_SHARDUPDATES
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
static LayoutAttr layoutOf(Value value) { return sharding::getLayout(value); }

/// Whether devices hold the same blocks, whatever their padding contains.
static bool haveSameBlocks(LayoutAttr a, LayoutAttr b) {
  return llvm::all_of(llvm::zip_equal(a.getDims(), b.getDims()), [](auto dims) {
    auto [x, y] = dims;
    return x.getAxes() == y.getAxes() && x.getPadded() == y.getPadded() &&
           !x.hasHalo() && !y.hasHalo();
  });
}

namespace {

/// The blocks of a split update: of one dim, or of the tensor as a row.
struct Blocks {
  bool isRow = false;
  int64_t dim = 0;
};

/// Why an update stays whole; empty where nobody asked to split it.
using Reason = std::string;

/// Rewrites one update.
class UpdateSplitter {
public:
  UpdateSplitter(func::FuncOp step, Update &update,
                 const llvm::DenseSet<Operation *> &shared)
      : step(step), boundary(step), update(update), shared(shared),
        terminator(step.getBody().front().getTerminator()),
        builder(terminator) {}

  /// Decides how to split it over `axes`, or says why it cannot be.
  Reason choose(ArrayRef<AxisRef> axes);
  void rewrite();

private:
  bool mayBeRow() const;
  bool isForElements(OpOperand &use) const;
  LayoutAttr rowLayout(ArrayRef<AxisRef> more, sharding::Fill fill) const;
  RankedTensorType partType(Value whole, sharding::Fill fill) const;
  static sharding::Fill fillOf(LayoutAttr layout);
  bool isSlot(OpOperand &use) const;

  Value reshape(Value value, ArrayRef<int64_t> shape);
  Value reshard(Value value, LayoutAttr to, DictionaryAttr why = {});
  Value split(Value whole, DictionaryAttr why = {});
  Value gather(Value part, RankedTensorType type);
  Value partOf(Value value);
  /// Uses of the update's values by others, with the types that these see.
  using OtherUses = SmallVector<std::pair<OpOperand *, RankedTensorType>>;
  OtherUses findOtherUses();
  void serve(OpOperand &use, RankedTensorType type);

  func::FuncOp step;
  graph::Boundary boundary;
  Update &update;
  const llvm::DenseSet<Operation *> &shared;
  Operation *terminator;
  OpBuilder builder;
  SmallVector<AxisRef> axes;
  Blocks blocks;
  IRMapping parts;
};

} // namespace

/// The gradient before it is reduced, where it is.
static Value getSource(graph::GradientOp gradient) {
  Value value = gradient.getInput();
  if (auto reduction = value.getDefiningOp<ReshardOp>();
      reduction && reduction->getNumResults() == 1 &&
      layoutOf(reduction->getOperand(0)).isPartial())
    return reduction->getOperand(0);
  return value;
}

/// "data: each device keeps one of 2 parts".
static std::string nameParts(sharding::MeshAttr mesh, ArrayRef<AxisRef> axes) {
  return sharding::describe(mesh, axes) + ": each device keeps one of " +
         std::to_string(sharding::product(axes)) + " parts";
}

/// Whether state can be stored as a row: its parameter's elements are stored in
/// their order, without gaps.
bool UpdateSplitter::mayBeRow() const {
  DenseI64ArrayAttr view = boundary.getView(update.parameter.getArgNumber());
  if (!view)
    return true;
  int64_t expected = 1;
  for (auto [size, stride] :
       llvm::reverse(llvm::zip_equal(update.getShape(),
                                     view.asArrayRef().drop_front()))) {
    if (size != 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

/// Whether the value becomes what the parameter or a state is next.
bool UpdateSplitter::isSlot(OpOperand &use) const {
  return use.getOwner() == terminator &&
         llvm::any_of(update.boundary, [&](auto entry) {
           return entry.second == use.getOperandNumber();
         });
}

/// Whether the use does not see which dims there are: each element alone, or
/// all of them reduced to one.
bool UpdateSplitter::isForElements(OpOperand &use) const {
  Operation *op = use.getOwner();
  if (update.own.contains(op) || isSlot(use) || !shared.contains(op))
    return true; // of others it sees the whole
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  return reduce && !reduce.getFirst() &&
         typeOf(reduce.getResult()).getRank() == 0;
}

/// A device's block shall be consecutive elements of what it has now, so that
/// nothing needs to be copied: blocks of the first dim that is more than one
/// element there, else of all elements as a row.
Reason UpdateSplitter::choose(ArrayRef<AxisRef> given) {
  axes.assign(given.begin(), given.end());
  LayoutAttr layout = layoutOf(update.parameter);
  ArrayRef<int64_t> shape = update.getShape();
  SmallVector<int64_t> local = layout.getLocalShape(shape);
  int64_t count = sharding::product(axes);
  blocks.dim = llvm::find_if(local, [](int64_t n) { return n != 1; }) -
               local.begin();
  int64_t elements = graph::numElements(local);
  if (elements % count != 0)
    return "its " + std::to_string(elements) + " elements do not divide by " +
           std::to_string(count);
  if (local[blocks.dim] % count == 0)
    return {};
  std::string dim = "dim " + std::to_string(blocks.dim) + ", " +
                    std::to_string(local[blocks.dim]) +
                    ", does not divide by " + std::to_string(count) +
                    ", and as a row ";
  // The blocks of a row are those of its most major dim.
  int64_t first = llvm::find_if(shape, [](int64_t n) { return n != 1; }) -
                  shape.begin();
  for (auto [d, entry] : llvm::enumerate(layout.getDims()))
    if (entry.getPadded() ||
        (static_cast<int64_t>(d) != first && !entry.getAxes().empty()))
      return dim + "it is cut in another dim";
  if (!mayBeRow())
    return dim + "it does not lie in the file";
  auto isForAll = [&](Value value) {
    return llvm::all_of(value.getUses(),
                        [&](OpOperand &use) { return isForElements(use); });
  };
  bool isRow = haveSameBlocks(layoutOf(getSource(update.gradient)), layout) &&
               isForAll(update.gradient.getResult());
  for (auto [argument, number] : ArrayRef(update.boundary).drop_front())
    isRow &= isForAll(step.getArgument(argument));
  for (Operation *op : update.own) {
    isRow &= isUniform(op) || isForAll(op->getResult(0));
    if (!isUniform(op))
      for (Value operand : op->getOperands())
        isRow &= isa<BlockArgument>(operand) ||
                 operand == update.gradient.getResult() ||
                 update.own.contains(operand.getDefiningOp());
  }
  if (!isRow)
    return dim + "its update does not work";
  blocks.isRow = true;
  blocks.dim = first;
  return {};
}

/// The parameter's layout, as a row where it is one, split over `more` too.
LayoutAttr UpdateSplitter::rowLayout(ArrayRef<AxisRef> more,
                                     sharding::Fill fill) const {
  LayoutAttr layout = layoutOf(update.parameter);
  DimAttr dim = layout.getDim(blocks.dim);
  SmallVector<AxisRef> all(dim.getAxes());
  llvm::append_range(all, more);
  dim = DimAttr::get(layout.getMesh(), all, dim.getPadded(),
                     dim.getPadded() ? fill : sharding::Fill::Undefined);
  if (blocks.isRow)
    return LayoutAttr::get(layout.getMesh(), dim, layout.getPartialKind(),
                           layout.getPartialAxes(), layout.getPlaces());
  SmallVector<DimAttr> dims(layout.getDims());
  dims[blocks.dim] = dim;
  for (auto [d, other] : llvm::enumerate(dims))
    if (static_cast<int64_t>(d) != blocks.dim && other.getPadded())
      other = DimAttr::get(layout.getMesh(), other.getAxes(), other.getPadded(),
                           fill);
  return layout.withDims(dims);
}

/// What padding contains.
sharding::Fill UpdateSplitter::fillOf(LayoutAttr layout) {
  for (DimAttr dim : layout.getDims())
    if (dim.getPadded())
      return dim.getFill();
  return sharding::Fill::Undefined;
}

/// Of a device's part of `whole`.
RankedTensorType UpdateSplitter::partType(Value whole,
                                          sharding::Fill fill) const {
  SmallVector<int64_t> shape(update.getShape());
  if (blocks.isRow)
    shape = {graph::numElements(shape)};
  return RankedTensorType::get(shape, typeOf(whole).getElementType(),
                               rowLayout(axes, fill));
}

Value UpdateSplitter::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!blocks.isRow)
    return value;
  LayoutAttr layout = layoutOf(value);
  DimAttr dim = layoutOf(update.parameter).getDim(blocks.dim);
  SmallVector<DimAttr> dims(
      shape.size(), DimAttr::get(layout.getMesh(), ArrayRef<AxisRef>()));
  dims[shape.size() == 1 ? 0 : blocks.dim] = dim;
  auto type = RankedTensorType::get(
      shape, typeOf(value).getElementType(),
      LayoutAttr::get(layout.getMesh(), dims, layout.getPartialKind(),
                      layout.getPartialAxes(), layout.getPlaces()));
  return graph::ReshapeOp::create(builder, value.getLoc(), type, value);
}

Value UpdateSplitter::reshard(Value value, LayoutAttr to, DictionaryAttr why) {
  if (layoutOf(value) == to)
    return value;
  sharding::MeshAttr mesh = to.getMesh();
  NamedAttrList reasons(why);
  auto say = [&](StringRef key, const std::string &text) {
    reasons.set(key, builder.getStringAttr(text));
  };
  say("from", sharding::describe(layoutOf(value)));
  say("to", sharding::describe(to));
  if (!why) {
    say("constraint", "each device over " + sharding::describe(mesh, axes) +
                          " updates its part (--zero 1)");
    say("user", "parameter '" +
                    boundary.getName(update.parameter.getArgNumber()) + "'");
    if (Operation *producer = value.getDefiningOp())
      say("producer", sharding::describe(producer));
  }
  auto op = ReshardOp::create(builder, value.getLoc(), value, to);
  op.setWhyAttr(reasons.getDictionary(builder.getContext()));
  return op->getResult(0);
}

/// A device's part of `whole`.
Value UpdateSplitter::split(Value whole, DictionaryAttr why) {
  RankedTensorType type = partType(whole, fillOf(layoutOf(whole)));
  return reshard(reshape(whole, type.getShape()), sharding::getLayout(type),
                 why);
}

/// The whole, in the layout of `type`, of a part.
Value UpdateSplitter::gather(Value part, RankedTensorType type) {
  // What padding shall contain is written before others get it.
  sharding::Fill fill = fillOf(sharding::getLayout(type));
  Value row =
      reshard(reshard(part, rowLayout(axes, fill)), rowLayout({}, fill));
  return reshard(reshape(row, type.getShape()), sharding::getLayout(type));
}

/// What takes the value's place in the update.
Value UpdateSplitter::partOf(Value value) {
  if (Value part = parts.lookupOrNull(value))
    return part;
  Value part = split(value);
  parts.map(value, part);
  return part;
}

UpdateSplitter::OtherUses UpdateSplitter::findOtherUses() {
  OtherUses others;
  auto add = [&](Value value) {
    for (OpOperand &use : value.getUses())
      if (!update.own.contains(use.getOwner()) && !isSlot(use))
        others.push_back({&use, typeOf(value)});
  };
  add(update.gradient.getResult());
  for (auto [argument, number] : ArrayRef(update.boundary).drop_front())
    add(step.getArgument(argument));
  // What is made of the parameter alone stays beside its part.
  for (Operation *op : update.own)
    if (!isUniform(op) &&
        !(isa<ReshardOp>(op) && op->getOperand(0) == update.parameter))
      add(op->getResult(0));
  return others;
}

/// Gives others what they used: the part where they are laid out again, or else
/// the whole.
void UpdateSplitter::serve(OpOperand &use, RankedTensorType type) {
  Value part = parts.lookup(use.get());
  Operation *user = use.getOwner();
  if (shared.contains(user)) {
    use.set(part);
    if (blocks.isRow)
      cast<graph::ReduceOp>(user).setDims({0});
    return;
  }
  builder.setInsertionPoint(user);
  use.set(gather(part, type));
}

void UpdateSplitter::rewrite() {
  OtherUses others = findOtherUses();
  // The gradient, as it is reduced and where.
  Value gradient = update.gradient.getResult(),
        source = getSource(update.gradient);
  auto reduction = update.gradient.getInput().getDefiningOp<ReshardOp>();
  builder.setInsertionPoint(reduction ? reduction.getOperation()
                                      : update.gradient.getOperation());
  for (Operation *user : gradient.getUsers())
    if (!reduction && layoutOf(gradient).isPartial())
      reduction = dyn_cast<ReshardOp>(user);
  parts.map(gradient, split(source, reduction ? reduction.getWhyAttr()
                                              : DictionaryAttr()));

  int64_t base = 0;
  if (auto view = boundary.getView(update.parameter.getArgNumber()))
    base = view[0];
  for (auto [argument, number] : ArrayRef(update.boundary).drop_front()) {
    BlockArgument state = step.getArgument(argument);
    state.setType(partType(state, fillOf(layoutOf(state))));
    if (blocks.isRow)
      boundary.setView(argument, {base, 1});
    parts.map(state, state);
  }

  // The parameter's part, in front of all that needs it.
  bool isUsed = llvm::any_of(update.parameter.getUsers(), [&](Operation *op) {
    return update.own.contains(op);
  });
  if (isUsed) {
    builder.setInsertionPoint(update.own.front());
    partOf(update.parameter);
  }
  for (Operation *op : update.own) {
    builder.setInsertionPoint(op);
    Value result = op->getResult(0);
    sharding::MeshAttr mesh = layoutOf(update.parameter).getMesh();
    RankedTensorType part = partType(result, sharding::Fill::Undefined);
    if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
      auto value = cast<SplatElementsAttr>(constant.getValue());
      parts.map(result,
                graph::ConstantOp::create(
                    builder, op->getLoc(), part,
                    value.resizeSplat(sharding::withLayout(part, nullptr))));
      continue;
    }
    if (isa<ReshardOp>(op)) { // there is one layout now
      parts.map(result, partOf(op->getOperand(0)));
      continue;
    }
    for (Value operand : op->getOperands())
      if (isUniform(op))
        parts.map(operand,
                  reshard(operand, LayoutAttr::getReplicated(mesh, 0)));
      else
        partOf(operand);
    builder.clone(*op, parts)->getResult(0).setType(part);
  }

  for (auto [i, entry] : llvm::enumerate(update.boundary)) {
    OpOperand &slot = terminator->getOpOperand(entry.second);
    if (slot.get() == step.getArgument(entry.first))
      continue;
    builder.setInsertionPoint(terminator);
    Value part = partOf(slot.get());
    slot.set(i == 0 ? gather(part, typeOf(update.parameter))
                    : reshard(part, layoutOf(step.getArgument(entry.first))));
  }
  for (auto [use, type] : others)
    serve(*use, type);
  for (Operation *op : llvm::reverse(update.own))
    if (op->use_empty())
      op->erase();
}

/// Lays ops out again, in the order of their block, between the layouts of what
/// they take and of what takes their results.
static LogicalResult layOutAgain(ArrayRef<Operation *> given,
                                 sharding::MeshAttr mesh, StringRef reason) {
  llvm::SmallPtrSet<Operation *, 16> inside(given.begin(), given.end());
  SmallVector<Operation *> ops;
  // Without the reshards among them.
  for (Operation *op : given) {
    if (!isa<ReshardOp>(op)) {
      ops.push_back(op);
      continue;
    }
    inside.erase(op);
    for (auto [operand, result] :
         llvm::zip_equal(op->getOperands(), op->getResults()))
      result.replaceUsesWithIf(operand, [&](OpOperand &use) {
        return inside.contains(use.getOwner());
      });
  }
  for (Operation *op : llvm::reverse(given))
    if (isa<ReshardOp>(op) && op->use_empty())
      op->erase();
  if (ops.empty())
    return success();

  llvm::MapVector<Value, LayoutAttr> wanted;
  SmallVector<std::pair<Value, SmallVector<OpOperand *>>> outside;
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : result.getUses())
        if (!inside.contains(use.getOwner()))
          uses.push_back(&use);
      LayoutAttr layout = layoutOf(result);
      if (!uses.empty()) {
        wanted[result] = layout.withPartial(layout.getPartialKind(), {});
        outside.push_back({result, uses});
      }
      result.setType(sharding::withLayout(typeOf(result), nullptr));
    }
  FailureOr<SideTable> table = readParts(mesh, ops, wanted, reason);
  if (failed(table))
    return failure();
  FailureOr<Propagated> propagated = solveLayouts(*std::move(table));
  if (failed(propagated))
    return failure();
  FailureOr<SuppliedValues> supplied = writeLayouts(*propagated);
  if (failed(supplied))
    return failure();
  for (auto &[value, uses] : outside)
    for (OpOperand *use : uses)
      use->set(supplied->lookup(value));
  return success();
}

namespace {
struct ShardUpdates : sharding::impl::ShardUpdatesBase<ShardUpdates> {
  using ShardUpdatesBase::ShardUpdatesBase;

  void runOnOperation() override {
    if (!getOperation().isDeclaration() && failed(run(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult run(func::FuncOp step);
  LogicalResult splitUpdates(func::FuncOp step);
  FailureOr<SmallVector<AxisRef>> getAxes(func::FuncOp step, Update &update);
};
} // namespace

/// Over what the update shall be split: the axes of the option, or else those
/// over which the gradient is a partial sum; none that the parameter's own
/// layout uses.
FailureOr<SmallVector<AxisRef>> ShardUpdates::getAxes(func::FuncOp step,
                                                      Update &update) {
  LayoutAttr layout = layoutOf(update.parameter),
             from = layoutOf(getSource(update.gradient));
  SmallVector<AxisRef> result;
  auto add = [&](AxisRef ref) {
    if (ref.size > 1 && !sharding::overlap(layout.getUsedAxes(), ref))
      result.push_back(ref);
  };
  if (axes.empty())
    llvm::for_each(from.getPartialAxes(), add);
  sharding::MeshAttr mesh = layout.getMesh();
  SmallVector<StringRef> chosen;
  StringRef(axes).split(chosen, '+', -1, /*KeepEmpty=*/false);
  for (StringRef name : chosen) {
    auto names = mesh.getAxisNames();
    auto found = llvm::find(names, name);
    if (found == names.end()) {
      step.emitError("--zero-axis: the mesh has no axis '")
          << name << "'; there are: "
          << llvm::join(
                 llvm::map_range(
                     names, [](StringAttr known) { return known.getValue(); }),
                 ", ");
      return failure();
    }
    auto axis = static_cast<int32_t>(found - names.begin());
    add({axis, 1, mesh.getAxisSizes()[axis]});
  }
  return result;
}

LogicalResult ShardUpdates::splitUpdates(func::FuncOp step) {
  FailureOr<UpdateOps> found = findUpdates(step);
  if (failed(found))
    return failure();
  llvm::DenseSet<Operation *> shared(found->shared.begin(),
                                     found->shared.end());
  llvm::MapVector<std::string, unsigned, std::map<std::string, unsigned>> split;
  struct Whole {
    std::vector<std::string> names;
    int64_t bytes = 0;
  };
  llvm::MapVector<std::string, Whole, std::map<std::string, unsigned>> whole;
  sharding::MeshAttr mesh;
  for (Update &update : found->updates) {
    LayoutAttr layout = layoutOf(update.parameter);
    int64_t elements =
        graph::numElements(layout.getLocalShape(update.getShape()));
    FailureOr<SmallVector<AxisRef>> axes = getAxes(step, update);
    if (failed(axes))
      return failure();
    if (axes->empty() || elements < threshold)
      continue;
    mesh = layout.getMesh();
    UpdateSplitter splitter(step, update, shared);
    if (Reason reason = splitter.choose(*axes); reason.empty()) {
      ++split[nameParts(mesh, *axes)];
      splitter.rewrite();
    } else {
      Whole &entry = whole[reason];
      entry.names.push_back(
          graph::Boundary(step).getName(update.parameter.getArgNumber()));
      for (auto [argument, number] : ArrayRef(update.boundary).drop_front())
        entry.bytes +=
            elements *
            typeOf(step.getArgument(argument)).getElementTypeBitWidth() / 8;
    }
  }
  if (split.empty() && whole.empty())
    return success();
  if (!split.empty() &&
      failed(layOutAgain(found->shared, mesh,
                         "each device updates its part (--zero 1)")))
    return failure();
  for (auto &[parts, count] : split)
    step.emitRemark() << "the updates of " << count
                      << (count == 1 ? " parameter are" : " parameters are")
                      << " split over " << parts
                      << " of their optimizer state (--zero 0 keeps all)";
  for (auto &[reason, entry] : whole)
    step.emitRemark() << "each device updates " << groupNames(entry.names)
                      << " whole, and keeps " << entry.bytes
                      << " bytes of optimizer state: " << reason;
  return success();
}

LogicalResult ShardUpdates::run(func::FuncOp step) {
  if (stage > 0 && failed(splitUpdates(step)))
    return failure();
  for (auto gradient : llvm::make_early_inc_range(
           step.getBody().front().getOps<graph::GradientOp>())) {
    gradient.getResult().replaceAllUsesWith(gradient.getInput());
    gradient.erase();
  }
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(step.getBody().front())))
    if (isa<ReshardOp>(op) && op.use_empty())
      op.erase();
  step.setType(FunctionType::get(
      step.getContext(), step.getBody().getArgumentTypes(),
      step.getBody().front().getTerminator()->getOperandTypes()));
  return success();
}
