// Imports ops that split and join tensors, and sequences of tensors.

#include "frontends/emit/Padding.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

//===-- parts of tensors -------------------------------------------------===//

LogicalResult concat(NodeImporter &n) {
  if (failed(n.need(std::max<size_t>(n.getNumOperands(), 1))))
    return failure();
  int64_t rank = n.operand(0).getRank();
  auto axis = n.axis(n.getInt("axis", 1), rank);
  if (failed(axis))
    return failure();
  Shape first = n.operand(0).getShape();
  SmallVector<Imported> parts;
  for (size_t i = 0; i < n.getNumOperands(); ++i) {
    Shape shape = n.operand(i).getShape();
    Shape expected = first;
    if (shape.size() == first.size())
      expected[*axis] = shape[*axis];
    if (shape != expected)
      return n.fail("concat of " + toString(first) + " and " + toString(shape) +
                    " along dim " + Twine(*axis));
    parts.push_back(n.operand(i));
  }
  n.result(0, n.emit.concat(parts, *axis));
  return success();
}

constexpr int64_t maxPieces = 1 << 16;

/// Splits operand 0 along `axis` into pieces of `sizes`.
FailureOr<std::vector<Imported>> splitInto(NodeImporter &n, int64_t axis,
                                           ArrayRef<int64_t> sizes) {
  const Imported &x = n.operand(0);
  int64_t dim = x.getShape()[axis], start = 0;
  if (static_cast<int64_t>(sizes.size()) > maxPieces)
    return n.fail("more than " + Twine(maxPieces) + " pieces");
  std::vector<Imported> parts;
  for (int64_t size : sizes) {
    if (size < 0 || size > dim - start)
      return n.fail("pieces of " + toString(sizes) + " of a dim of " +
                    Twine(dim));
    parts.push_back(n.emit.slice(x, axis, start, start + size));
    start += size;
  }
  if (start != dim)
    return n.fail("pieces of " + toString(sizes) + " of a dim of " +
                  Twine(dim));
  return parts;
}

LogicalResult split(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto axis = n.axis(n.getInt("axis", 0), n.operand(0).getRank());
  if (failed(axis))
    return failure();
  auto sizes = n.integersFrom("split", 1);
  if (failed(sizes))
    return failure();
  if (!*sizes) {
    // Equal pieces; from version 18 on the last one may be smaller.
    int64_t dim = n.operand(0).getShape()[*axis];
    auto count = static_cast<int64_t>(n.node.outputs.size());
    int64_t piece = (dim + count - 1) / count;
    if (n.since < 18 && dim % count != 0)
      return n.fail("a dim of " + Twine(dim) + " has no " + Twine(count) +
                    " equal pieces");
    sizes->emplace();
    for (int64_t start = 0; start < piece * count; start += piece)
      (*sizes)->push_back(std::clamp<int64_t>(dim - start, 0, piece));
  }
  auto parts = splitInto(n, *axis, **sizes);
  if (failed(parts))
    return failure();
  for (auto [i, part] : llvm::enumerate(*parts))
    n.result(i, part);
  return success();
}

LogicalResult slice(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  SmallVector<int64_t> starts, ends;
  if (n.since < 10) {
    const Attribute *start = n.attribute("starts"), *end = n.attribute("ends");
    if (!start || !end)
      return n.fail("its starts or ends are missing");
    starts.assign(start->ints.begin(), start->ints.end());
    ends.assign(end->ints.begin(), end->ints.end());
  } else {
    auto start = n.integers(1, "starts"), end = n.integers(2, "ends");
    if (failed(start) || failed(end))
      return failure();
    starts = *start;
    ends = *end;
  }
  auto given = n.integersFrom("axes", 3);
  auto steps = n.integersFrom("steps", 4);
  if (failed(given) || failed(steps))
    return failure();
  Imported x = n.operand(0);
  SmallVector<int64_t> axes;
  if (*given)
    axes = **given;
  else
    llvm::append_range(axes, llvm::seq<int64_t>(starts.size()));
  if (axes.size() != starts.size() || ends.size() != starts.size() ||
      (*steps && (*steps)->size() != starts.size()))
    return n.fail("starts, ends, axes and steps differ in length");
  for (auto [i, each] : llvm::enumerate(axes)) {
    auto axis = n.axis(each, x.getRank());
    if (failed(axis))
      return failure();
    int64_t dim = x.getShape()[*axis], step = *steps ? (**steps)[i] : 1;
    if (step == 0)
      return n.fail("its step is 0");
    // Out-of-range bounds are clamped, as in Python.
    auto clamp = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 ? at + dim : at, low, high);
    };
    if (step > 0) {
      int64_t start = clamp(starts[i], 0, dim);
      int64_t end = std::max(start, clamp(ends[i], 0, dim));
      x = n.emit.slice(x, *axis, start, end, std::min(step, dim + 1));
      continue;
    }
    // Unlike in Python, a start before the first element means that element.
    int64_t last = dim - 1, first = std::min<int64_t>(0, last);
    int64_t start = clamp(starts[i], first, last);
    int64_t end = std::min(start, clamp(ends[i], -1, last));
    SmallVector<int64_t> indices;
    for (int64_t at = start; at > end; at += std::max(step, -dim - 1))
      indices.push_back(at);
    x = n.emit.binary<graph::GatherOp>(x, n.emit.integers(indices), *axis);
  }
  n.result(0, x);
  return success();
}

