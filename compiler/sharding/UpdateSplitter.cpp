// Splits the update of one parameter into parts.

#include "compiler/sharding/UpdateSplitter.h"

#include "compiler/sharding/NarrowGradients.h"
#include "compiler/sharding/Why.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Returns true if devices hold the same blocks, whatever the padding contains.
static bool haveSameBlocks(LayoutAttr a, LayoutAttr b) {
  return llvm::all_of(llvm::zip_equal(a.getDims(), b.getDims()), [](auto dims) {
    auto [x, y] = dims;
    return x.getAxes() == y.getAxes() && x.getPadded() == y.getPadded() &&
           !x.hasHalo() && !y.hasHalo();
  });
}

static ReshardOp getReduction(graph::GradientOp gradient) {
  auto reduction = gradient.getInput().getDefiningOp<ReshardOp>();
  return reduction && reduction->getNumResults() == 1 &&
                 layoutOf(reduction->getOperand(0)).isPartial()
             ? reduction
             : ReshardOp();
}

Value polyrank::sharding::getSource(graph::GradientOp gradient) {
  ReshardOp reduction = getReduction(gradient);
  return reduction ? reduction->getOperand(0) : gradient.getInput();
}

bool polyrank::sharding::isStoredAsRow(graph::Boundary boundary,
                                       BlockArgument argument) {
  DenseI64ArrayAttr view = boundary.getView(argument.getArgNumber());
  if (!view)
    return true;
  int64_t expected = 1;
  for (auto [size, stride] : llvm::reverse(llvm::zip_equal(
           typeOf(argument).getShape(), view.asArrayRef().drop_front()))) {
    if (size != 1 && stride != expected)
      return false;
    expected *= size;
  }
  return true;
}

UpdateSplitter::UpdateSplitter(func::FuncOp step, Update &update,
                               const llvm::DenseSet<Operation *> &shared,
                               ArrayRef<AxisRef> axes, int64_t stage)
    : step(step), boundary(step), update(update), shared(shared),
      terminator(step.getBody().front().getTerminator()), builder(terminator),
      blocks(typeOf(update.parameter), axes) {
  blocks.setWhy("each device over " +
                    describe(layoutOf(update.parameter).getMesh(), axes) +
                    " updates its part (--zero " + std::to_string(stage) + ")",
                "parameter '" +
                    boundary.getName(update.parameter.getArgNumber()) + "'");
}

/// Returns true if the use is the new value of the parameter or of a state.
bool UpdateSplitter::isSlot(OpOperand &use) const {
  return use.getOwner() == terminator &&
         llvm::any_of(update.boundary, [&](auto entry) {
           return entry.second == use.getOperandNumber();
         });
}

/// Returns true if the use may read the elements as a row: its op works on each
/// element independently, or reduces all of them to a scalar.
bool UpdateSplitter::isForElements(OpOperand &use) const {
  Operation *op = use.getOwner();
  if (update.own.contains(op) || isSlot(use) || !shared.contains(op))
    return true; // other ops get the whole
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  return reduce && !reduce.getFirst() &&
         typeOf(reduce.getResult()).getRank() == 0;
}

WhyWhole UpdateSplitter::choose() {
  return blocks.choose([&]() -> WhyWhole {
    if (!isStoredAsRow(boundary, update.parameter))
      return "it does not lie in the file";
    auto isForAll = [&](Value value) {
      return llvm::all_of(value.getUses(),
                          [&](OpOperand &use) { return isForElements(use); });
    };
    bool isRow = haveSameBlocks(layoutOf(getSource(update.gradient)),
                                layoutOf(update.parameter)) &&
                 isForAll(update.gradient.getResult());
    for (auto [argument, number] : update.boundary)
      isRow &= isForAll(step.getArgument(argument));
    for (Operation *op : update.own) {
      isRow &= isUniform(op) || isForAll(op->getResult(0));
      if (!isUniform(op))
        for (Value operand : op->getOperands())
          isRow &= isa<BlockArgument>(operand) ||
                   operand == update.gradient.getResult() ||
                   update.own.contains(operand.getDefiningOp());
    }
    return isRow ? "" : "its update does not work";
  });
}

