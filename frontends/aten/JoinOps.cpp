// Operators that join, repeat, move and pad tensors.

#include "frontends/aten/Call.h"
#include "frontends/emit/Padding.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

//===-- one beside the other ---------------------------------------------===//

/// The tensors of list `tensors`, converted to their common type.
struct Parts {
  ElementType type;
  SmallVector<Imported> tensors;
};

FailureOr<Parts> getParts(Call &c) {
  std::vector<TensorRef> given = c.tensors("tensors");
  if (given.empty())
    return c.fail("its list of tensors is empty");
  Parts parts{given[0]->getType(), {}};
  for (const TensorRef &each : given)
    parts.type = promoteTypes(parts.type, each->getType());
  for (const TensorRef &each : given)
    parts.tensors.push_back(c.as(Value(each), parts.type));
  return parts;
}

LogicalResult concat(Call &c, Parts parts, int64_t dim) {
  Shape first = parts.tensors[0].getShape();
  for (const Imported &part : parts.tensors) {
    Shape shape = part.getShape(), expected = first;
    if (shape.size() == first.size())
      expected[dim] = shape[dim];
    if (shape != expected)
      return c.fail(toString(first) + " and " + toString(shape) +
                    " along dim " + Twine(dim));
  }
  return c.give(c.emit.concat(parts.tensors, dim), parts.type);
}

LogicalResult cat(Call &c) {
  auto parts = getParts(c);
  if (failed(parts))
    return failure();
  // Vectors without elements fit any shape (a cache before the first token).
  SmallVector<Imported> kept;
  for (const Imported &part : parts->tensors)
    if (part.getShape() != Shape{0})
      kept.push_back(part);
  if (kept.empty())
    return c.give(parts->tensors[0], parts->type);
  parts->tensors = kept;
  auto dim = c.dim(c.integer("dim"), kept[0].getRank());
  if (failed(dim))
    return failure();
  if (kept[0].getRank() == 0)
    return c.fail("tensors without dims; use stack");
  return concat(c, std::move(*parts), *dim);
}

/// Stacks along dim 1, or vectors along their only dim; with `isBelow` along
/// dim 0, where vectors are rows.
template <bool isBelow>
LogicalResult stackAlong(Call &c) {
  auto parts = getParts(c);
  if (failed(parts))
    return failure();
  int64_t least = isBelow ? 2 : 1;
  for (Imported &part : parts->tensors)
    while (part.getRank() < least) {
      Shape shape = part.getShape();
      shape.insert(shape.begin(), 1);
      part = c.emit.reshape(part, shape);
    }
  int64_t dim = isBelow || parts->tensors[0].getRank() == 1 ? 0 : 1;
  return concat(c, std::move(*parts), dim);
}

LogicalResult stack(Call &c) {
  auto parts = getParts(c);
  if (failed(parts))
    return failure();
  Shape shape = parts->tensors[0].getShape();
  auto dim = c.dim(c.integer("dim"), shape.size() + 1);
  if (failed(dim))
    return failure();
  Shape apart = shape;
  apart.insert(apart.begin() + *dim, 1);
  for (Imported &part : parts->tensors) {
    if (part.getShape() != shape)
      return c.fail(toString(shape) + " and " + toString(part.getShape()));
    part = c.emit.reshape(part, apart);
  }
  return concat(c, std::move(*parts), *dim);
}

LogicalResult broadcastTensors(Call &c) {
  Shape shape;
  for (const TensorRef &each : c.tensors("tensors")) {
    auto common = broadcastShapes(shape, each->getShape());
    if (failed(common))
      return c.fail(toString(shape) + " and " + toString(each->getShape()) +
                    " do not go together");
    shape = *common;
  }
  List results;
  for (const TensorRef &each : c.tensors("tensors"))
    results.push_back(
        Value(Tensor::viewOf(c.emit, each, {View::Kind::Broadcast, shape})));
  return c.give(Value::list(std::move(results)));
}

/// Repeats vector i along dim i of all results; with "xy" the first two dims
/// are swapped.
LogicalResult meshgrid(Call &c) {
  std::vector<TensorRef> given = c.tensors("tensors");
  StringRef indexing = c.has("indexing") ? c.text("indexing") : "ij";
  if (indexing != "ij" && indexing != "xy")
    return c.fail("indexing='" + indexing + "'");
  bool swaps = indexing == "xy" && given.size() > 1;
  Shape shape;
  for (const TensorRef &each : given)
    shape.push_back(countElements(each->getShape()));
  if (swaps)
    std::swap(shape[0], shape[1]);
  List results;
  for (auto [i, each] : llvm::enumerate(given)) {
    Shape along(given.size(), 1);
    size_t dim = swaps && i < 2 ? 1 - i : i;
    along[dim] = shape[dim];
    Imported x = c.emit.reshape(each->read(c.emit), along);
    results.push_back(Value(std::make_shared<Tensor>(
        c.emit.broadcast(x, shape, !x.isConstant()), each->getType())));
  }
  return c.give(Value::list(std::move(results)));
}