LogicalResult pad(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  StringRef mode = n.getString("mode", "constant");
  bool copies = mode != "constant";
  if (copies && !isCopyMode(mode))
    return n.fail("Pad with mode `" + mode + "`");
  auto pads = n.integersFrom("pads", 1);
  if (failed(pads))
    return failure();
  Imported x = n.operand(0);
  int64_t rank = x.getRank();
  SmallVector<int64_t> axes(llvm::to_vector(llvm::seq<int64_t>(rank)));
  if (n.has(3)) {
    auto given = n.integers(3, "axes");
    if (failed(given))
      return failure();
    axes = *given;
  }
  if (!*pads || (*pads)->size() != 2 * axes.size())
    return n.fail("its pads do not fit its axes");
  double value = n.getFloat("value", 0);
  if (n.has(2) && !copies) {
    auto given = n.number(2, "value");
    if (failed(given))
      return failure();
    value = *given;
  }
  SmallVector<int64_t> low(rank, 0), high(rank, 0), interior(rank, 0);
  for (auto [i, each] : llvm::enumerate(axes)) {
    auto axis = n.axis(each, rank);
    if (failed(axis))
      return failure();
    int64_t before = (**pads)[i], after = (**pads)[i + axes.size()];
    int64_t dim = x.getShape()[*axis]; // negative pads cut off
    int64_t start = before < 0 ? -std::max(before, -dim - 1) : 0;
    int64_t end = after < 0 ? dim + std::max(after, -dim - 1) : dim;
    if (start > end || before > maxElements || after > maxElements)
      return n.fail("pads " + toString(**pads) + " of a dim of " + Twine(dim));
    x = n.emit.slice(x, *axis, start, end);
    before = std::max<int64_t>(0, before);
    after = std::max<int64_t>(0, after);
    if (copies && (before || after)) {
      auto padded = padByCopies(n.emit, x, *axis, before, after, mode);
      if (failed(padded))
        return n.fail("pads " + toString(**pads) + " of " + Twine(end - start) +
                      " elements with mode `" + mode + "`");
      x = *padded;
      continue;
    }
    low[*axis] = before;
    high[*axis] = after;
  }
  if (llvm::any_of(low, [](int64_t p) { return p != 0; }) ||
      llvm::any_of(high, [](int64_t p) { return p != 0; }))
    x = n.emit.unary<graph::PadOp>(x, ArrayRef<int64_t>(low),
                                   ArrayRef<int64_t>(high),
                                   ArrayRef<int64_t>(interior), value);
  n.result(0, x);
  return success();
}

//===-- sequences --------------------------------------------------------===//

LogicalResult splitToSequence(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto axis = n.axis(n.getInt("axis", 0), n.operand(0).getRank());
  if (failed(axis))
    return failure();
  int64_t dim = n.operand(0).getShape()[*axis];
  SmallVector<int64_t> sizes;
  if (n.has(1)) {
    auto given = n.integers(1, "split");
    if (failed(given))
      return failure();
    sizes = *given;
  }
  bool isOneSize = n.has(1) && n.operand(1).getRank() == 0;
  if (!n.has(1) || isOneSize) { // the last piece is the rest
    int64_t piece = isOneSize ? sizes.front() : 1;
    if (piece <= 0 || dim / piece > maxPieces)
      return n.fail("pieces of " + Twine(piece) + " of a dim of " + Twine(dim));
    sizes.clear();
    for (int64_t start = 0; start < dim; start += piece)
      sizes.push_back(std::min(piece, dim - start));
  }
  auto parts = splitInto(n, *axis, sizes);
  if (failed(parts))
    return failure();
  if (!n.has(1) && n.getInt("keepdims", 1) == 0)
    for (Imported &part : *parts) {
      Shape shape = part.getShape();
      shape.erase(shape.begin() + *axis);
      part = n.emit.reshape(part, shape);
    }
  n.result(0, std::move(*parts));
  return success();
}

