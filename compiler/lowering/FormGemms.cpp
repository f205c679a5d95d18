// form-gemms: lowers contractions to library calls.

#include <limits>

#include "compiler/lowering/DimOrder.h"
#include "compiler/lowering/Epilogue.h"
#include "compiler/lowering/GemmForm.h"
#include "compiler/lowering/GroupedGemms.h"
#include "compiler/lowering/Passes.h"
#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Rank.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_FORMGEMMS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

namespace {

/// A form in which an operand can be read: in place, looking through the
/// reshapes, transposes, slices and broadcasts that produce it; or as a
/// transposed copy.
struct OperandForm {
  StridedView view; // without a base: a view of the copy
  SmallVector<int64_t> copy;
  double nanoseconds; // to compute what is read
};

/// Lowers one contraction.
class GemmFormer {
public:
  GemmFormer(graph::MatmulOp op, target::LibraryTarget target)
      : op(op), target(target), builder(op),
        dims{SmallVector<int64_t>(op.getLhsBatch()),
             SmallVector<int64_t>(op.getRhsBatch()),
             SmallVector<int64_t>(op.getLhsContract()),
             SmallVector<int64_t>(op.getRhsContract()),
             op.getLhsFree(),
             op.getRhsFree()} {}

  LogicalResult run();

private:
  std::vector<OperandForm> traceOperand(Value value,
                                        ArrayRef<ArrayRef<int64_t>> order);
  /// The time to copy a view of `value`, an operand or the result.
  double copyTime(const StridedView &view, Value value);
  void choose();

  graph::MatmulOp op;
  target::LibraryTarget target;
  OpBuilder builder;
  ContractionDims dims;
  StridedView lhs, rhs;
  ResultForm result;
  GemmForm form;
};

} // namespace

double GemmFormer::copyTime(const StridedView &view, Value value) {
  return target.estimateCopy(
      graph::numElements(view.getShape()) *
      rank::getElementByteSize(getElementTypeOrSelf(value)));
}

/// The forms of an operand. Reading it at a step of the chain that produces it
/// costs the steps up to there. A copy to `order` (batch, rows, columns) can
/// always be read.
std::vector<OperandForm>
GemmFormer::traceOperand(Value value, ArrayRef<ArrayRef<int64_t>> order) {
  std::vector<OperandForm> forms;
  std::vector<StridedView> views = traceViews(value);
  for (auto [i, view] : llvm::enumerate(views))
    forms.push_back({view, {}, (views.size() - 1 - i) * copyTime(view, value)});
  SmallVector<int64_t> permutation, shape;
  for (ArrayRef<int64_t> group : order)
    llvm::append_range(permutation, group);
  for (int64_t from : permutation)
    shape.push_back(shapeOf(value)[from]);
  // The contraction's lists name the dims of `value`.
  StridedView view = StridedView::whole(shape);
  view.transpose(
      permutationBetween(permutation, identityOrder(permutation.size())));
  forms.push_back({view, permutation, copyTime(view, value)});
  return forms;
}

/// Chooses the cheapest call over all forms of operands and result. One always
/// exists: both operands copied to [batch, rows, columns].
void GemmFormer::choose() {
  std::vector<OperandForm> lefts = traceOperand(
                               op.getLhs(),
                               {dims.lhsBatch, dims.lhsFree, dims.lhsContract}),
                           rights = traceOperand(
                               op.getRhs(),
                               {dims.rhsBatch, dims.rhsContract, dims.rhsFree});
  std::vector<ResultForm> results = traceResults(op.getResult());
  OperandForm *left = nullptr, *right = nullptr;
  double best = std::numeric_limits<double>::infinity();
  for (OperandForm &l : lefts)
    for (OperandForm &r : rights)
      for (auto [k, candidate] : llvm::enumerate(results)) {
        auto found = findGemmForm(
            dims, l.view, r.view, candidate.view,
            [&](int64_t m, int64_t n, int64_t k, int64_t products) {
              return target.estimateProducts(m, n, k, products);
            });
        if (!found)
          continue;
        double time =
            found->nanoseconds + l.nanoseconds + r.nanoseconds +
            (results.size() - 1 - k) * copyTime(candidate.view, op.getResult());
        if (time >= best)
          continue;
        best = time;
        form = *found;
        left = &l;
        right = &r;
        result = candidate;
      }
  auto take = [&](OperandForm &chosen, Value value) {
    if (!chosen.view.base)
      chosen.view.base =
          graph::TransposeOp::create(builder, op.getLoc(), value, chosen.copy);
    return chosen.view;
  };
  lhs = take(*left, op.getLhs());
  rhs = take(*right, op.getRhs());
}

LogicalResult GemmFormer::run() {
  choose();
  Epilogue epilogue(op, result.value);
  StridedView &a = form.swapped ? rhs : lhs, &b = form.swapped ? lhs : rhs;
  builder.setInsertionPoint(epilogue.result.getDefiningOp());
  auto gemm = rank::GemmOp::create(
      builder, op.getLoc(), epilogue.result.getType(), a.base, b.base,
      epilogue.addend, /*groups=*/nullptr, /*ids=*/nullptr, form.aAccess,
      form.bAccess, form.sizes, form.row, form.batch, APFloat(epilogue.alpha),
      getAccumulator(getElementTypeOrSelf(a.base)), /*grouped=*/nullptr,
      /*call=*/nullptr, /*scratch=*/nullptr, /*buffers=*/nullptr);
  if (Result<void> has = target.checkCall(gemm); !has)
    return op.emitOpError(has.error().message);
  graph::copyProvenance(op, gemm);
  epilogue.result.replaceAllUsesWith(gemm.getResult());
  return success();
}

/// Erases unused ops, users before producers.
static void eraseDead(Operation *root) {
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) { ops.push_back(op); });
  // The walk is in post-order: within a block, producers come first.
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

namespace {
struct FormGemmsPass : lowering::impl::FormGemmsBase<FormGemmsPass> {
  void runOnOperation() override {
    graph::decomposeComposites(getOperation(), [](Operation *op) {
      return isa<graph::AttentionOp, graph::AttentionGradOp>(op);
    });
    SmallVector<Operation *> products;
    getOperation().walk([&](Operation *op) {
      if (graph::isProduct(op))
        products.push_back(op);
    });
    if (products.empty())
      return;
    auto target = target::getLibraryTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    bool failedOne = false;
    for (Operation *op : products)
      if (auto matmul = dyn_cast<graph::MatmulOp>(op))
        failedOne |= failed(GemmFormer(matmul, *target).run());
    failedOne |= failed(formGroupedGemms(getOperation(), *target));
    if (failedOne)
      return signalPassFailure();
    eraseDead(getOperation());
  }
};
} // namespace
