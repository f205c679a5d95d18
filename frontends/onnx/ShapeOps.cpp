// Import of ops that make, measure and rearrange tensors and sequences.

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

//===-- constants and shapes ---------------------------------------------===//

LogicalResult constant(NodeImporter &n) {
  MLIRContext *context = n.emit.getBuilder().getContext();
  if (const Attribute *value = n.attribute("value"); value && value->t) {
    std::string error;
    auto tensor = toTensor(context, n.model, *value->t, error);
    if (!tensor)
      return n.fail(error);
    n.result(0, std::move(*tensor));
    return success();
  }
  auto floats = [&](ArrayRef<float> values, ArrayRef<int64_t> shape) {
    graph::Tensor tensor(Float32Type::get(context), shape);
    llvm::copy(values, tensor.floats.begin());
    n.result(0, std::move(tensor));
    return success();
  };
  auto integers = [&](ArrayRef<int64_t> values, ArrayRef<int64_t> shape) {
    graph::Tensor tensor(IntegerType::get(context, 64), shape);
    llvm::copy(values, tensor.integers.begin());
    n.result(0, std::move(tensor));
    return success();
  };
  if (const Attribute *value = n.attribute("value_float"))
    return floats(value->f, {});
  if (const Attribute *value = n.attribute("value_int"))
    return integers(value->i, {});
  if (const Attribute *value = n.attribute("value_floats"))
    return floats(value->floats, static_cast<int64_t>(value->floats.size()));
  if (const Attribute *value = n.attribute("value_ints"))
    return integers(value->ints, static_cast<int64_t>(value->ints.size()));
  return n.fail("Constant without a dense numeric value");
}

LogicalResult shapeOf(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Shape shape = n.operand(0).getShape();
  auto rank = static_cast<int64_t>(shape.size());
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  int64_t start = clamp(n.getInt("start", 0));
  int64_t end = std::max(start, clamp(n.getInt("end", rank)));
  n.result(0,
           n.emit.integers(ArrayRef<int64_t>(shape).slice(start, end - start)));
  return success();
}

LogicalResult sizeOf(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  n.result(
      0, n.emit.reshape(
             n.emit.integers(graph::numElements(n.operand(0).getShape())), {}));
  return success();
}

LogicalResult constantOfShape(NodeImporter &n) {
  auto shape = n.integers(0, "shape");
  if (failed(shape))
    return failure();
  Imported value =
      n.emit.scalar(Float32Type::get(n.emit.getBuilder().getContext()), 0);
  if (const Attribute *given = n.attribute("value"); given && given->t) {
    std::string error;
    auto tensor =
        toTensor(n.emit.getBuilder().getContext(), n.model, *given->t, error);
    if (!tensor || tensor->size() != 1)
      return n.fail(tensor ? "its value is not one element" : error);
    value = tensor->reshaped({});
  }
  if (failed(n.fits(*shape)))
    return failure();
  n.result(0, n.emit.broadcast(value, *shape, false));
  return success();
}

LogicalResult range(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  for (size_t i = 0; i < 3; ++i)
    if (!n.operand(i).isConstant() || n.operand(i).constant->size() != 1)
      return n.fail("its bounds depend on the values of inputs or parameters, "
                    "but must be known when the model is compiled");
  const graph::Tensor &start = *n.operand(0).constant;
  double delta = n.operand(2).constant->at(0);
  if (delta == 0)
    return n.fail("its step is 0");
  double count =
      std::ceil((n.operand(1).constant->at(0) - start.at(0)) / delta);
  if (!(count <= double(int64_t(1) << 28)))
    return n.fail("it has more than 2^28 elements");
  graph::Tensor tensor(start.elementType,
                       {std::max<int64_t>(0, static_cast<int64_t>(count))});
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, start.at(0) + static_cast<double>(i) * delta);
  n.result(0, std::move(tensor));
  return success();
}

//===-- the same elements under another shape ----------------------------===//

LogicalResult identity(NodeImporter &n) {
  if (!n.has(0))
    return n.fail("operand 0 is missing");
  n.result(0, n.operand(0));
  return success();
}

