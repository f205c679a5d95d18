// Views of a parameter: blocks of it, permuted, reshaped and repeated.

#include "frontends/onnx/ParameterViews.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "support/ElementValues.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

using Dims = std::vector<int64_t>;

static int64_t product(ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

bool loadFloats(const Model &model, const StoredTensor &tensor, bool transposed,
                StoredFloats &into) {
  std::vector<char> bytes;
  if (!isFloat(tensor.type) || !model.load(tensor, bytes))
    return false;
  into.dims = tensor.dims;
  into.values.resize(product(tensor.dims));
  size_t width = bytesOf(tensor.type);
  auto read = [&](size_t i) {
    const char *at = bytes.data() + i * width;
    return visitElements(tensor.type, [&]<typename T>(T) {
      return static_cast<float>(Arithmetic<T>(loadElement<T>(at)));
    });
  };
  if (!transposed) {
    for (size_t i = 0; i < into.values.size(); ++i)
      into.values[i] = read(i);
    return true;
  }
  size_t rows = tensor.dims[0], columns = tensor.dims[1];
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column)
      into.values[column * rows + row] = read(row * columns + column);
  std::swap(into.dims[0], into.dims[1]);
  return true;
}

ViewMap::ViewMap(const Expression &view, ArrayRef<int64_t> from,
                 ArrayRef<int64_t> to) {
  int64_t stride = 1;
  for (size_t i = to.size(); i-- > 0;) {
    outer.push_back({to[i], view.shape[i] == 1 ? 0 : stride});
    stride *= view.shape[i];
  }
  Dims strides(from.size(), 1);
  for (size_t i = from.size(); i-- > 1;)
    strides[i - 1] = strides[i] * from[i];
  for (size_t i = from.size(); i-- > 0;) {
    int64_t dim = view.permutation[i];
    inner.push_back({view.limits[dim] - view.starts[dim], strides[dim]});
    start += view.starts[i] * strides[i];
  }
}

int64_t ViewMap::operator()(int64_t element) const {
  int64_t inBlock = 0, result = start;
  for (Dim dim : outer) {
    inBlock += element % dim.size * dim.stride;
    element /= dim.size;
  }
  for (Dim dim : inner) {
    result += inBlock % dim.size * dim.stride;
    inBlock /= dim.size;
  }
  return result;
}

std::vector<int64_t> unravel(int64_t element, ArrayRef<int64_t> dims) {
  Dims index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    index[i] = element % dims[i];
    element /= dims[i];
  }
  return index;
}

bool moveTo(Expression &view, ArrayRef<int64_t> starts,
            ArrayRef<int64_t> from) {
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t size = view.limits[i] - view.starts[i];
    view.starts[i] = starts[i];
    view.limits[i] = starts[i] + size;
    if (view.limits[i] > from[i])
      return false;
  }
  return true;
}

/// The orders of the dims, the given one first; if there are many dims, only
/// that one.
static std::vector<Dims> permutationsOf(ArrayRef<int64_t> dims) {
  constexpr size_t mostDims = 4;
  Dims order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<Dims> all;
  std::set<Dims> seen; // dims of size 1 may be anywhere
  do {
    Dims large;
    for (int64_t dim : order)
      if (dims[dim] != 1)
        large.push_back(dim);
    if (seen.insert(large).second)
      all.push_back(order);
  } while (dims.size() <= mostDims &&
           std::next_permutation(order.begin(), order.end()));
  return all;
}

/// Calls `found` with each assignment of sizes to the permuted dims in which
/// the dims of `shape` larger than 1 appear in order, and all other sizes are
/// 1.
static void matchDims(ArrayRef<int64_t> permuted, ArrayRef<int64_t> shape,
                      Dims &sizes,
                      function_ref<void(ArrayRef<int64_t>)> found) {
  while (!shape.empty() && shape.front() == 1)
    shape = shape.drop_front();
  if (permuted.empty()) {
    if (shape.empty())
      found(sizes);
    return;
  }
  sizes.push_back(1);
  matchDims(permuted.drop_front(), shape, sizes, found);
  sizes.pop_back();
  if (shape.empty() || shape.front() > permuted.front())
    return;
  sizes.push_back(shape.front());
  matchDims(permuted.drop_front(), shape.drop_front(), sizes, found);
  sizes.pop_back();
}

std::vector<Expression> enumerateViews(size_t parameter, ArrayRef<int64_t> from,
                                       ArrayRef<int64_t> to,
                                       ArrayRef<int64_t> repeated) {
  std::set<Dims> shapes = {Dims(to.begin(), to.end())};
  Dims shape(to.begin(), to.end());
  for (int64_t dim : repeated)
    shape[dim] = 1;
  shapes.insert(shape);
  // The whole tensor, broadcast as in NumPy.
  if (from.size() <= to.size()) {
    Dims padded(to.size() - from.size(), 1);
    padded.insert(padded.end(), from.begin(), from.end());
    bool fits = true;
    for (size_t i = 0; i < to.size(); ++i)
      fits &= padded[i] == 1 || padded[i] == to[i];
    if (fits)
      shapes.insert(padded);
  }
  std::vector<Expression> views;
  std::set<std::vector<Dims>> seen;
  for (const Dims &shape : shapes) {
    int64_t count = product(shape), all = product(from);
    if (count > all)
      continue;
    for (const Dims &permutation : permutationsOf(from)) {
      auto add = [&](ArrayRef<int64_t> block) {
        Expression view;
        view.parameter = parameter;
        view.starts.assign(from.size(), 0);
        view.limits.assign(block.begin(), block.end());
        view.permutation = permutation;
        view.shape = shape;
        Dims order; // the order of the remaining dims
        for (int64_t dim : permutation)
          if (block[dim] != 1)
            order.push_back(dim);
        if (seen.insert({view.limits, order, shape}).second)
          views.push_back(std::move(view));
      };
      if (count == all) {
        add(from);
        continue;
      }
      for (size_t dim = 0; dim < from.size(); ++dim)
        if (int64_t rest = all / from[dim];
            count % rest == 0 && count / rest < from[dim]) {
          Dims block(from.begin(), from.end());
          block[dim] = count / rest;
          add(block);
        }
      Dims permuted, sizes;
      for (int64_t dim : permutation)
        permuted.push_back(from[dim]);
      matchDims(permuted, shape, sizes, [&](ArrayRef<int64_t> found) {
        Dims block(from.size());
        for (size_t i = 0; i < found.size(); ++i)
          block[permutation[i]] = found[i];
        add(block);
      });
    }
  }
  // The whole tensor comes first: a constant with few distinct elements has
  // many views, and not all are tried.
  std::stable_partition(views.begin(), views.end(),
                        [&](const Expression &view) {
                          return ArrayRef<int64_t>(view.limits) == from;
                        });
  return views;
}

} // namespace polyrank::frontends::onnx
