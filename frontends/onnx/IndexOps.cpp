// Imports ops that select elements by index, or return indices.

#include "frontends/emit/Indices.h"
#include "frontends/emit/Order.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

using graph::Comparison;

/// Details of the gradient of PyTorch's embedding that ONNX cannot express.
/// They are in the exporter's record of the call,
/// `..aten.embedding.default](args = (%weight, %ids, 0, False), ..`.
struct Embedding {
  std::optional<int64_t> paddingIndex;
  bool scalesByFrequency = false;
};

Embedding findEmbedding(const NodeImporter &n) {
  Embedding result;
  if (!n.isOf("aten.embedding.default"))
    return result;
  StringRef call = find(n.node.metadata, "pkg.torch.onnx.fx_node");
  SmallVector<StringRef> arguments;
  call.split("(args = (").second.split(')').first.split(arguments, ',');
  int64_t index;
  if (arguments.size() > 2 && !arguments[2].trim().getAsInteger(10, index) &&
      index >= 0)
    result.paddingIndex = index;
  result.scalesByFrequency =
      arguments.size() > 3 && arguments[3].trim() == "True";
  return result;
}

LogicalResult gather(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  const Imported &x = n.operand(0);
  auto axis = n.axis(n.getInt("axis", 0), x.getRank());
  if (failed(axis))
    return failure();
  Shape shape = x.getShape();
  int64_t size = shape[*axis];
  Imported indices = n.operand(1);
  if (failed(n.needIntegers(1, "indices")))
    return failure();
  if (indices.isConstant() || !isParameter(x))
    indices = wrapIndices(n.emit, indices, size);
  else
    n.emit.limitIndices(indices, size);
  if (indices.isConstant())
    for (int64_t index : indices.constant->integers)
      if (index < 0 || index >= size)
        return n.fail("index " + Twine(index) + " into a dim of " +
                      Twine(size));
  Embedding embedding = findEmbedding(n);
  if (embedding.scalesByFrequency && n.options.training)
    return n.fail(
        "an embedding with scale_grad_by_freq=True, whose gradient is "
        "not computed; leave the option out, or --freeze the table");
  // A slice has no padding index.
  std::optional<int64_t> padding = embedding.paddingIndex;
  bool mayPad =
      padding && (!indices.isConstant() ||
                  llvm::is_contained(indices.constant->integers, *padding));
  std::optional<int64_t> start = startOfRun(indices);
  if (start && !mayPad) {
    Imported part =
        n.emit.slice(x, *axis, *start, *start + indices.constant->size());
    Shape result = shape, inner = indices.getShape();
    result.erase(result.begin() + *axis);
    result.insert(result.begin() + *axis, inner.begin(), inner.end());
    n.result(0, n.emit.reshape(part, result));
    return success();
  }
  Imported gathered = n.emit.binary<graph::GatherOp>(x, indices, *axis);
  if (padding && gathered.value)
    if (auto op = gathered.value.getDefiningOp<graph::GatherOp>())
      op.setPaddingIndex(*padding);
  n.result(0, gathered);
  return success();
}