//===-- repetition -------------------------------------------------------===//

/// Repeats x `times` along each dim; missing leading dims have size 1.
FailureOr<Imported> repeated(Call &c, Imported x, ArrayRef<int64_t> times) {
  Shape shape = x.getShape();
  if (times.size() < shape.size())
    return c.fail("it repeats " + toString(shape) + " by " + toString(times));
  shape.insert(shape.begin(), times.size() - shape.size(), 1);
  Shape apart, spread, result;
  for (auto [size, count] : llvm::zip_equal(shape, times)) {
    if (count < 0)
      return c.fail("it repeats by " + toString(times));
    if (count != 1) {
      apart.push_back(1);
      spread.push_back(count);
    }
    apart.push_back(size);
    spread.push_back(size);
    result.push_back(countElements({size, count}));
  }
  if (failed(c.emit.fits(result)))
    return failure();
  x = c.emit.broadcast(c.emit.reshape(x, apart), spread, !x.isConstant());
  return c.emit.reshape(x, result);
}

LogicalResult repeat(Call &c) {
  return c.give(repeated(c, c.read("self"), c.integers("repeats")),
                c.typeOf("self"));
}

LogicalResult tile(Call &c) {
  SmallVector<int64_t> times = c.integers("dims");
  int64_t rank = c.tensor("self")->getRank();
  while (static_cast<int64_t>(times.size()) < rank)
    times.insert(times.begin(), 1);
  return c.give(repeated(c, c.read("self"), times), c.typeOf("self"));
}

/// Repeats each element `repeats` times, consecutively, along `dim`.
LogicalResult repeatInterleave(Call &c) {
  Imported x = c.read("self");
  int64_t dim = 0;
  if (c.has("dim")) {
    auto given = c.dim(c.integer("dim"), x.getRank());
    if (failed(given))
      return failure();
    dim = *given;
  } else {
    x = c.emit.reshape(x, {countElements(x.getShape())});
  }
  if (x.getRank() == 0)
    x = c.emit.reshape(x, {1});
  Shape shape = x.getShape(), apart = shape, spread = shape;
  if (c["repeats"].isTensor()) {
    if (failed(c.needIntegers("repeats")))
      return failure();
    Imported counts = c.read("repeats");
    if (!counts.isConstant())
      return c.fail("its repeats depend on the values of inputs or parameters, "
                    "but must be known when the model is compiled");
    SmallVector<int64_t> sources;
    int64_t all = counts.constant->size();
    if (all != shape[dim] && all != 1)
      return c.fail(Twine(all) + " repeats of a dim of " + Twine(shape[dim]));
    for (int64_t i = 0; i < shape[dim]; ++i) {
      int64_t times = counts.constant->integers[all == 1 ? 0 : i];
      if (times < 0)
        return c.fail("it repeats by " + Twine(times));
      if (times > maxFolded - static_cast<int64_t>(sources.size()))
        return c.fail("its repeats give more than " + Twine(maxFolded) +
                      " elements");
      sources.append(times, i);
    }
    return c.give(
        c.emit.binary<graph::GatherOp>(x, c.emit.integers(sources), dim),
        c.typeOf("self"));
  }
  int64_t times = c.integer("repeats");
  if (times < 0)
    return c.fail("it repeats by " + Twine(times));
  apart.insert(apart.begin() + dim + 1, 1);
  spread.insert(spread.begin() + dim + 1, times);
  shape[dim] = countElements({shape[dim], times});
  if (failed(c.emit.fits(shape)))
    return failure();
  x = c.emit.broadcast(c.emit.reshape(x, apart), spread, !x.isConstant());
  return c.give(c.emit.reshape(x, shape), c.typeOf("self"));
}

//===-- order ------------------------------------------------------------===//

