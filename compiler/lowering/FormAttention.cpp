// form-attention: lowers attention and its gradient to library calls.

#include "compiler/lowering/DimOrder.h"
#include "compiler/lowering/Passes.h"
#include "compiler/lowering/StridedView.h"
#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_FORMATTENTION
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

/// The strides of sample, head and row, if the view of [batch, heads, rows,
/// width] has rows of neighbours that do not run into each other.
static std::optional<SmallVector<int64_t>> rowStrides(const StridedView &view) {
  SmallVector<int64_t> strides;
  int64_t width = view.getShape().back();
  for (auto [dim, digits] : llvm::enumerate(view.dims)) {
    // Digits that one stride covers are one.
    std::optional<Digit> merged;
    for (Digit digit : digits) {
      if (digit.size == 1)
        continue;
      if (merged && merged->stride != digit.size * digit.stride)
        return std::nullopt;
      merged = {(merged ? merged->size : 1) * digit.size, digit.stride};
    }
    bool isRow = dim == 2, isWidth = dim == 3;
    int64_t stride = merged ? merged->stride : isRow ? width : isWidth ? 1 : 0;
    if ((isRow && stride < width) || (isWidth && stride != 1))
      return std::nullopt;
    if (!isWidth)
      strides.push_back(stride);
  }
  return strides;
}

namespace {

/// Lowers one attention, or one gradient of it.
class AttentionFormer {
public:
  AttentionFormer(Operation *op, target::LibraryTarget target)
      : op(op), target(target), builder(op) {}

  rank::LibraryCallOp form() {
    if (auto forward = dyn_cast<graph::AttentionOp>(op))
      return cast<rank::LibraryCallOp>(*form(forward));
    return cast<rank::LibraryCallOp>(*form(cast<graph::AttentionGradOp>(op)));
  }

  /// If a reshape or transpose uses the result, and otherwise only gradients of
  /// the attention do, lets these read it as that writes it. Returns true if
  /// the program has changed.
  static bool leaveOneUse(graph::AttentionOp op);

  /// Puts the call in the place of the op.
  void take(rank::LibraryCallOp call);

private:
  rank::AttentionOp form(graph::AttentionOp op);
  rank::AttentionGradOp form(graph::AttentionGradOp op);
  /// Where an operand is read: at the step of the chain of reshapes,
  /// transposes, slices and broadcasts that is farthest from it.
  struct Read {
    Value base;
    SmallVector<int64_t> access;
  };
  Read read(Value value);
  /// The result, or the last of the reshapes and transposes that are its only
  /// use, as which it is written.
  struct Written {
    Value value; // of which the call gives the type
    SmallVector<int64_t> access;
  };
  Written write(Value result);
  DenseI64ArrayAttr list(ArrayRef<int64_t> numbers) {
    return builder.getDenseI64ArrayAttr(numbers);
  }

  Operation *op;
  target::LibraryTarget target;
  OpBuilder builder;
  SmallVector<Value> replaced; // by the results of the call
};

} // namespace

AttentionFormer::Read AttentionFormer::read(Value value) {
  Read result;
  for (const StridedView &view : traceViews(value)) {
    auto strides = rowStrides(view);
    if (!strides)
      continue;
    result.base = view.base;
    result.access = {view.offset};
    llvm::append_range(result.access, *strides);
  }
  return result;
}

AttentionFormer::Written AttentionFormer::write(Value result) {
  Written written{result, *rowStrides(StridedView::whole(result))};
  for (const auto &[value, view] : traceResults(result))
    if (auto strides = rowStrides(view))
      written = {value, *strides};
  replaced.push_back(written.value);
  return written;
}

static SmallVector<int64_t> sizesOf(const graph::AttentionSizes &sizes) {
  return {sizes.batch, sizes.heads, sizes.groups,    sizes.queries,
          sizes.keys,  sizes.width, sizes.valueWidth};
}

/// Undoes reshapes and transposes, the last one first.
static Value invert(OpBuilder &builder, ArrayRef<Operation *> steps,
                    Value value) {
  for (Operation *step : llvm::reverse(steps)) {
    if (auto transpose = dyn_cast<graph::TransposeOp>(step)) {
      ArrayRef<int64_t> order = transpose.getPermutation();
      value = graph::TransposeOp::create(
          builder, step->getLoc(), value,
          permutationBetween(order, identityOrder(order.size())));
    } else {
      value = graph::ReshapeOp::create(builder, step->getLoc(),
                                       step->getOperand(0).getType(), value);
    }
  }
  return value;
}

bool AttentionFormer::leaveOneUse(graph::AttentionOp op) {
  Value result = op.getResult();
  Operation *first = nullptr;
  SmallVector<Operation *> gradients;
  for (Operation *user : result.getUsers()) {
    if (user->getBlock() != op->getBlock())
      return false;
    if (isa<graph::AttentionGradOp>(user))
      gradients.push_back(user);
    else if (!first && isa<graph::ReshapeOp, graph::TransposeOp>(user))
      first = user;
    else
      return false;
  }
  if (!first || gradients.empty())
    return false;
  SmallVector<Operation *> steps{first};
  while (steps.back()->getResult(0).hasOneUse()) {
    Operation *next = *steps.back()->user_begin();
    if (!isa<graph::ReshapeOp, graph::TransposeOp>(next) ||
        next->getBlock() != op->getBlock())
      break;
    steps.push_back(next);
  }
  if (llvm::any_of(gradients, [&](Operation *gradient) {
        return gradient->isBeforeInBlock(steps.back());
      }))
    return false;
  // Where the last steps are not strided, nothing is lost: gradients read what
  // is.
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(steps.back());
  Value same = invert(builder, steps, steps.back()->getResult(0));
  for (Operation *gradient : gradients)
    gradient->replaceUsesOfWith(result, same);
  return true;
}

