// Describes tensors as strided views of others, which library calls can read in
// place.

#include "compiler/lowering/StridedView.h"

#include "compiler/lowering/DimOrder.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

StridedView StridedView::whole(ArrayRef<int64_t> shape) {
  StridedView view;
  for (auto [size, stride] : llvm::zip_equal(shape, graph::getStrides(shape)))
    view.dims.push_back({{size, stride}});
  return view;
}

StridedView StridedView::whole(Value base) {
  StridedView view = whole(cast<RankedTensorType>(base.getType()).getShape());
  view.base = base;
  return view;
}

SmallVector<int64_t> StridedView::getShape() const {
  SmallVector<int64_t> shape;
  for (ArrayRef<Digit> digits : dims) {
    int64_t size = 1;
    for (Digit digit : digits)
      size *= digit.size;
    shape.push_back(size);
  }
  return shape;
}

/// Removes minor digits from `digits` until their product is `size`.
static bool takeMinor(SmallVectorImpl<Digit> &digits, int64_t size,
                      SmallVectorImpl<Digit> &taken) {
  SmallVector<Digit> minorFirst;
  while (size > 1) {
    if (digits.empty())
      return false;
    Digit last = digits.pop_back_val();
    if (last.size == 1)
      continue;
    int64_t part = std::min(last.size, size);
    if (last.size % part != 0 || size % part != 0)
      return false;
    minorFirst.push_back({part, last.stride});
    if (last.size != part)
      digits.push_back({last.size / part, last.stride * part});
    size /= part;
  }
  taken.assign(minorFirst.rbegin(), minorFirst.rend());
  return true;
}

bool StridedView::reshape(ArrayRef<int64_t> shape) {
  // Adjacent digits that one stride covers are merged, across dims too.
  SmallVector<Digit> all;
  for (ArrayRef<Digit> digits : dims)
    for (Digit digit : digits)
      if (digit.size != 1) {
        if (!all.empty() && all.back().stride == digit.size * digit.stride)
          all.back() = {all.back().size * digit.size, digit.stride};
        else
          all.push_back(digit);
      }
  dims.assign(shape.size(), {});
  for (int64_t d = shape.size() - 1; d >= 0; --d)
    if (!takeMinor(all, shape[d], dims[d]))
      return false;
  return true;
}

void StridedView::transpose(ArrayRef<int64_t> permutation) {
  auto old = dims;
  for (auto [i, from] : llvm::enumerate(permutation))
    dims[i] = old[from];
}

bool StridedView::slice(ArrayRef<int64_t> starts, ArrayRef<int64_t> limits,
                        ArrayRef<int64_t> strides) {
  SmallVector<int64_t> shape = getShape();
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t size = (limits[d] - starts[d] + strides[d] - 1) / strides[d];
    if (size == shape[d])
      continue;
    llvm::erase_if(dims[d], [](Digit digit) { return digit.size == 1; });
    if (dims[d].size() != 1)
      return false;
    int64_t stride = dims[d].front().stride;
    offset += starts[d] * stride;
    dims[d].front() = {size, stride * strides[d]};
  }
  return true;
}

void StridedView::broadcast(ArrayRef<int64_t> shape,
                            ArrayRef<int64_t> positions) {
  auto old = dims;
  dims.clear();
  for (int64_t size : shape)
    dims.push_back({{size, 0}});
  for (auto [digits, position] : llvm::zip_equal(old, positions))
    dims[position] = digits;
}

/// Turns `view` of the operand of `op` into one of its result.
static bool apply(Operation *op, StridedView &view) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](graph::ReshapeOp reshape) {
        return view.reshape(
            cast<RankedTensorType>(reshape.getResult().getType()).getShape());
      })
      .Case([&](graph::TransposeOp transpose) {
        view.transpose(transpose.getPermutation());
        return true;
      })
      .Case([&](graph::SliceOp slice) {
        return view.slice(slice.getStarts(), slice.getLimits(),
                          slice.getStrides());
      })
      .Case([&](graph::BroadcastOp broadcast) {
        view.broadcast(
            cast<RankedTensorType>(broadcast.getResult().getType()).getShape(),
            broadcast.getDims());
        return true;
      });
}

std::vector<StridedView> polyrank::lowering::traceViews(Value value) {
  std::vector<StridedView> views = {StridedView::whole(value)};
  SmallVector<Operation *> path;
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp,
             graph::BroadcastOp>(op))
      break;
    path.push_back(op);
    value = op->getOperand(0);
    StridedView view = StridedView::whole(value);
    bool strided = true;
    for (Operation *step : llvm::reverse(path))
      strided = strided && apply(step, view);
    if (!strided)
      break;
    views.push_back(view);
  }
  return views;
}

std::vector<ResultForm> polyrank::lowering::traceResults(Value result) {
  Value value = result;
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  std::vector<ResultForm> forms = {{value, StridedView::whole(shapeOf(value))}};
  SmallVector<Operation *> path;
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!isa<graph::ReshapeOp, graph::TransposeOp>(user) ||
        user->getBlock() != result.getParentBlock())
      break;
    path.push_back(user);
    value = user->getResult(0);
    // A view of the result's dims is found by inverting the steps.
    StridedView view = StridedView::whole(shapeOf(value));
    bool strided = true;
    for (Operation *step : llvm::reverse(path)) {
      if (auto transpose = dyn_cast<graph::TransposeOp>(step)) {
        ArrayRef<int64_t> order = transpose.getPermutation();
        view.transpose(permutationBetween(order, identityOrder(order.size())));
      } else {
        strided = strided && view.reshape(shapeOf(step->getOperand(0)));
      }
    }
    if (strided)
      forms.push_back({value, view});
  }
  return forms;
}

bool polyrank::lowering::refine(MutableArrayRef<SmallVector<Digit, 2>> lists) {
  SmallVector<SmallVector<Digit, 2>> minorFirst(lists.size());
  auto dropOnes = [](SmallVectorImpl<Digit> &digits) {
    while (!digits.empty() && digits.back().size == 1)
      digits.pop_back();
  };
  while (true) {
    llvm::for_each(lists, dropOnes);
    if (llvm::all_of(lists, [](auto &digits) { return digits.empty(); }))
      break;
    int64_t part = INT64_MAX;
    for (auto &digits : lists) {
      if (digits.empty())
        return false;
      part = std::min(part, digits.back().size);
    }
    for (auto [digits, result] : llvm::zip_equal(lists, minorFirst)) {
      Digit &last = digits.back();
      if (last.size % part != 0)
        return false;
      result.push_back({part, last.stride});
      last = {last.size / part, last.stride * part};
    }
  }
  for (auto [digits, result] : llvm::zip_equal(lists, minorFirst))
    digits.assign(result.rbegin(), result.rend());
  return true;
}
