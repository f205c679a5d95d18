// Indexing by several tensors at once.

#include "frontends/aten/Indexing.h"

#include "frontends/emit/Indices.h"

using namespace mlir;

namespace polyrank::frontends::aten {

graph::Tensor nonzeroPlaces(Emitter &emit, const graph::Tensor &x) {
  SmallVector<int64_t> found, strides = graph::getStrides(x.shape);
  for (int64_t i = 0; i < x.size(); ++i)
    if (x.at(i) != 0)
      found.push_back(i);
  auto count = static_cast<int64_t>(found.size());
  graph::Tensor result(emit.getBuilder().getI64Type(), {x.getRank(), count});
  for (int64_t dim = 0; dim < x.getRank(); ++dim)
    for (int64_t i = 0; i < count; ++i)
      result.integers[dim * count + i] = found[i] / strides[dim] % x.shape[dim];
  return result;
}

FailureOr<Places> findPlaces(Call &c, const Shape &shape,
                             ArrayRef<TensorRef> indices) {
  Places places;
  SmallVector<Imported> given;
  int64_t dim = 0;
  auto rank = static_cast<int64_t>(shape.size());
  for (const TensorRef &each : indices) {
    if (!each) {
      ++dim;
      continue;
    }
    if (isFloat(each->getType()))
      return c.fail("indices of " + longNameOf(each->getType()));
    Imported x = each->read(c.emit);
    bool isMask = each->getType() == ElementType::BOOL ||
                  each->getType() == ElementType::U8;
    int64_t taken = isMask ? each->getRank() : 1;
    if (dim + taken > rank)
      return c.fail("indices into more dims than " + toString(shape) + " has");
    if (!isMask) {
      given.push_back(x);
      places.dims.push_back(dim++);
      continue;
    }
    if (!x.isConstant())
      return c.fail("a mask as an index, whose number of elements depends on "
                    "the values of inputs or parameters, and all shapes are "
                    "known when a model is compiled; keep all elements and "
                    "weigh those that do not count by 0 (torch.where)");
    for (int64_t i = 0; i < taken; ++i)
      if (each->getShape()[i] != shape[dim + i])
        return c.fail("a mask of " + toString(each->getShape()) + " into " +
                      toString(shape));
    graph::Tensor found = nonzeroPlaces(c.emit, *x.constant);
    int64_t count = found.shape[1];
    for (int64_t i = 0; i < taken; ++i) {
      graph::Tensor along(found.elementType, {count});
      std::copy_n(found.integers.begin() + i * count, count,
                  along.integers.begin());
      given.push_back(std::move(along));
      places.dims.push_back(dim++);
    }
  }
  if (places.dims.empty())
    return places;
  auto together = c.emit.broadcastAll(given);
  if (failed(together))
    return failure();
  SmallVector<int64_t> sizes;
  for (auto [index, at] : llvm::zip_equal(*together, places.dims)) {
    sizes.push_back(shape[at]);
    index = wrapIndices(c.emit,
                        c.emit.convert(index, c.emit.getBuilder().getI64Type()),
                        shape[at]);
    if (index.isConstant())
      for (int64_t each : index.constant->integers)
        if (each < 0 || each >= shape[at])
          return c.fail("index " + Twine(each) + " into a dim of " +
                        Twine(shape[at]));
  }
  places.mayPick = places.dims.size() == 1;
  places.index = places.mayPick
                     ? (*together)[0]
                     : linearIndex(c.emit, *together, graph::getStrides(sizes));
  bool areNeighbours = places.dims.back() - places.dims.front() + 1 ==
                       static_cast<int64_t>(places.dims.size());
  places.at = areNeighbours ? places.dims.front() : 0;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(places.dims, i))
      places.order.push_back(i);
  places.order.insert(places.order.begin() + places.at, places.dims.begin(),
                      places.dims.end());
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(places.dims, i))
      places.merged.push_back(shape[i]);
  places.merged.insert(places.merged.begin() + places.at, countElements(sizes));
  return places;
}

} // namespace polyrank::frontends::aten
