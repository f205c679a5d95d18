// Imports ops that create, measure and reshape tensors.

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {
namespace {

//===-- constants and shapes ---------------------------------------------===//

LogicalResult constant(NodeImporter &n) {
  MLIRContext *context = n.emit.getBuilder().getContext();
  if (const Attribute *value = n.attribute("value"); value && value->t) {
    auto tensor = toTensor(context, n.model, *value->t);
    if (!tensor)
      return n.fail(tensor.error().message);
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
    auto tensor =
        toTensor(n.emit.getBuilder().getContext(), n.model, *given->t);
    if (!tensor)
      return n.fail(tensor.error().message);
    if (tensor->size() != 1)
      return n.fail("its value is not one element");
    value = tensor->reshaped({});
  }
  if (failed(n.fits(*shape)))
    return failure();
  n.result(0, n.emit.broadcast(value, *shape, false));
  return success();
}

/// Ones on diagonal `k` of a matrix shaped like operand 0, zeros elsewhere.
LogicalResult eyeLike(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Shape shape = n.operand(0).getShape();
  MLIRContext *context = n.emit.getBuilder().getContext();
  Type type = n.operand(0).getElementType(),
       index = IntegerType::get(context, 64);
  if (n.attribute("dtype"))
    type = n.toResultType(typeOfNumber(n.getInt("dtype", 0)));
  if (!type || shape.size() != 2)
    return n.fail("EyeLike of " + toString(shape));
  Imported distance = n.emit.binary<graph::SubOp>(n.emit.iota(shape, 1, index),
                                                  n.emit.iota(shape, 0, index));
  graph::Tensor k(index, {});
  k.integers[0] = n.getInt("k", 0);
  n.result(0, n.emit.convert(
                  n.emit.binaryOver<graph::CompareOp>(
                      distance, Imported(std::move(k)), graph::Comparison::EQ),
                  type));
  return success();
}

LogicalResult range(NodeImporter &n) {
  if (failed(n.need(3)))
    return failure();
  auto start = n.number(0, "start"), limit = n.number(1, "limit"),
       delta = n.number(2, "delta");
  if (failed(start) || failed(limit) || failed(delta))
    return failure();
  if (*delta == 0)
    return n.fail("its delta is 0");
  double count = std::ceil((*limit - *start) / *delta);
  if (!(count <= static_cast<double>(maxFolded)))
    return n.fail("it has more than " + Twine(maxFolded) + " elements");
  graph::Tensor tensor(n.operand(0).getElementType(),
                       {static_cast<int64_t>(std::max(0.0, count))});
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, *start + static_cast<double>(i) * *delta);
  tensor.round();
  n.result(0, std::move(tensor));
  return success();
}

//===-- the same elements under another shape ----------------------------===//

LogicalResult identity(NodeImporter &n) {
  if (!n.has(0))
    return n.fail("operand 0 is missing");
  const Imported &x = n.operand(0);
  bool isDetach = n.isOf("aten.detach") && x.value && n.options.training &&
                  isa<FloatType>(x.getElementType());
  n.result(0, isDetach ? n.emit.unary<graph::DetachOp>(x) : x);
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

/// Converts between blocks of `blocksize` x `blocksize` pixels and groups of
/// channels, [N, C, H, W]. The dims of a group are rows, columns, channels
/// (DCR) or channels, rows, columns (CRD, PyTorch's pixel_shuffle).
template <bool toDepth>
LogicalResult shufflePixels(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  Shape s = n.operand(0).getShape();
  int64_t block = n.getInt("blocksize", 0);
  StringRef mode = n.getString("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return n.fail("mode `" + mode + "`");
  bool rowsFirst = mode == "DCR";
  constexpr int64_t large = 1 << 16;
  bool fits = s.size() == 4 && block >= 1 && block <= large &&
              (toDepth ? s[2] % block == 0 && s[3] % block == 0
                       : s[1] % (block * block) == 0);
  if (!fits)
    return n.fail("blocks of " + Twine(block) + " pixels in " + toString(s));
  Shape apart, result;
  SmallVector<int64_t> order;
  if (toDepth) {
    apart = {s[0], s[1], s[2] / block, block, s[3] / block, block};
    order = {0, 3, 5, 1, 2, 4};
    result = {s[0], s[1] * block * block, apart[2], apart[4]};
  } else {
    int64_t channels = s[1] / (block * block);
    apart = rowsFirst ? Shape{s[0], block, block, channels, s[2], s[3]}
                      : Shape{s[0], channels, block, block, s[2], s[3]};
    order = rowsFirst ? SmallVector<int64_t>{0, 3, 4, 1, 5, 2}
                      : SmallVector<int64_t>{0, 1, 4, 2, 5, 3};
    result = {s[0], channels, s[2] * block, s[3] * block};
  }
  n.result(0, n.emit.reshape(
                  n.emit.transpose(n.emit.reshape(n.operand(0), apart), order),
                  result));
  return success();
}

const OpRow rows[] = {
    {"", "Constant", 1, constant},
    {"", "Shape", 1, shapeOf},
    {"", "Size", 1, sizeOf},
    {"", "ConstantOfShape", 9, constantOfShape},
    {"", "EyeLike", 9, eyeLike},
    {"", "Range", 11, range},
    {"", "Identity", 1, identity},
    {"", "Reshape", 5, reshape},
    {"", "Flatten", 1, flatten},
    {"", "Squeeze", 1, squeeze},
    {"", "Unsqueeze", 1, unsqueeze},
    {"", "Transpose", 1, transpose},
    {"", "Expand", 8, expand},
    {"", "Tile", 6, tile},
    {"", "DepthToSpace", 1, shufflePixels<false>},
    {"", "SpaceToDepth", 1, shufflePixels<true>},
};

} // namespace

ArrayRef<OpRow> getShapeRows() { return rows; }

} // namespace polyrank::frontends::onnx