rank::AttentionOp AttentionFormer::form(graph::AttentionOp op) {
  Read query = read(op.getQuery()), key = read(op.getKey()),
       value = read(op.getValue());
  Written result = write(op.getResult());
  replaced.push_back(op.getLse());
  auto call = rank::AttentionOp::create(
      builder, op.getLoc(), result.value.getType(), op.getLse().getType(),
      query.base, key.base, value.base, op.getBias(), op.getMask(),
      op.getCounters(), list(sizesOf(op.getSizes())), list(query.access),
      list(key.access), list(value.access), list(result.access),
      op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(),
      op.getSoftcapAttr(), op.getMaskedAttr(), op.getFillAttr(),
      op.getRateAttr(), op.getRngIdAttr(), op.getGlobalShapeAttr(),
      /*call=*/nullptr,
      /*scratch=*/nullptr, /*buffers=*/nullptr);
  return call;
}

rank::AttentionGradOp AttentionFormer::form(graph::AttentionGradOp op) {
  Read gradient = read(op.getResultGradient()), query = read(op.getQuery()),
       key = read(op.getKey()), value = read(op.getValue()),
       result = read(op.getResultValue());
  SmallVector<Type> types;
  SmallVector<SmallVector<int64_t>> accesses;
  for (Value each :
       {op.getQueryGradient(), op.getKeyGradient(), op.getValueGradient()}) {
    Written written = write(each);
    types.push_back(written.value.getType());
    accesses.push_back(written.access);
  }
  if (Value bias = op.getBiasGradient()) {
    types.push_back(bias.getType());
    replaced.push_back(bias);
  }
  auto call = rank::AttentionGradOp::create(
      builder, op.getLoc(), types, gradient.base, query.base, key.base,
      value.base, result.base, op.getLse(), op.getBias(), op.getMask(),
      op.getCounters(), list(sizesOf(op.getSizes())), list(query.access),
      list(key.access), list(value.access), list(result.access),
      op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(),
      op.getSoftcapAttr(), op.getMaskedAttr(), op.getFillAttr(),
      op.getRateAttr(), op.getRngIdAttr(), op.getGlobalShapeAttr(),
      list(gradient.access), list(accesses[0]), list(accesses[1]),
      list(accesses[2]), /*call=*/nullptr, /*scratch=*/nullptr,
      /*buffers=*/nullptr);
  return call;
}

void AttentionFormer::take(rank::LibraryCallOp call) {
  graph::copyProvenance(op, call);
  for (auto [old, result] : llvm::zip_equal(replaced, call->getResults()))
    old.replaceAllUsesWith(result);
  // The call writes the results of later reshapes and transposes itself: these
  // ops are erased with the op.
  SmallVector<Operation *> dead;
  for (Value old : replaced)
    for (Operation *step = old.getDefiningOp(); step != op;
         step = step->getOperand(0).getDefiningOp())
      dead.push_back(step);
  SmallVector<Value> operands(op->getOperands());
  for (Operation *step : dead)
    step->erase();
  op->erase();
  while (!operands.empty()) {
    Operation *step = operands.pop_back_val().getDefiningOp();
    if (!step || !isOpTriviallyDead(step))
      continue;
    llvm::append_range(operands, step->getOperands());
    llvm::erase_if(operands,
                   [&](Value value) { return value.getDefiningOp() == step; });
    step->erase();
  }
}

namespace {
struct FormAttentionPass
    : lowering::impl::FormAttentionBase<FormAttentionPass> {
  using FormAttentionBase::FormAttentionBase;

  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<graph::AttentionOp, graph::AttentionGradOp>(op))
        ops.push_back(op);
    });
    if (ops.empty() || attention == AttentionKind::Parts)
      return;
    auto target = target::getLibraryTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    bool failedOne = false;
    for (Operation *op : ops) {
      AttentionFormer former(op, *target);
      rank::LibraryCallOp call = former.form();
      Result<void> has = target->checkCall(call);
      if (!has && attention == AttentionKind::Fused) {
        op->emitOpError(has.error().message);
        failedOne = true;
      }
      bool isCall = has && (attention == AttentionKind::Fused ||
                            target->isFasterThanParts(call));
      if (!isCall) {
        call->erase();
        continue;
      }
      auto forward = dyn_cast<graph::AttentionOp>(op);
      if (forward && AttentionFormer::leaveOneUse(forward)) {
        call->erase();
        former = AttentionFormer(op, *target);
        call = former.form();
      }
      former.take(call);
    }
    if (failedOne)
      signalPassFailure();
  }
};
} // namespace