LogicalResult reshape(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto target = n.integers(1, "shape");
  if (failed(target))
    return failure();
  Shape from = n.operand(0).getShape(), shape(*target);
  bool allowZero = n.getInt("allowzero", 0) != 0;
  int64_t open = -1;
  Shape known;
  for (auto [i, dim] : llvm::enumerate(shape)) {
    if (dim == 0 && !allowZero) {
      if (i >= from.size())
        return n.fail("shape " + toString(*target) + " copies dim " + Twine(i) +
                      " of " + toString(from));
      dim = from[i];
    }
    if (dim < -1 || (dim == -1 && open >= 0))
      return n.fail("shape " + toString(*target));
    if (dim == -1)
      open = static_cast<int64_t>(i);
    else
      known.push_back(dim);
  }
  int64_t total = graph::numElements(from), rest = countElements(known);
  if (open >= 0)
    shape[open] = rest == 0 ? 0 : total / rest;
  if (countElements(shape) != total)
    return n.fail("reshape of " + toString(from) + " to " + toString(*target));
  n.result(0, n.emit.reshape(n.operand(0), shape));
  return success();
}

LogicalResult flatten(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Shape shape = n.operand(0).getShape();
  auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = n.getInt("axis", 1);
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis > rank)
    return n.fail("axis " + Twine(n.getInt("axis", 1)) +
                  " of a tensor of rank " + Twine(rank));
  ArrayRef<int64_t> dims(shape);
  n.result(0, n.emit.reshape(n.operand(0),
                             {graph::numElements(dims.take_front(axis)),
                              graph::numElements(dims.drop_front(axis))}));
  return success();
}

LogicalResult squeeze(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto given = n.integersFrom("axes", 1);
  if (failed(given))
    return failure();
  Shape from = n.operand(0).getShape(), shape;
  SmallVector<int64_t> dropped;
  if (*given) {
    auto axes = n.axes(**given, from.size());
    if (failed(axes))
      return failure();
    dropped = *axes;
  }
  for (auto [i, dim] : llvm::enumerate(from)) {
    bool drop = *given ? llvm::is_contained(dropped, i) : dim == 1;
    if (drop && dim != 1)
      return n.fail("dim " + Twine(i) + " of " + toString(from) +
                    " is not 1 and cannot be squeezed");
    if (!drop)
      shape.push_back(dim);
  }
  n.result(0, n.emit.reshape(n.operand(0), shape));
  return success();
}

LogicalResult unsqueeze(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto given = n.integersFrom("axes", 1);
  if (failed(given))
    return failure();
  if (!*given)
    return n.fail("its axes are missing");
  Shape from = n.operand(0).getShape(), shape;
  auto axes = n.axes(**given, from.size() + (*given)->size());
  if (failed(axes))
    return failure();
  const int64_t *next = from.begin();
  for (size_t i = 0; i < from.size() + axes->size(); ++i)
    shape.push_back(llvm::is_contained(*axes, i) ? 1 : *next++);
  n.result(0, n.emit.reshape(n.operand(0), shape));
  return success();
}

LogicalResult transpose(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  int64_t rank = n.operand(0).getRank();
  SmallVector<int64_t> permutation;
  if (const Attribute *given = n.attribute("perm"))
    permutation.assign(given->ints.begin(), given->ints.end());
  else
    llvm::append_range(permutation, llvm::reverse(llvm::seq(rank)));
  auto sorted = n.axes(permutation, rank);
  if (failed(sorted))
    return failure();
  if (static_cast<int64_t>(permutation.size()) != rank)
    return n.fail("permutation " + toString(permutation) +
                  " of a tensor of rank " + Twine(rank));
  n.result(0, n.emit.transpose(n.operand(0), permutation));
  return success();
}

LogicalResult expand(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto target = n.integers(1, "shape");
  if (failed(target))
    return failure();
  auto shape = broadcastShapes(n.operand(0).getShape(), *target);
  if (failed(shape))
    return n.fail("expand of " + toString(n.operand(0).getShape()) + " to " +
                  toString(*target));
  if (failed(n.fits(*shape)))
    return failure();
  n.result(0, n.emit.broadcast(n.operand(0), *shape, false));
  return success();
}

