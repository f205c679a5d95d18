// Finds library calls for contractions of strided tensors.

#include "compiler/lowering/GemmForm.h"

#include "dialects/graph/ElementTypes.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

TypeAttr polyrank::lowering::getAccumulator(Type element) {
  Type accumulator = graph::accumulatorOf(element);
  return accumulator == element ? TypeAttr() : TypeAttr::get(accumulator);
}

namespace {
enum class Role { Batch, Row, Column, Contracted };

/// One loop of the contraction, with its strides in a, b and the result.
struct Loop {
  Role role;
  int64_t size, a, b, c;
};
} // namespace

/// Turns digits of dims that belong together into loops, minor ones last. An
/// absent (null) dim list has stride 0.
static bool addLoops(Role role, ArrayRef<const SmallVector<Digit, 2> *> dims,
                     SmallVectorImpl<Loop> &loops) {
  SmallVector<SmallVector<Digit, 2>> lists;
  for (auto *digits : dims)
    if (digits)
      lists.push_back(*digits);
  if (!refine(lists))
    return false;
  for (size_t i = 0; i < lists.front().size(); ++i) {
    Loop loop{role, lists.front()[i].size, 0, 0, 0};
    int64_t *strides[] = {&loop.a, &loop.b, &loop.c};
    auto list = lists.begin();
    for (auto [digits, stride] : llvm::zip_equal(dims, strides))
      if (digits)
        *stride = (*list++)[i].stride;
    loops.push_back(loop);
  }
  return true;
}

/// Merges two loops whose strides nest in every tensor.
static void mergeLoops(SmallVectorImpl<Loop> &loops) {
  auto nest = [](const Loop &major, const Loop &minor) {
    return major.role == minor.role && major.a == minor.size * minor.a &&
           major.b == minor.size * minor.b && major.c == minor.size * minor.c;
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < loops.size() && !changed; ++i)
      for (size_t j = 0; j < loops.size() && !changed; ++j)
        if (i != j && nest(loops[i], loops[j])) {
          loops[j].size *= loops[i].size;
          loops.erase(loops.begin() + i);
          changed = true;
        }
  }
}

/// Returns true if a library can read a rows x columns matrix with these
/// strides.
static bool isMatrix(int64_t rows, int64_t columns, int64_t rowStride,
                     int64_t columnStride) {
  return ((columnStride == 1 || columns == 1) &&
          (rowStride >= columns || rows == 1)) ||
         ((rowStride == 1 || rows == 1) &&
          (columnStride >= rows || columns == 1));
}

/// The form with these loops as rows, columns and contraction, and the others
/// as batch. nullopt if a matrix has no unit stride.
static std::optional<GemmForm> makeForm(ArrayRef<Loop> loops, const Loop &row,
                                        const Loop &column, const Loop &inner,
                                        int64_t aOffset, int64_t bOffset,
                                        EstimateProducts estimate) {
  int64_t m = row.size, n = column.size, k = inner.size;
  // The stride of a dim of extent 1 is free: use a valid leading dim.
  int64_t c = m == 1 ? n : row.c;
  if ((column.c != 1 && n != 1) || c < n || !isMatrix(m, k, row.a, inner.a) ||
      !isMatrix(k, n, inner.b, column.b))
    return std::nullopt;
  GemmForm form;
  form.sizes = {m, n, k};
  form.row = c;
  auto access = [](int64_t offset, int64_t rows, int64_t columns,
                   int64_t rowStride, int64_t columnStride) {
    if (rows == 1 && columns == 1)
      return SmallVector<int64_t>{offset, 1, 1};
    if (columns == 1 && rowStride != 1)
      columnStride = 1;
    else if (columns == 1)
      columnStride = rows;
    if (rows == 1 && columnStride != 1)
      rowStride = 1;
    else if (rows == 1)
      rowStride = columns;
    return SmallVector<int64_t>{offset, rowStride, columnStride};
  };
  form.aAccess = access(aOffset, m, k, row.a, inner.a);
  form.bAccess = access(bOffset, k, n, inner.b, column.b);
  SmallVector<Loop> batch;
  for (const Loop &loop : loops)
    if (&loop != &row && &loop != &column && &loop != &inner) {
      if (loop.role == Role::Contracted)
        return std::nullopt;
      batch.push_back(loop);
      batch.back().role = Role::Batch;
    }
  mergeLoops(batch);
  llvm::sort(batch, [](const Loop &x, const Loop &y) { return x.c > y.c; });
  int64_t calls = 1;
  for (const Loop &loop : batch) {
    form.batch.append({loop.size, loop.a, loop.b, loop.c});
    calls *= loop.size;
  }
  form.nanoseconds = estimate(m, n, k, calls);
  return form;
}

std::optional<GemmForm> polyrank::lowering::findGemmForm(
    const ContractionDims &dims, const StridedView &lhs, const StridedView &rhs,
    const StridedView &result, EstimateProducts estimate) {
  SmallVector<Loop> loops;
  auto resultDim = result.dims.begin();
  for (auto [l, r] : llvm::zip_equal(dims.lhsBatch, dims.rhsBatch))
    if (!addLoops(Role::Batch, {&lhs.dims[l], &rhs.dims[r], &*resultDim++},
                  loops))
      return std::nullopt;
  for (int64_t l : dims.lhsFree)
    if (!addLoops(Role::Row, {&lhs.dims[l], nullptr, &*resultDim++}, loops))
      return std::nullopt;
  for (int64_t r : dims.rhsFree)
    if (!addLoops(Role::Column, {nullptr, &rhs.dims[r], &*resultDim++}, loops))
      return std::nullopt;
  for (auto [l, r] : llvm::zip_equal(dims.lhsContract, dims.rhsContract))
    if (!addLoops(Role::Contracted, {&lhs.dims[l], &rhs.dims[r], nullptr},
                  loops))
      return std::nullopt;
  mergeLoops(loops);

  std::optional<GemmForm> best;
  for (bool swapped : {false, true}) {
    if (swapped)
      for (Loop &loop : loops) {
        std::swap(loop.a, loop.b);
        if (loop.role == Role::Row)
          loop.role = Role::Column;
        else if (loop.role == Role::Column)
          loop.role = Role::Row;
      }
    // If no loop has a role, a loop of size 1 takes it.
    const Loop none{Role::Batch, 1, 1, 1, 1};
    auto ofRole = [&](Role role) {
      SmallVector<const Loop *> found;
      for (const Loop &loop : loops)
        if (loop.role == role)
          found.push_back(&loop);
      // A row or column loop may also become part of the batch.
      if (role != Role::Contracted || found.empty())
        found.push_back(&none);
      return found;
    };
    for (const Loop *row : ofRole(Role::Row))
      for (const Loop *column : ofRole(Role::Column))
        for (const Loop *inner : ofRole(Role::Contracted)) {
          std::optional<GemmForm> form = makeForm(
              loops, *row, *column, *inner, swapped ? rhs.offset : lhs.offset,
              swapped ? lhs.offset : rhs.offset, estimate);
          if (!form || (best && best->nanoseconds <= form->nanoseconds))
            continue;
          best = form;
          best->swapped = swapped;
        }
  }
  return best;
}