int64_t UpdateSplitter::getExcessBytes(bool withParameter) {
  int64_t bytes = 0;
  for (auto [argument, number] :
       ArrayRef(update.boundary).drop_front(withParameter ? 0 : 1))
    bytes += blocks.getExcess() *
             typeOf(step.getArgument(argument)).getElementTypeBitWidth() / 8;
  return bytes;
}

/// The type of a device's part of `whole`.
RankedTensorType UpdateSplitter::partType(Value whole, Fill fill) const {
  return blocks.getPartType(typeOf(whole).getElementType(), fill);
}

Value UpdateSplitter::gather(Value part, RankedTensorType type) {
  return blocks.gather(builder, part, type);
}

/// The value that replaces `value` in the update.
Value UpdateSplitter::partOf(Value value) {
  if (Value part = parts.lookupOrNull(value))
    return part;
  Value part = blocks.split(builder, value);
  parts.map(value, part);
  return part;
}

UpdateSplitter::OtherUses UpdateSplitter::findOtherUses(bool withParameter) {
  OtherUses others;
  auto add = [&](Value value) {
    for (OpOperand &use : value.getUses())
      if (!update.own.contains(use.getOwner()) && !isSlot(use))
        others.push_back({&use, typeOf(value)});
  };
  add(update.gradient.getResult());
  for (auto [argument, number] :
       ArrayRef(update.boundary).drop_front(withParameter ? 0 : 1))
    add(step.getArgument(argument));
  // A reshard of the whole parameter stays for its other users, beside the
  // part.
  for (Operation *op : update.own)
    if (!isUniform(op) &&
        !(isa<ReshardOp>(op) && op->getOperand(0) == update.parameter))
      add(op->getResult(0));
  return others;
}

/// Gives an op outside the update its operand: the part, if the op is laid out
/// again, or else the gathered whole.
void UpdateSplitter::serve(OpOperand &use, RankedTensorType type) {
  Value part = parts.lookup(use.get());
  Operation *user = use.getOwner();
  if (shared.contains(user)) {
    use.set(part);
    if (blocks.isRow())
      cast<graph::ReduceOp>(user).setDims({0});
    return;
  }
  builder.setInsertionPoint(user);
  use.set(gather(part, type));
}

WhyWhole UpdateSplitter::splitSum() {
  graph::ConvertOp narrowing = getNarrowing(update.gradient);
  auto sum = dyn_cast<OpResult>(narrowing ? narrowing.getInput()
                                          : getSource(update.gradient));
  auto region = sum ? dyn_cast<graph::MicrobatchesOp>(sum.getOwner()) : nullptr;
  if (!region) // with one microbatch there is no sum
    return step.getOps<graph::MicrobatchesOp>().empty()
               ? ""
               : "they are computed after the microbatches";
  if (!sum.hasOneUse())
    return "others read them";
  Operation *yield = region.getBody().front().getTerminator();
  OpOperand &yielded = yield->getOpOperand(sum.getResultNumber());
  builder.setInsertionPointAfterValue(yielded.get());
  ReshardOp reduction = getReduction(update.gradient);
  Value whole = yielded.get();
  if (narrowing)
    whole = graph::ConvertOp::create(
        builder, whole.getLoc(), whole,
        getElementTypeOrSelf(narrowing.getResult()), /*parts=*/true);
  Value part = blocks.split(builder, whole,
                            reduction ? reduction.getWhyAttr() : ReasonAttr());
  if (narrowing) {
    // The parts of the microbatches are added up in the type of the sum.
    part = graph::ConvertOp::create(builder, part.getLoc(), part,
                                    getElementTypeOrSelf(sum));
    widenGradient(update.gradient, &update.own);
  }
  yielded.set(part);
  sum.setType(part.getType());
  parts.map(update.gradient.getResult(), sum);
  return {};
}

