// Imports ops that write slices into a tensor by index.

#include "frontends/emit/Functions.h"
#include "frontends/emit/Indices.h"
#include "frontends/emit/Scatter.h"
#include "frontends/onnx/NodeImporter.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

FailureOr<Scatter> scatterReduction(NodeImporter &n) {
  StringRef reduction = n.getString("reduction", "none");
  auto found = llvm::StringSwitch<std::optional<Scatter>>(reduction)
                   .Case("none", Scatter::Replace)
                   .Case("add", Scatter::Add)
                   .Case("mul", Scatter::Mul)
                   .Case("max", Scatter::Max)
                   .Case("min", Scatter::Min)
                   .Default(std::nullopt);
  if (!found)
    return n.fail("the reduction `" + reduction +
                  "`; ONNX has none, add, mul, max and min");
  return *found;
}

LogicalResult needIndices(NodeImporter &n) {
  if (failed(n.need(3)) || failed(n.needIntegers(1, "indices")))
    return failure();
  const Imported &x = n.operand(0), &indices = n.operand(1),
                 &updates = n.operand(2);
  if (toComputedType(x.getElementType()) !=
      toComputedType(updates.getElementType()))
    return n.fail("its updates have another type than what they go into");
  if (x.getRank() < 1 || indices.getRank() < 1)
    return n.fail("indices of " + toString(indices.getShape()) + " into " +
                  toString(x.getShape()));
  return success();
}

/// The last dim of the indices addresses the first dims of x, so these dims are
/// merged into one.
LogicalResult scatterND(NodeImporter &n) {
  if (failed(needIndices(n)))
    return failure();
  const Imported &x = n.operand(0), &indices = n.operand(1),
                 &updates = n.operand(2);
  Shape shape = x.getShape(), picked = indices.getShape();
  int64_t depth = picked.pop_back_val();
  if (depth < 1 || depth > x.getRank())
    return n.fail("indices of " + toString(indices.getShape()) + " into " +
                  toString(shape));
  ArrayRef<int64_t> indexed = ArrayRef<int64_t>(shape).take_front(depth),
                    rest = ArrayRef<int64_t>(shape).drop_front(depth);
  Shape expected(picked);
  expected.append(rest.begin(), rest.end());
  if (updates.getShape() != expected)
    return n.fail("its updates are " + toString(updates.getShape()) +
                  " where the indices ask for " + toString(expected));
  auto merged = [&](int64_t count) {
    Shape result = {count};
    result.append(rest.begin(), rest.end());
    return result;
  };
  int64_t count = graph::numElements(picked);
  auto reduction = scatterReduction(n);
  if (failed(reduction))
    return failure();
  auto result = scatterSlices(
      n.emit, n.emit.reshape(x, merged(graph::numElements(indexed))),
      n.emit.reshape(placesOf(n.emit, indices, indexed), count),
      n.emit.reshape(updates, merged(count)), *reduction);
  if (failed(result))
    return failure();
  n.result(0, n.emit.reshape(*result, shape));
  return success();
}

/// result[.., indices[i, j, ..], ..] = updates[i, j, ..] with the index at
/// `axis`.
LogicalResult scatterElements(NodeImporter &n) {
  if (failed(needIndices(n)))
    return failure();
  const Imported &x = n.operand(0), &indices = n.operand(1),
                 &updates = n.operand(2);
  auto axis = n.axis(n.getInt("axis", 0), x.getRank());
  if (failed(axis))
    return failure();
  auto reduction = scatterReduction(n);
  if (failed(reduction))
    return failure();
  auto result = scatterAlong(n.emit, x, indices, updates, *axis, *reduction);
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

/// A cache [batch, .., length, ..] into which the update [batch, .., n, ..] of
/// each sample is written from its write index on along `axis`, or cyclically.
LogicalResult tensorScatter(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  Emitter &emit = n.emit;
  const Imported &cache = n.operand(0), &update = n.operand(1);
  auto axis = n.axis(n.getInt("axis", -2), cache.getRank());
  if (failed(axis))
    return failure();
  Shape shape = cache.getShape(), given = update.getShape();
  Shape fits = given;
  if (given.size() == shape.size())
    fits[*axis] = shape[*axis];
  if (*axis == 0 || fits != shape || given[*axis] > shape[*axis])
    return n.fail("an update of " + toString(given) + " of a cache of " +
                  toString(shape) + " along dim " + Twine(*axis));
  StringRef mode = n.getString("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return n.fail("its mode '" + mode + "'");
  int64_t batch = shape[0], length = shape[*axis], count = given[*axis];
  if (n.has(2) && n.operand(2).getShape() != Shape{batch})
    return n.fail("write indices of " + toString(n.operand(2).getShape()) +
                  " for a batch of " + Twine(batch));
  // Moves the axis after the batch; position p gets element p - index of the
  // update.
  Shape order = {0, *axis}, back(shape.size());
  for (int64_t dim = 1; dim < cache.getRank(); ++dim)
    if (dim != *axis)
      order.push_back(dim);
  for (auto [i, dim] : llvm::enumerate(order))
    back[dim] = static_cast<int64_t>(i);
  Type integer = emit.getBuilder().getI64Type();
  Shape places = {batch, length};
  auto all = [&](int64_t number) {
    return emit.broadcast(emit.scalar(integer, number), places, false);
  };
  Imported source = emit.iota(places, 1, integer);
  if (n.has(2)) {
    source = emit.binaryOver<graph::SubOp>(
        source, emit.reshape(emit.convert(n.operand(2), integer), {batch, 1}));
    if (mode == "circular")
      source = remainderOf(emit, source, all(length), /*ofDividend=*/false);
  }
  auto compare = [&](graph::Comparison kind, int64_t number) {
    return emit.binary<graph::CompareOp>(source, all(number), kind);
  };
  Imported isNew = emit.binary<graph::AndOp>(
      compare(graph::Comparison::GE, 0), compare(graph::Comparison::LT, count));
  Imported row = emit.binary<graph::AddOp>(
      emit.select(isNew, source, all(0)),
      emit.binary<graph::MulOp>(emit.iota(places, 0, integer), all(count)));
  Imported old = emit.transpose(cache, order);
  Shape rows = emit.transpose(update, order).getShape();
  rows.erase(rows.begin());
  rows[0] = batch * count;
  Imported spread = emit.binary<graph::GatherOp>(
      emit.reshape(emit.transpose(update, order), rows), row, int64_t(0));
  Shape over(shape.size(), 1);
  over[0] = batch;
  over[1] = length;
  Imported chosen = emit.broadcast(emit.reshape(isNew, over), old.getShape(),
                                   !isNew.isConstant());
  n.result(0, emit.transpose(emit.select(chosen, spread, old), back));
  return success();
}

const OpRow rows[] = {
    {"", "ScatterND", 11, scatterND},
    {"", "ScatterElements", 11, scatterElements},
    {"", "Scatter", 9, scatterElements}, // the name before version 11
    {"", "TensorScatter", 24, tensorScatter},
};

} // namespace

ArrayRef<OpRow> getScatterRows() { return rows; }

} // namespace polyrank::frontends::onnx