LogicalResult sequenceConstruct(NodeImporter &n) {
  if (failed(n.need(n.getNumOperands())))
    return failure();
  std::vector<Imported> elements;
  for (size_t i = 0; i < n.getNumOperands(); ++i)
    elements.push_back(n.operand(i));
  n.result(0, std::move(elements));
  return success();
}

LogicalResult sequenceEmpty(NodeImporter &n) {
  n.result(0, std::vector<Imported>());
  return success();
}

/// Operand `i` as a position in a sequence of `size`, or with `inserts` as a
/// position to insert at, of which there is one more; fails if it is out of
/// range.
FailureOr<int64_t> positionIn(NodeImporter &n, size_t i, int64_t size,
                              bool inserts = false) {
  auto position = n.integer(i, "position");
  if (failed(position))
    return failure();
  int64_t at = *position < 0 ? *position + size : *position;
  if (at < 0 || at >= size + (inserts ? 1 : 0))
    return n.fail("element " + Twine(*position) + " of a sequence of " +
                  Twine(size));
  return at;
}

LogicalResult sequenceInsert(NodeImporter &n) {
  if (!n.has(0) || !n.operand(0).sequence)
    return n.fail("operand 0 is no sequence");
  if (!n.has(1) || n.operand(1).sequence)
    return n.fail("operand 1 is no tensor");
  std::vector<Imported> elements = *n.operand(0).sequence;
  auto at = static_cast<int64_t>(elements.size());
  if (n.has(2)) {
    auto given = positionIn(n, 2, at, /*inserts=*/true);
    if (failed(given))
      return failure();
    at = *given;
  }
  elements.insert(elements.begin() + at, n.operand(1));
  n.result(0, std::move(elements));
  return success();
}

LogicalResult sequenceErase(NodeImporter &n) {
  if (!n.has(0) || !n.operand(0).sequence || n.operand(0).sequence->empty())
    return n.fail("operand 0 is no sequence with elements");
  std::vector<Imported> elements = *n.operand(0).sequence;
  auto at = static_cast<int64_t>(elements.size()) - 1;
  if (n.has(1)) {
    auto given = positionIn(n, 1, elements.size());
    if (failed(given))
      return failure();
    at = *given;
  }
  elements.erase(elements.begin() + at);
  n.result(0, std::move(elements));
  return success();
}

LogicalResult sequenceAt(NodeImporter &n) {
  if (!n.has(0) || !n.operand(0).sequence)
    return n.fail("operand 0 is no sequence");
  const std::vector<Imported> &elements = *n.operand(0).sequence;
  auto at = positionIn(n, 1, elements.size());
  if (failed(at))
    return failure();
  n.result(0, elements[*at]);
  return success();
}

LogicalResult concatFromSequence(NodeImporter &n) {
  if (!n.has(0) || !n.operand(0).sequence || n.operand(0).sequence->empty())
    return n.fail("operand 0 is no sequence with elements");
  const std::vector<Imported> &elements = *n.operand(0).sequence;
  SmallVector<Imported> parts(elements.begin(), elements.end());
  bool stack = n.getInt("new_axis", 0) != 0;
  auto axis =
      n.axis(n.getInt("axis", 0), parts.front().getRank() + (stack ? 1 : 0));
  if (failed(axis))
    return failure();
  if (stack)
    for (Imported &part : parts) {
      Shape shape = part.getShape();
      shape.insert(shape.begin() + *axis, 1);
      part = n.emit.reshape(part, shape);
    }
  n.result(0, n.emit.concat(parts, *axis));
  return success();
}

LogicalResult sequenceLength(NodeImporter &n) {
  if (!n.has(0) || !n.operand(0).sequence)
    return n.fail("operand 0 is no sequence");
  n.result(0, n.emit.reshape(n.emit.integers(static_cast<int64_t>(
                                 n.operand(0).sequence->size())),
                             {}));
  return success();
}

const OpRow rows[] = {
    {"", "Concat", 4, concat},
    {"", "Split", 2, split},
    {"", "Split", 18, split},
    {"", "Slice", 1, slice},
    {"", "Slice", 10, slice},
    {"", "Pad", 2, pad},
    {"", "SplitToSequence", 11, splitToSequence},
    {"", "SequenceConstruct", 11, sequenceConstruct},
    {"", "SequenceEmpty", 11, sequenceEmpty},
    {"", "SequenceInsert", 11, sequenceInsert},
    {"", "SequenceErase", 11, sequenceErase},
    {"", "SequenceAt", 11, sequenceAt},
    {"", "ConcatFromSequence", 11, concatFromSequence},
    {"", "SequenceLength", 11, sequenceLength},
};

} // namespace

ArrayRef<OpRow> getSliceRows() { return rows; }

} // namespace polyrank::frontends::onnx
