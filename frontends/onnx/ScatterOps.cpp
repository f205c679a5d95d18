// Import of ops that put slices into a tensor by index.

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

/// The last dim of the indices addresses the first dims of x, which are
/// therefore merged into one.
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

const OpRow rows[] = {
    {"", "ScatterND", 11, scatterND},
    {"", "ScatterElements", 11, scatterElements},
    {"", "Scatter", 9, scatterElements}, // its name before version 11
};

} // namespace

ArrayRef<OpRow> getScatterRows() { return rows; }

} // namespace polyrank::frontends::onnx