LogicalResult tile(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  auto repeats = n.integers(1, "repeats");
  if (failed(repeats))
    return failure();
  Imported x = n.operand(0);
  Shape from = x.getShape(), apart, repeated, shape;
  if (repeats->size() != from.size())
    return n.fail("repeats " + toString(*repeats) + " of " + toString(from));
  for (auto [dim, count] : llvm::zip(from, *repeats)) {
    if (count < 0 || count > maxElements)
      return n.fail("repeats " + toString(*repeats));
    llvm::append_values(apart, int64_t(1), dim);
    llvm::append_values(repeated, count, dim);
  }
  if (failed(n.fits(repeated)))
    return failure();
  for (auto [dim, count] : llvm::zip(from, *repeats))
    shape.push_back(dim * count);
  n.result(0, n.emit.reshape(
                  n.emit.broadcast(n.emit.reshape(x, apart), repeated, false),
                  shape));
  return success();
}

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
    Shape expected = shape.size() == first.size() ? first : Shape();
    if (!expected.empty())
      expected[*axis] = shape[*axis];
    if (shape != expected)
      return n.fail("concat of " + toString(first) + " and " + toString(shape) +
                    " along dim " + Twine(*axis));
    parts.push_back(n.operand(i));
  }
  n.result(0, n.emit.concat(parts, *axis));
  return success();
}

/// `sizes` pieces of operand 0 along `axis`.
FailureOr<std::vector<Imported>> splitInto(NodeImporter &n, int64_t axis,
                                           ArrayRef<int64_t> sizes) {
  const Imported &x = n.operand(0);
  int64_t dim = x.getShape()[axis], start = 0;
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
    // Python's rule for out-of-range bounds.
    auto clamp = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 ? at + dim : at, low, high);
    };
    if (step > 0) {
      int64_t start = clamp(starts[i], 0, dim);
      int64_t end = std::max(start, clamp(ends[i], 0, dim));
      x = n.emit.slice(x, *axis, start, end, std::min(step, dim + 1));
      continue;
    }
    int64_t start = clamp(starts[i], -1, dim - 1);
    int64_t end = std::min(start, clamp(ends[i], -1, dim - 1));
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
  if (mode != "constant")
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
  if (n.has(2)) {
    if (!n.operand(2).isConstant() || n.operand(2).constant->size() != 1)
      return n.fail("its value is not known when the model is compiled");
    value = n.operand(2).constant->at(0);
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
    low[*axis] = std::max<int64_t>(0, before);
    high[*axis] = std::max<int64_t>(0, after);
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
    if (n.operand(1).getRank() == 0) { // one size; the last piece is the rest
      if (given->front() <= 0)
        return n.fail("pieces of " + Twine(given->front()));
      for (int64_t start = 0; start < dim; start += given->front())
        sizes.push_back(std::min(given->front(), dim - start));
    } else {
      sizes = *given;
    }
  } else {
    sizes.assign(dim, 1);
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

LogicalResult sequenceAt(NodeImporter &n) {
  if (!n.has(0) || !n.operand(0).sequence)
    return n.fail("operand 0 is no sequence");
  const std::vector<Imported> &elements = *n.operand(0).sequence;
  auto position = n.integers(1, "position");
  if (failed(position))
    return failure();
  auto size = static_cast<int64_t>(elements.size());
  int64_t at =
      position->front() < 0 ? position->front() + size : position->front();
  if (at < 0 || at >= size)
    return n.fail("element " + Twine(position->front()) + " of a sequence of " +
                  Twine(size));
  n.result(0, elements[at]);
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
    {"", "Constant", 1, constant},
    {"", "Shape", 1, shapeOf},
    {"", "Size", 1, sizeOf},
    {"", "ConstantOfShape", 9, constantOfShape},
    {"", "Range", 11, range},
    {"", "Identity", 1, identity},
    {"", "Reshape", 5, reshape},
    {"", "Flatten", 1, flatten},
    {"", "Squeeze", 1, squeeze},
    {"", "Unsqueeze", 1, unsqueeze},
    {"", "Transpose", 1, transpose},
    {"", "Expand", 8, expand},
    {"", "Tile", 6, tile},
    {"", "Concat", 4, concat},
    {"", "Split", 2, split},
    {"", "Split", 18, split},
    {"", "Slice", 1, slice},
    {"", "Slice", 10, slice},
    {"", "Pad", 2, pad},
    {"", "SplitToSequence", 11, splitToSequence},
    {"", "SequenceConstruct", 11, sequenceConstruct},
    {"", "SequenceAt", 11, sequenceAt},
    {"", "ConcatFromSequence", 11, concatFromSequence},
    {"", "SequenceLength", 11, sequenceLength},
};

} // namespace

ArrayRef<OpRow> getShapeRows() { return rows; }

} // namespace polyrank::frontends::onnx