/// result[i, j, ..] = x[.., indices[i, j, ..], ..] with the index at `axis`.
LogicalResult gatherElements(NodeImporter &n) {
  if (failed(n.need(2)) || failed(n.needIntegers(1, "indices")))
    return failure();
  const Imported &x = n.operand(0), &given = n.operand(1);
  auto axis = n.axis(n.getInt("axis", 0), x.getRank());
  if (failed(axis))
    return failure();
  auto result = gatherAlong(n.emit, x, given, *axis);
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

/// The last dim of the indices addresses the dims after the batch dims, so
/// these dims are merged into one.
LogicalResult gatherND(NodeImporter &n) {
  if (failed(n.need(2)) || failed(n.needIntegers(1, "indices")))
    return failure();
  const Imported &x = n.operand(0), &given = n.operand(1);
  Shape shape = x.getShape(), indexShape = given.getShape();
  int64_t batch = n.getInt("batch_dims", 0);
  if (indexShape.empty() || batch < 0 || batch >= given.getRank() ||
      batch + indexShape.back() > x.getRank() || indexShape.back() < 1)
    return n.fail("indices of " + toString(indexShape) + " into " +
                  toString(shape));
  ArrayRef<int64_t> indexed =
      ArrayRef<int64_t>(shape).slice(batch, indexShape.back());
  Shape merged(shape);
  merged.erase(merged.begin() + batch,
               merged.begin() + batch + indexShape.back());
  merged.insert(merged.begin() + batch, graph::numElements(indexed));
  Imported places = placesOf(n.emit, given, indexed);
  Imported rows = n.emit.reshape(x, merged);
  // Without batch dims, this is how x[:, [-2]] is exported, with a transposed
  // x.
  if (auto start = startOfRun(places); start && batch == 0) {
    int64_t limit = *start + places.constant->size();
    if (*start < 0 || limit > merged[0])
      return n.fail("indices " + Twine(*start) + " to " + Twine(limit - 1) +
                    " into a dim of " + Twine(merged[0]));
    Shape result = places.getShape();
    llvm::append_range(result, ArrayRef<int64_t>(merged).drop_front());
    n.result(0, n.emit.reshape(n.emit.slice(rows, 0, *start, limit), result));
    return success();
  }
  n.result(0, n.emit.binary<graph::GatherOp>(rows, places, batch, batch));
  return success();
}

LogicalResult oneHot(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  auto given = n.number(1, "depth"); // of any numeric type
  if (failed(given))
    return failure();
  if (!(*given >= 1 && *given <= static_cast<double>(maxElements)))
    return n.fail("depth " + std::to_string(*given));
  auto depth = static_cast<int64_t>(*given);
  auto axis = n.axis(n.getInt("axis", -1), n.operand(0).getRank() + 1);
  if (failed(axis))
    return failure();
  Imported indices = wrapIndices(n.emit, n.operand(0), depth); // or floats
  Shape shape = indices.getShape();
  shape.insert(shape.begin() + *axis, 1);
  indices = n.emit.reshape(indices, shape);
  shape[*axis] = depth;
  if (failed(n.fits(shape)))
    return failure();
  bool known = indices.isConstant() && n.operand(2).isConstant();
  indices = n.emit.broadcast(indices, shape, !known);
  Imported hot = n.emit.binary<graph::CompareOp>(
      indices, n.emit.iota(shape, *axis, indices.getElementType()),
      Comparison::EQ);
  auto value = [&](int64_t i) {
    return n.emit.broadcast(
        n.emit.reshape(n.emit.slice(n.operand(2), 0, i, i + 1), {}), shape,
        !known);
  };
  n.result(0, n.emit.select(hot, value(1), value(0)));
  return success();
}

/// Keeps column - row <= k (lower) or >= k (upper) of the last two dims.
LogicalResult trilu(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  int64_t k = 0;
  if (n.has(1)) {
    auto given = n.integer(1, "k");
    if (failed(given))
      return failure();
    k = *given;
  }
  auto result = triangleOf(n.emit, x, k, n.getInt("upper", 1) != 0);
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

LogicalResult cumSum(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  auto given = n.integer(1, "axis");
  if (failed(given))
    return failure();
  auto axis = n.axis(*given, n.operand(0).getRank());
  if (failed(axis))
    return failure();
  const Imported &x = n.operand(0);
  auto result = cumulativeSum(n.emit, x, *axis, n.getInt("exclusive", 0) != 0,
                              n.getInt("reverse", 0) != 0);
  if (failed(result))
    return failure();
  n.result(0, *result);
  return success();
}

/// The index of the largest or smallest element along a dim; of equal ones the
/// first or, with select_last_index, the last.
template <bool largest>
LogicalResult argExtremumOf(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  auto axis = n.axis(n.getInt("axis", 0), x.getRank());
  if (failed(axis))
    return failure();
  Imported result = argExtremum(n.emit, x, *axis, largest,
                                n.getInt("select_last_index", 0) != 0);
  Shape shape = x.getShape();
  n.result(0, n.getInt("keepdims", 1) ? n.emit.keepDims(result, shape, *axis)
                                      : result);
  return success();
}

LogicalResult nonZero(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  if (failed(n.needKnown(0, "operand"))) // otherwise the result has no static
                                         // shape
    return failure();
  const graph::Tensor &x = *n.operand(0).constant;
  SmallVector<int64_t> found, strides = graph::getStrides(x.shape);
  for (int64_t i = 0; i < x.size(); ++i)
    if (x.at(i) != 0)
      found.push_back(i);
  auto count = static_cast<int64_t>(found.size());
  graph::Tensor result(IntegerType::get(n.emit.getBuilder().getContext(), 64),
                       {x.getRank(), count});
  for (int64_t dim = 0; dim < x.getRank(); ++dim)
    for (int64_t i = 0; i < count; ++i)
      result.integers[dim * count + i] = found[i] / strides[dim] % x.shape[dim];
  n.result(0, std::move(result));
  return success();
}

/// The k largest or smallest elements along a dim. They are sorted, which
/// `sorted` = 0 does not require.
LogicalResult topK(NodeImporter &n) {
  if (failed(n.need(n.since < 10 ? 1 : 2)))
    return failure();
  const Imported &x = n.operand(0);
  auto axis = n.axis(n.getInt("axis", -1), x.getRank());
  if (failed(axis))
    return failure();
  FailureOr<int64_t> k = n.since < 10 ? n.getInt("k", 0) : n.integer(1, "k");
  if (failed(k))
    return failure();
  auto ordered = takeInOrder(n.emit, x, *k, *axis, n.getInt("largest", 1) != 0);
  if (failed(ordered))
    return failure();
  n.result(0, ordered->values);
  n.result(1, ordered->indices);
  return success();
}

const OpRow rows[] = {
    {"", "Gather", 1, gather},
    {"", "GatherElements", 11, gatherElements},
    {"", "GatherND", 11, gatherND},
    {"", "OneHot", 9, oneHot},
    {"", "Trilu", 14, trilu},
    {"", "CumSum", 11, cumSum},
    {"", "NonZero", 9, nonZero},
    {"", "TopK", 1, topK},
    {"", "TopK", 10, topK},
    {"", "ArgMax", 1, argExtremumOf<true>},
    {"", "ArgMin", 1, argExtremumOf<false>},
};

} // namespace

ArrayRef<OpRow> getIndexRows() { return rows; }

} // namespace polyrank::frontends::onnx
