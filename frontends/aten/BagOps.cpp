// EmbeddingBag: sums, means and maxima over bags of rows.

#include "frontends/aten/Call.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

enum Mode : int64_t { Sum, Mean, Max }; // with PyTorch's numbers

/// The start of each bag, and the end of the last, among `count` indices.
FailureOr<SmallVector<int64_t>> boundsOf(Call &c, int64_t count) {
  if (failed(c.needIntegers("offsets")))
    return failure();
  Imported offsets = c.read("offsets");
  if (!offsets.isConstant())
    return c.fail("offsets that the model's inputs say: how long bags are must "
                  "be known; give indices of two dims, a row for each bag, and "
                  "fill short ones up with the padding_idx, or with "
                  "per_sample_weights of 0");
  ArrayRef<int64_t> given = offsets.constant->integers;
  SmallVector<int64_t> bounds(given);
  if (!c.flag("include_last_offset"))
    bounds.push_back(count);
  if (bounds.size() < 2)
    return c.fail("no bags");
  if (bounds.front() != 0 || !llvm::is_sorted(bounds) || bounds.back() > count)
    return c.fail("offsets that do not begin with 0, decrease, or end behind "
                  "the " +
                  Twine(count) + " indices");
  return bounds;
}

/// Indices, weights and rows as [bags, length of the longest bag, ..]. Elements
/// beyond the end of a bag are ignored.
struct Bags {
  SmallVector<int64_t> bounds;
  int64_t count, longest = 0;
  bool areEqual = true;

  explicit Bags(ArrayRef<int64_t> given)
      : bounds(given), count(static_cast<int64_t>(given.size()) - 1) {
    for (int64_t i = 0; i < count; ++i)
      longest = std::max(longest, bounds[i + 1] - bounds[i]);
    for (int64_t i = 0; i <= count; ++i)
      areEqual &= bounds[i] == i * longest;
  }

  Imported arrange(Emitter &emit, const Imported &x) const {
    Shape shape = {count, longest};
    if (areEqual && x.getShape()[0] == bounds.back())
      return emit.reshape(x, shape);
    SmallVector<int64_t> places;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < longest; ++j)
        places.push_back(std::min(bounds[i] + j, x.getShape()[0] - 1));
    return emit.binary<graph::GatherOp>(
        x, emit.reshape(emit.integers(places), shape), int64_t(0));
  }

  /// A boolean mask of the elements that are inside their bags.
  Imported areInside(Emitter &emit) const {
    SmallVector<int64_t> lengths;
    for (int64_t i = 0; i < count; ++i)
      lengths.push_back(bounds[i + 1] - bounds[i]);
    Shape shape = {count, longest};
    Type type = emit.getBuilder().getI64Type();
    return emit.binary<graph::CompareOp>(
        emit.iota(shape, 1, type),
        emit.broadcast(emit.reshape(emit.integers(lengths), {count, 1}), shape,
                       /*asValue=*/false),
        graph::Comparison::LT);
  }
};

