// Lowers grouped GEMMs to library calls.

#include "compiler/lowering/GroupedGemms.h"

#include "compiler/lowering/Epilogue.h"
#include "compiler/lowering/GemmForm.h"
#include "compiler/lowering/StridedView.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace {

/// A matrix, or one for each group, in the form that a call reads.
struct Matrices {
  Value base;
  int64_t offset = 0, row = 1, column = 1;
  int64_t each = 0; // stride from one group's matrix to the next

  Matrices transposed() const { return {base, offset, column, row, each}; }
  SmallVector<int64_t> access() const { return {offset, row, column}; }
};

} // namespace

/// Returns nullopt if a call cannot read the last two dims of the view as
/// matrices.
static std::optional<Matrices> asMatrices(const StridedView &view) {
  SmallVector<int64_t> strides, sizes = view.getShape();
  for (const auto &digits : view.dims) {
    if (digits.size() > 1)
      return std::nullopt;
    strides.push_back(digits.empty() ? 0 : digits[0].stride);
  }
  size_t row = strides.size() - 2, column = row + 1;
  auto follow = [&](size_t inner, size_t outer) {
    return (strides[inner] == 1 || sizes[inner] == 1) &&
           (strides[outer] >= sizes[inner] || sizes[outer] == 1);
  };
  if (llvm::any_of(strides, [](int64_t stride) { return stride < 0; }) ||
      (!follow(column, row) && !follow(row, column)))
    return std::nullopt;
  // A dim of size 1 may have any stride, but the other dim needs a stride that
  // makes it a matrix.
  for (auto [at, other] : {std::pair(row, column), std::pair(column, row)})
    if (sizes[at] == 1)
      strides[at] =
          strides[other] == 1 ? std::max<int64_t>(sizes[other], 1) : 1;
  return Matrices{view.base, view.offset, strides[row], strides[column],
                  row > 0 ? strides[0] : 0};
}

/// Looks through as many views as can be read without a copy; `value` itself
/// can always be read.
static Matrices findMatrices(Value value) {
  std::vector<StridedView> views = traceViews(value);
  for (const StridedView &view : llvm::reverse(views))
    if (std::optional<Matrices> found = asMatrices(view))
      return *found;
  return *asMatrices(StridedView::whole(value));
}

static LogicalResult formGemm(Operation *op, target::LibraryTarget target,
                              const Epilogue &epilogue, const Matrices &a,
                              const Matrices &b, ArrayRef<int64_t> sizes,
                              ArrayRef<int64_t> batch, rank::Grouped grouped) {
  OpBuilder builder(epilogue.result.getDefiningOp());
  auto gemm = rank::GemmOp::create(
      builder, op->getLoc(), epilogue.result.getType(), a.base, b.base,
      epilogue.addend, op->getOperand(2), op->getOperand(3), a.access(),
      b.access(), sizes, /*row=*/sizes[1], batch, APFloat(epilogue.alpha),
      getAccumulator(getElementTypeOrSelf(a.base)),
      rank::GroupedAttr::get(op->getContext(), grouped), /*call=*/nullptr,
      /*scratch=*/nullptr, /*buffers=*/nullptr);
  if (Result<void> has = target.checkCall(gemm); !has)
    return op->emitOpError(has.error().message);
  graph::copyProvenance(op, gemm);
  Value result = epilogue.result;
  result.replaceAllUsesWith(gemm.getResult());
  return success();
}

static LogicalResult form(graph::GroupedMatmulOp op,
                          target::LibraryTarget target) {
  Matrices rows = findMatrices(op.getRows()),
           matrices = findMatrices(op.getMatrices());
  ArrayRef<int64_t> shape = graph::getShape(op.getMatrices());
  return formGemm(op, target, Epilogue(op, op.getResult()), rows, matrices,
                  {graph::getShape(op.getRows())[0], shape[2], shape[1]},
                  {shape[0], 0, matrices.each, 0}, rank::Grouped::Rows);
}

/// If only the transpose of its result is needed, the product is computed with
/// its operands swapped.
static LogicalResult form(graph::GroupedOuterOp op,
                          target::LibraryTarget target) {
  Matrices rows = findMatrices(op.getRows()),
           others = findMatrices(op.getOthers());
  Value result = op.getResult();
  ArrayRef<int64_t> shape = graph::getShape(result);
  int64_t height = shape[1], width = shape[2];
  if (result.hasOneUse())
    if (auto transpose = dyn_cast<graph::TransposeOp>(*result.user_begin());
        transpose && transpose->getBlock() == op->getBlock() &&
        transpose.getPermutation() == ArrayRef<int64_t>{0, 2, 1}) {
      std::swap(rows, others);
      std::swap(height, width);
      result = transpose.getResult();
    }
  return formGemm(op, target, Epilogue(op, result), rows.transposed(), others,
                  {height, width, graph::getShape(op.getRows())[0]},
                  {shape[0], 0, 0, height * width}, rank::Grouped::Inner);
}

LogicalResult
polyrank::lowering::formGroupedGemms(Operation *root,
                                     target::LibraryTarget target) {
  SmallVector<Operation *> products;
  root->walk([&](Operation *op) {
    if (isa<graph::GroupedMatmulOp, graph::GroupedOuterOp>(op))
      products.push_back(op);
  });
  LogicalResult result = success();
  for (Operation *op : products) {
    auto matmul = dyn_cast<graph::GroupedMatmulOp>(op);
    if (failed(matmul ? form(matmul, target)
                      : form(cast<graph::GroupedOuterOp>(op), target)))
      result = failure();
  }
  return result;
}