/// Elements shifted out at one end return at the other.
LogicalResult roll(Call &c) {
  Imported x = c.read("self");
  Shape shape = x.getShape();
  SmallVector<int64_t> shifts = c.integers("shifts"), dims = c.integers("dims");
  if (dims.empty()) {
    x = c.emit.reshape(x, {countElements(shape)});
    dims = {0};
  }
  if (shifts.size() != dims.size())
    return c.fail("shifts " + toString(shifts) + " of dims " + toString(dims));
  for (auto [shift, each] : llvm::zip_equal(shifts, dims)) {
    auto dim = c.dim(each, x.getRank());
    if (failed(dim))
      return failure();
    int64_t size = x.getShape()[*dim];
    int64_t by = size ? ((shift % size) + size) % size : 0;
    if (by)
      x = c.emit.concat({c.emit.slice(x, *dim, size - by, size),
                         c.emit.slice(x, *dim, 0, size - by)},
                        *dim);
  }
  return c.give(c.emit.reshape(x, shape), c.typeOf("self"));
}

LogicalResult flip(Call &c) {
  Imported x = c.read("self");
  for (int64_t each : c.integers("dims")) {
    auto dim = c.dim(each, x.getRank());
    if (failed(dim))
      return failure();
    if (x.getShape()[*dim] > maxFolded)
      return c.fail("dim " + Twine(*dim) + " of " + toString(x.getShape()) +
                    " is too large to be turned round");
    SmallVector<int64_t> sources =
        llvm::to_vector(llvm::seq<int64_t>(x.getShape()[*dim]));
    std::reverse(sources.begin(), sources.end());
    x = c.emit.binary<graph::GatherOp>(x, c.emit.integers(sources), *dim);
  }
  return c.give(x, c.typeOf("self"));
}

/// [.., C r r, H, W] to [.., C, H r, W r], or the inverse.
template <bool isBack>
LogicalResult shufflePixels(Call &c) {
  Imported x = c.read("self");
  Shape shape = x.getShape();
  int64_t r = c.integer(isBack ? "downscale_factor" : "upscale_factor");
  auto rank = static_cast<int64_t>(shape.size());
  // The square of r must not overflow.
  if (rank < 3 || r < 1 || r > (int64_t(1) << 30) ||
      (isBack ? shape[rank - 1] % r || shape[rank - 2] % r
              : shape[rank - 3] % (r * r)))
    return c.fail("factor " + Twine(r) + " of " + toString(shape));
  Shape lead(ArrayRef<int64_t>(shape).drop_back(3)), apart = lead,
                                                     result = lead;
  int64_t channels = shape[rank - 3], height = shape[rank - 2],
          width = shape[rank - 1], n = lead.size();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(n));
  if (isBack) {
    apart.append({channels, height / r, r, width / r, r});
    result.append({channels * r * r, height / r, width / r});
    for (int64_t dim : {0, 2, 4, 1, 3})
      order.push_back(n + dim);
  } else {
    apart.append({channels / (r * r), r, r, height, width});
    result.append({channels / (r * r), height * r, width * r});
    for (int64_t dim : {0, 3, 1, 4, 2})
      order.push_back(n + dim);
  }
  return c.give(
      c.emit.reshape(c.emit.transpose(c.emit.reshape(x, apart), order), result),
      c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"cat(Tensor[] tensors, int dim=0) -> Tensor", cat},
    {"concat(Tensor[] tensors, int dim=0) -> Tensor", cat},
    {"concatenate(Tensor[] tensors, int dim=0) -> Tensor", cat},
    {"stack(Tensor[] tensors, int dim=0) -> Tensor", stack},
    {"hstack(Tensor[] tensors) -> Tensor", stackAlong<false>},
    {"vstack(Tensor[] tensors) -> Tensor", stackAlong<true>},
    {"row_stack(Tensor[] tensors) -> Tensor", stackAlong<true>},
    {"broadcast_tensors(Tensor[] tensors) -> Tensor[]", broadcastTensors},
    {"meshgrid(Tensor[] tensors) -> Tensor[]", meshgrid},
    {"meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
     meshgrid},
    {"repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat},
    {"tile(Tensor self, SymInt[] dims) -> Tensor", tile},
    {"repeat_interleave.self_int(Tensor self, SymInt repeats, int? "
     "dim=None, *, SymInt? output_size=None) -> Tensor",
     repeatInterleave},
    {"repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? "
     "dim=None, *, SymInt? output_size=None) -> Tensor",
     repeatInterleave},
    {"roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll},
    {"flip(Tensor self, int[] dims) -> Tensor", flip},
    {"pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
     shufflePixels<false>},
    {"pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
     shufflePixels<true>},
};

} // namespace

ArrayRef<OperatorRow> getJoinRows() { return rows; }

} // namespace polyrank::frontends::aten