/// The `mode` (sum, mean or max) of the rows of `weight` in each bag; 0 for an
/// empty bag. The row `padding_idx` does not count.
LogicalResult embeddingBag(Call &c) {
  if (failed(c.needIntegers("indices")))
    return failure();
  Emitter &emit = c.emit;
  Imported weight = c.read("weight"), indices = c.read("indices");
  if (weight.getRank() != 2 || indices.getRank() != 1)
    return c.fail("rows of " + toString(weight.getShape()) + " by indices of " +
                  toString(indices.getShape()));
  if (c.flag("scale_grad_by_freq") && c.options.training)
    return c.fail("scale_grad_by_freq=True, whose gradient is not computed; "
                  "leave the option out, or --freeze the table");
  int64_t mode = c.integer("mode"), size = weight.getShape()[0],
          width = weight.getShape()[1];
  auto bounds = boundsOf(c, indices.getShape()[0]);
  if (failed(bounds))
    return failure();
  Bags bags(*bounds);
  auto giveAll = [&](const Imported &x) {
    if (failed(c.give(x, c.typeOf("weight"))))
      return failure();
    // Results that only PyTorch's backward uses.
    for (int i = 0; i < 3; ++i)
      if (failed(c.give(Value())))
        return failure();
    return success();
  };
  Type type = weight.getElementType();
  Shape result = {bags.count, width};
  if (bags.longest == 0)
    return giveAll(emit.broadcast(emit.scalar(type, 0), result, false));

  emit.limitIndices(indices, size);
  Imported inBags = bags.arrange(emit, indices);
  Imported rows = emit.binary<graph::GatherOp>(weight, inBags, int64_t(0));
  Shape all = rows.getShape();
  Imported counted;
  if (!bags.areEqual)
    counted = bags.areInside(emit);
  int64_t padding = c.integer("padding_idx", -1);
  if (padding >= 0) {
    Imported isRow = emit.binaryOver<graph::CompareOp>(
        inBags, emit.scalar(inBags.getElementType(), double(padding)),
        graph::Comparison::NE);
    counted = counted ? emit.binary<graph::AndOp>(counted, isRow) : isRow;
  }
  auto overRow = [&](const Imported &x) {
    return emit.broadcast(emit.reshape(x, {bags.count, bags.longest, 1}), all,
                          /*asValue=*/true);
  };
  if (mode == Max) {
    if (counted)
      rows = emit.select(
          overRow(counted), rows,
          emit.broadcast(
              emit.scalar(type, -std::numeric_limits<double>::infinity()), all,
              /*asValue=*/true));
    Imported most = emit.reduce(sharding::ReductionKind::Max, rows, {1},
                                /*first=*/true);
    if (!counted)
      return giveAll(most);
    Imported any = emit.reduce(sharding::ReductionKind::Max,
                               emit.convert(counted, type), {1});
    Imported hasAny = emit.binaryOver<graph::CompareOp>(
        any, emit.scalar(type, 0), graph::Comparison::GT);
    return giveAll(emit.select(
        emit.broadcast(emit.reshape(hasAny, {bags.count, 1}), result, true),
        most, emit.broadcast(emit.scalar(type, 0), result, true)));
  }
  if (c.has("per_sample_weights"))
    rows = emit.binary<graph::MulOp>(
        rows, overRow(bags.arrange(emit, c.as(c.read("per_sample_weights"),
                                              c.typeOf("weight")))));
  if (counted)
    rows =
        emit.binary<graph::MulOp>(rows, overRow(emit.convert(counted, type)));
  if (mode == Mean && !counted)
    return giveAll(emit.mean(rows, {1}));
  Imported sum = emit.reduce(sharding::ReductionKind::Sum, rows, {1});
  if (mode == Sum)
    return giveAll(sum);
  Imported count = emit.reduce(sharding::ReductionKind::Sum,
                               emit.convert(counted, type), {1});
  Imported least = emit.broadcast(emit.scalar(type, 1), {bags.count},
                                  /*asValue=*/!count.isConstant());
  count =
      emit.reshape(emit.binary<graph::MaxOp>(count, least), {bags.count, 1});
  return giveAll(emit.binary<graph::DivOp>(
      sum, emit.broadcast(count, result, /*asValue=*/true)));
}

const OperatorRow rows[] = {
    {"embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
     "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
     "per_sample_weights=None, bool include_last_offset=False) -> (Tensor, "
     "Tensor, Tensor, Tensor)",
     embeddingBag},
    {"embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, "
     "bool scale_grad_by_freq, int mode, bool sparse, Tensor? "
     "per_sample_weights, bool include_last_offset, int? padding_idx) -> "
     "(Tensor, Tensor, Tensor, Tensor)",
     embeddingBag},
    {"_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
     "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
     "per_sample_weights=None, bool include_last_offset=False, int "
     "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     embeddingBag},
    {"_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor "
     "offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
     "Tensor? per_sample_weights=None, bool include_last_offset=False, int "
     "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     embeddingBag},
};

} // namespace

ArrayRef<OperatorRow> getBagRows() { return rows; }

} // namespace polyrank::frontends::aten