/// Maps the gradient to its part, made where and for the reason that it is
/// reduced.
void UpdateSplitter::takeGradient() {
  Value gradient = update.gradient.getResult();
  if (parts.contains(gradient))
    return;
  ReshardOp reduction = getReduction(update.gradient);
  builder.setInsertionPoint(reduction ? reduction.getOperation()
                                      : update.gradient.getOperation());
  if (!reduction && layoutOf(gradient).isPartial())
    for (Operation *user : gradient.getUsers())
      reduction = dyn_cast<ReshardOp>(user);
  parts.map(gradient,
            blocks.split(builder, getSource(update.gradient),
                         reduction ? reduction.getWhyAttr() : ReasonAttr()));
}

/// Clones the op so that it works on parts.
void UpdateSplitter::rewriteOp(Operation *op) {
  builder.setInsertionPoint(op);
  Value result = op->getResult(0);
  RankedTensorType part = partType(result, Fill::Undefined);
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    auto value = cast<SplatElementsAttr>(constant.getValue());
    parts.map(result, graph::ConstantOp::create(
                          builder, op->getLoc(), part,
                          value.resizeSplat(withLayout(part, nullptr))));
    return;
  }
  if (isa<ReshardOp>(op)) { // all parts have the same layout
    parts.map(result, partOf(op->getOperand(0)));
    return;
  }
  MeshAttr mesh = layoutOf(update.gradient).getMesh();
  for (Value operand : op->getOperands())
    if (isUniform(op))
      parts.map(operand, blocks.reshard(builder, operand,
                                        LayoutAttr::getReplicated(mesh, 0)));
    else
      partOf(operand);
  builder.clone(*op, parts)->getResult(0).setType(part);
}

void UpdateSplitter::rewrite(ParameterGathers *gathers) {
  OtherUses others = findOtherUses(gathers);
  takeGradient();

  RankedTensorType whole = blocks.getWholeType();
  int64_t base = 0;
  if (auto view = boundary.getView(update.parameter.getArgNumber()))
    base = view[0];
  for (auto [argument, number] :
       ArrayRef(update.boundary).drop_front(gathers ? 0 : 1)) {
    BlockArgument stored = step.getArgument(argument);
    stored.setType(blocks.getStoredType(typeOf(stored).getElementType()));
    if (blocks.isRow())
      boundary.setView(argument, {base, 1});
    parts.map(stored, stored);
  }
  if (gathers) {
    SmallVector<OpOperand *> uses;
    llvm::erase_if(others, [&](auto &other) {
      OpOperand *use = other.first;
      if (use->get() != update.parameter || shared.contains(use->getOwner()))
        return false;
      uses.push_back(use);
      return true;
    });
    gathers->gather(update.parameter, blocks, uses);
  }

  // The parameter's part, before the first op that needs it.
  bool isUsed = llvm::any_of(update.parameter.getUsers(), [&](Operation *op) {
    return update.own.contains(op);
  });
  if (isUsed) {
    builder.setInsertionPoint(update.own.front());
    partOf(update.parameter);
  }
  for (Operation *op : update.own)
    rewriteOp(op);
  for (auto [i, entry] : llvm::enumerate(update.boundary)) {
    OpOperand &slot = terminator->getOpOperand(entry.second);
    BlockArgument stored = step.getArgument(entry.first);
    if (slot.get() == stored)
      continue;
    builder.setInsertionPoint(terminator);
    Value part = partOf(slot.get());
    slot.set(i == 0 && !gathers
                 ? gather(part, whole)
                 : blocks.reshard(builder, part, layoutOf(stored)));
  }
  for (auto [use, type] : others)
    serve(*use, type);
  for (Operation *op : llvm::reverse(update.own))
    if (op->use_empty())
      op->erase();
}
