// The table of ops: how a random program creates each.

#include <cmath>

#include "test/random/Program.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;
using graph::Comparison;
using sharding::ReductionKind;

using Shape = SmallVector<int64_t>;

static Shape shapeOf(Value value) { return Shape(graph::getShape(value)); }
static int64_t rankOf(Value value) { return graph::getShape(value).size(); }
static Type elementOf(Value value) {
  return graph::getGlobalType(value).getElementType();
}

/// Adds `value`, which is exact if its operand is.
static bool putLike(ProgramBuilder &b, Value value, Value operand) {
  return b.put(value, b.bound(operand), b.known(operand).bits);
}

// Elementwise ops of one operand.

/// A smooth function of anything up to `limit`.
template <typename OpType, int limit, int bound>
static bool smooth(ProgramBuilder &b) {
  Value x = b.bounded(b.pickFloat(), limit);
  return b.put(b.parts.apply<OpType>(x), bound);
}

/// A function of positive numbers, up to `bound`.
template <typename OpType, int bound>
static bool ofPositive(ProgramBuilder &b) {
  return b.put(b.parts.apply<OpType>(b.positive(b.pickFloat())), bound);
}

/// A function of (-1, 1), away from its ends.
template <typename OpType, int bound>
static bool ofPart(ProgramBuilder &b) {
  Value x = b.parts.apply<graph::SigmoidOp>(b.pickFloat());
  return b.put(b.parts.apply<OpType>(b.parts.add(x, -0.5)), bound);
}

static bool acosh(ProgramBuilder &b) {
  Value x = b.parts.apply<graph::SigmoidOp>(b.pickFloat());
  return b.put(b.parts.apply<graph::AcoshOp>(b.parts.add(x, 1.5)), 2);
}

/// Neg, abs, relu, floor: exact, and of integers too.
template <typename OpType>
static bool exactUnary(ProgramBuilder &b) {
  Value x = b.random.chance(15) ? b.pickInteger() : b.pickExact();
  return putLike(b, b.parts.apply<OpType>(x), x);
}

static bool notOp(ProgramBuilder &b) {
  Value x = b.pickBool(b.drawShape(b.random.between(1, 3)));
  return b.put(b.parts.apply<graph::NotOp>(x), 1, 0);
}

// Elementwise ops of several.

/// Two values of one shape: floats, or at times integers.
static std::pair<Value, Value> pair(ProgramBuilder &b, bool exact) {
  if (b.random.chance(15)) {
    Value x = b.pickInteger();
    return {x, b.integersOf(shapeOf(x))};
  }
  Value x = exact ? b.pickExact() : b.pickFloat();
  return {x, b.floatOf(shapeOf(x), exact)};
}

static int bitsOf(ProgramBuilder &b, Value x, Value y, bool product) {
  if (!b.isExact(x) || !b.isExact(y))
    return -1;
  int left = b.known(x).bits, right = b.known(y).bits;
  return product ? left + right : std::max(left, right);
}

template <typename OpType>
static bool sumLike(ProgramBuilder &b) {
  auto [x, y] = pair(b, false);
  return b.put(b.parts.apply<OpType>(x, y), b.bound(x) + b.bound(y),
               bitsOf(b, x, y, false));
}

static bool mul(ProgramBuilder &b) {
  auto [x, y] = pair(b, false);
  return b.put(b.parts.mul(x, y), b.bound(x) * b.bound(y),
               bitsOf(b, x, y, true));
}

template <typename OpType>
static bool extremum(ProgramBuilder &b) {
  auto [x, y] = pair(b, true);
  return b.put(b.parts.apply<OpType>(x, y), std::max(b.bound(x), b.bound(y)),
               bitsOf(b, x, y, false));
}

static bool div(ProgramBuilder &b) {
  if (b.random.chance(20)) {
    Value x = b.pickInteger();
    return b.put(b.parts.div(x, b.integersOf(shapeOf(x))), b.bound(x), 0);
  }
  Value x = b.pickFloat(), y = b.positive(b.floatOf(shapeOf(x)));
  return b.put(b.parts.div(x, y), 2 * b.bound(x));
}

static bool pow(ProgramBuilder &b) {
  Value x = b.pickFloat(), y = b.bounded(b.floatOf(shapeOf(x)), 2);
  Value base = b.parts.add(b.parts.apply<graph::SigmoidOp>(x), 0.5);
  return b.put(b.parts.apply<graph::PowOp>(base, y), 4);
}

template <typename OpType>
static bool logical(ProgramBuilder &b) {
  Shape shape = b.drawShape(b.random.between(1, 3));
  Value x = b.pickBool(shape);
  return b.put(b.parts.apply<OpType>(x, b.pickBool(shape)), 1, 0);
}

/// For negative numbers the result is at most twice as far from zero.
static bool bitAnd(ProgramBuilder &b) {
  Value x = b.pickInteger(), y = b.integersOf(shapeOf(x));
  return b.put(b.parts.apply<graph::BitAndOp>(x, y),
               2 * std::max(b.bound(x), b.bound(y)), 0);
}

static bool compare(ProgramBuilder &b) {
  auto [x, y] = pair(b, true);
  return b.put(
      b.parts.compare(x, static_cast<Comparison>(b.random.below(6)), y), 1, 0);
}

static bool select(ProgramBuilder &b) {
  auto [x, y] = pair(b, false);
  Value condition = b.pickBool(shapeOf(x));
  return b.put(b.parts.select(condition, x, y),
               std::max(b.bound(x), b.bound(y)), bitsOf(b, x, y, false));
}

static bool convert(ProgramBuilder &b) {
  switch (b.random.below(4)) {
  case 0: {
    Value x = b.pickExact();
    return b.put(b.parts.convert(x, b.builder.getI64Type()), b.bound(x), 0);
  }
  case 1: {
    Value x = b.pickExact();
    return b.put(b.parts.convert(x, b.builder.getI1Type()), 1, 0);
  }
  case 2: {
    Value x = b.pickInteger();
    return b.put(b.parts.convert(x, b.builder.getF32Type()), b.bound(x), 0);
  }
  default: {
    Value x = b.pickBool(b.drawShape(b.random.between(1, 3)));
    return b.put(b.parts.convert(x, b.builder.getF32Type()), 1, 0);
  }
  }
}

// Sources.

static bool constant(ProgramBuilder &b) {
  Type element =
      b.random.pick({Type(b.builder.getF32Type()), Type(b.builder.getI64Type()),
                     Type(b.builder.getI1Type())});
  b.addConstant(b.drawShape(b.random.between(0, 3)), element);
  return true;
}

static bool iota(ProgramBuilder &b) {
  Shape shape = b.drawShape(b.random.between(1, 3));
  Type element = b.random.chance(50) ? Type(b.builder.getF32Type())
                                     : Type(b.builder.getI64Type());
  return b.put(b.parts.iota(shape, element, b.random.below(shape.size())), 8,
               0);
}

// Ops that move elements.

/// A float, integer or boolean to be moved.
static Value anything(ProgramBuilder &b, int64_t minRank, int64_t maxRank) {
  if (b.random.chance(10))
    return b.pickInteger(minRank, std::max<int64_t>(minRank, 3));
  if (b.random.chance(8))
    return b.pickBool(b.drawShape(b.random.between(minRank, maxRank)));
  return b.pickFloat(minRank, maxRank);
}

static bool reshape(ProgramBuilder &b) {
  Value x = anything(b, 1, 4);
  Shape shape = shapeOf(x);
  switch (b.random.below(4)) {
  case 0: { // two neighbours become one
    if (shape.size() < 2)
      return false;
    int64_t d = b.random.below(shape.size() - 1);
    shape[d] *= shape[d + 1];
    shape.erase(shape.begin() + d + 1);
    break;
  }
  case 1: { // one becomes two
    int64_t d = b.random.below(shape.size());
    int64_t major = b.random.pick({2, 3, 4});
    if (shape[d] % major != 0 || shape[d] == major)
      return false;
    shape[d] /= major;
    shape.insert(shape.begin() + d, major);
    break;
  }
  case 2: // a dim of size 1 comes, or goes
    if (auto *one = llvm::find(shape, 1); one != shape.end())
      shape.erase(one);
    else
      shape.insert(shape.begin() + b.random.below(shape.size() + 1), 1);
    break;
  default: { // anything of as many elements
    int64_t rest = graph::numElements(shape);
    shape.clear();
    while (rest > 1 && shape.size() < 3) {
      int64_t size = b.random.pick({2, 3, 4, 5, 6, 8});
      if (rest % size == 0) {
        shape.push_back(size);
        rest /= size;
      } else if (b.random.chance(20)) {
        break;
      }
    }
    shape.push_back(rest);
  }
  }
  if (!b.fits(shape))
    return false;
  return putLike(b,
                 graph::ReshapeOp::create(b.builder, b.parts.location, x,
                                          ArrayRef<int64_t>(shape)),
                 x);
}

static bool transpose(ProgramBuilder &b) {
  Value x = anything(b, 2, 4);
  Shape permutation = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  for (size_t i = permutation.size(); i > 1; --i)
    std::swap(permutation[i - 1], permutation[b.random.below(i)]);
  return putLike(b, b.parts.transpose(x, permutation), x);
}

static bool broadcast(ProgramBuilder &b) {
  Value x = anything(b, 0, 3);
  Shape shape = shapeOf(x), dims;
  for (int64_t i = b.random.between(1, 2); i > 0 && shape.size() < 4; --i)
    shape.insert(shape.begin() + b.random.below(shape.size() + 1),
                 b.random.pick({-2, -3, -4}));
  for (auto [d, size] : llvm::enumerate(shape))
    if (size < 0) {
      size = -size;
      dims.push_back(d);
    }
  if (!b.fits(shape))
    return false;
  return putLike(b, b.parts.broadcast(x, shape, dims), x);
}

static bool slice(ProgramBuilder &b) {
  Value x = anything(b, 1, 4);
  Shape starts, limits, strides;
  for (int64_t size : shapeOf(x)) {
    // Whole, strided (a halo factor), or sliced.
    bool whole = b.random.chance(50), thinned = b.random.chance(40);
    starts.push_back(whole || thinned ? 0 : b.random.below(size));
    limits.push_back(
        whole || thinned ? size : b.random.between(starts.back() + 1, size));
    strides.push_back(whole     ? 1
                      : thinned ? b.random.pick({2, 3})
                                : b.random.pick({1, 1, 2, 3}));
  }
  return putLike(b,
                 graph::SliceOp::create(
                     b.builder, b.parts.location, x, ArrayRef<int64_t>(starts),
                     ArrayRef<int64_t>(limits), ArrayRef<int64_t>(strides)),
                 x);
}

static bool unfold(ProgramBuilder &b) {
  Value x = anything(b, 1, 3);
  Shape shape = shapeOf(x);
  int64_t dim = b.random.below(shape.size());
  int64_t size = b.random.between(1, 3), stride = b.random.between(1, 3),
          dilation = b.random.between(1, 2);
  int64_t low = b.random.below(3), high = b.random.below(3);
  int64_t windows = graph::UnfoldOp::getNumWindows(low + shape[dim] + high,
                                                   size, stride, dilation);
  if (windows < 1)
    return false;
  shape[dim] = windows;
  shape.push_back(size);
  if (!b.fits(shape))
    return false;
  return putLike(b,
                 graph::UnfoldOp::create(b.builder, b.parts.location, x, dim,
                                         size, stride, dilation, low, high),
                 x);
}

static bool fold(ProgramBuilder &b) {
  Value x = b.pickFloat(2, 4);
  Shape shape(ArrayRef<int64_t>(shapeOf(x)).drop_back());
  int64_t dim = b.random.below(shape.size()), size = shapeOf(x).back();
  int64_t stride = b.random.between(1, 3), low = b.random.below(2);
  int64_t result = (shape[dim] - 1) * stride + size - low;
  shape[dim] = result;
  if (result < 1 || !b.fits(shape))
    return false;
  // An element is in as many windows as have it.
  return b.put(graph::FoldOp::create(b.builder, b.parts.location, x, dim,
                                     result, stride, /*dilation=*/1, low),
               b.bound(x) * size, b.known(x).bits);
}

static bool pad(ProgramBuilder &b) {
  Value x = b.pickFloat(1, 4);
  Shape low, high, interior, shape = shapeOf(x);
  for (int64_t &size : shape) {
    // Whole, spread out (a halo factor), or with more at the ends.
    bool whole = b.random.chance(50), spread = b.random.chance(40);
    low.push_back(whole || spread ? 0 : b.random.below(3));
    high.push_back(whole || spread ? 0 : b.random.below(3));
    interior.push_back(whole    ? 0
                       : spread ? b.random.between(1, 2)
                                : b.random.below(2));
    size += low.back() + high.back() + (size - 1) * interior.back();
  }
  if (!b.fits(shape))
    return false;
  double value = b.random.pick({0.0, 0.0, 1.0, -2.0});
  return b.put(graph::PadOp::create(
                   b.builder, b.parts.location, x, ArrayRef<int64_t>(low),
                   ArrayRef<int64_t>(high), ArrayRef<int64_t>(interior), value),
               std::max(b.bound(x), 2.0), b.known(x).bits);
}

static bool concat(ProgramBuilder &b) {
  Value x = b.pickFloat(1, 4);
  Shape shape = shapeOf(x);
  int64_t dim = b.random.below(shape.size());
  SmallVector<Value> inputs{x};
  double bound = b.bound(x);
  int bits = b.known(x).bits;
  for (int64_t i = b.random.between(1, 2); i > 0; --i) {
    Shape other = shapeOf(x);
    other[dim] = b.random.between(1, 4);
    shape[dim] += other[dim];
    Value y = b.floatOf(other);
    inputs.push_back(y);
    bound = std::max(bound, b.bound(y));
    bits = bits < 0 || !b.isExact(y) ? -1 : std::max(bits, b.known(y).bits);
  }
  if (!b.fits(shape))
    return false;
  return b.put(graph::ConcatOp::create(b.builder, b.parts.location,
                                       ValueRange(inputs), dim),
               bound, bits);
}

/// Splits dims of `shape` into batch, before, the indexed dim, after.
static void drawAxis(ProgramBuilder &b, int64_t rank, int64_t &axis,
                     int64_t &batchDims) {
  bool isBatched = rank > 1 && b.random.chance(50);
  axis = isBatched ? b.random.between(1, rank - 1) : b.random.below(rank);
  batchDims = isBatched ? b.random.between(1, axis) : 0;
}

static bool gather(ProgramBuilder &b) {
  Value x = anything(b, 1, 3);
  Shape shape = shapeOf(x);
  int64_t axis, batchDims;
  drawAxis(b, shape.size(), axis, batchDims);
  Shape indices(shape.begin(), shape.begin() + batchDims);
  llvm::append_range(indices, b.drawShape(b.random.between(0, 2)));
  Shape result(shape.begin(), shape.begin() + axis);
  result.append(indices.begin() + batchDims, indices.end());
  result.append(shape.begin() + axis + 1, shape.end());
  if (!b.fits(result))
    return false;
  return putLike(b,
                 graph::GatherOp::create(b.builder, b.parts.location, x,
                                         b.integersOf(indices), axis,
                                         batchDims),
                 x);
}

static bool scatterAdd(ProgramBuilder &b) {
  Value updates = b.pickFloat(1, 4);
  Shape shape = shapeOf(updates);
  int64_t axis, batchDims;
  drawAxis(b, shape.size(), axis, batchDims);
  // Dims [axis, end) of the updates are the indices' own.
  int64_t end = b.random.between(axis, shape.size());
  Shape indices(shape.begin(), shape.begin() + batchDims);
  indices.append(shape.begin() + axis, shape.begin() + end);
  Shape result(shape.begin(), shape.begin() + axis);
  result.push_back(b.random.pick({2, 3, 4, 5, 6}));
  result.append(shape.begin() + end, shape.end());
  int64_t terms = graph::numElements(ArrayRef(shape).slice(axis, end - axis));
  if (!b.fits(result))
    return false;
  auto type = RankedTensorType::get(result, elementOf(updates));
  return b.put(graph::ScatterAddOp::create(b.builder, b.parts.location, type,
                                           b.integersOf(indices), updates,
                                           /*init=*/Value(), axis, batchDims),
               b.bound(updates) * terms, b.known(updates).bits);
}

// Ops that sum.

static bool matmul(ProgramBuilder &b) {
  Value x = b.pickFloat(1, 4);
  Shape left = shapeOf(x), right, result;
  Shape lhsBatch, rhsBatch, lhsContract, rhsContract;
  double terms = 1;
  // The role of each dim of the right operand: (its left dim or -1, isBatch).
  SmallVector<std::pair<int64_t, bool>> dims;
  for (auto [d, size] : llvm::enumerate(left)) {
    int64_t kind = b.random.below(3);
    if (kind == 0)
      dims.push_back({d, true});
    if (kind == 1)
      dims.push_back({d, false});
  }
  for (int64_t i = b.random.below(3); i > 0; --i)
    dims.push_back({-1, false});
  if (dims.empty())
    return false;
  for (size_t i = dims.size(); i > 1; --i)
    std::swap(dims[i - 1], dims[b.random.below(i)]);
  for (auto [d, entry] : llvm::enumerate(dims)) {
    auto [from, isBatch] = entry;
    right.push_back(from >= 0 ? left[from] : b.random.pick({1, 2, 3, 4, 6}));
    if (from < 0)
      continue;
    (isBatch ? lhsBatch : lhsContract).push_back(from);
    (isBatch ? rhsBatch : rhsContract).push_back(d);
    if (!isBatch)
      terms *= left[from];
  }
  for (int64_t d : lhsBatch)
    result.push_back(left[d]);
  for (auto [d, size] : llvm::enumerate(left))
    if (!llvm::is_contained(lhsBatch, d) && !llvm::is_contained(lhsContract, d))
      result.push_back(size);
  for (auto [d, size] : llvm::enumerate(right))
    if (!llvm::is_contained(rhsBatch, d) && !llvm::is_contained(rhsContract, d))
      result.push_back(size);
  if (!b.fits(right) || !b.fits(result))
    return false;
  Value y = b.floatOf(right);
  if (b.random.chance(30)) {
    std::swap(x, y);
    std::swap(lhsBatch, rhsBatch);
    std::swap(lhsContract, rhsContract);
  }
  return b.put(
      b.parts.matmul(x, y, lhsBatch, rhsBatch, lhsContract, rhsContract),
      b.bound(x) * b.bound(y) * terms, bitsOf(b, x, y, true));
}

/// Rows times the matrix of their group, or for each group the sum of outer
/// products.
template <typename OpType>
static bool grouped(ProgramBuilder &b) {
  constexpr bool isOuter = std::is_same_v<OpType, graph::GroupedOuterOp>;
  Value rows = b.pickFloat(2, 2);
  int64_t count = shapeOf(rows)[0], inner = shapeOf(rows)[1];
  int64_t matrices = b.random.pick({1, 2, 3, 4}),
          columns = b.random.pick({1, 2, 3, 4, 6});
  Shape second =
      isOuter ? Shape{count, columns} : Shape{matrices, inner, columns};
  if (!b.fits({matrices, inner, columns}) || !b.fits({count, columns}))
    return false;
  Value other = b.floatOf(second), groups = b.integersOf({count});
  Value ids = b.random.chance(20)
                  ? b.integersOf({matrices})
                  : b.parts.iota({matrices}, b.builder.getI64Type(), 0);
  double terms = static_cast<double>(isOuter ? count : inner * matrices);
  return b.put(
      OpType::create(b.builder, b.parts.location, rows, other, groups, ids),
      b.bound(rows) * b.bound(other) * terms, bitsOf(b, rows, other, true));
}

static bool reduce(ProgramBuilder &b) {
  auto kind = static_cast<ReductionKind>(b.random.below(3));
  bool isSum = kind == ReductionKind::Sum;
  Value x = b.random.chance(10) ? b.pickInteger(1, 3)
            : isSum             ? b.pickFloat(1, 4)
                                : b.pickExact(1, 4);
  Shape dims;
  double terms = 1;
  for (auto [d, size] : llvm::enumerate(shapeOf(x)))
    if (b.random.chance(45)) {
      dims.push_back(d);
      terms *= size;
    }
  if (dims.empty())
    return false;
  return b.put(b.parts.reduce(kind, x, dims),
               isSum ? b.bound(x) * terms : b.bound(x), b.known(x).bits);
}

// Composites.

static bool softmax(ProgramBuilder &b) {
  Value x = b.bounded(b.pickFloat(1, 4), 16);
  return b.put(graph::SoftmaxOp::create(b.builder, b.parts.location, x,
                                        b.random.below(rankOf(x))),
               1);
}

static bool layerNorm(ProgramBuilder &b) {
  Value x = b.bounded(b.pickFloat(1, 4), 64);
  Shape shape = shapeOf(x);
  Shape last(shape.begin() + b.random.below(shape.size()), shape.end());
  Value scale = b.bounded(b.floatOf(last), 4);
  Value bias = b.bounded(b.floatOf(last), 64);
  // Rows may be constant: a small epsilon would make their rounding errors
  // large.
  auto op = graph::LayerNormOp::create(b.builder, b.parts.location, x, scale,
                                       bias, b.random.pick({0.25, 0.5, 1.0}));
  // Mean and rstd are residuals: they have no gradient.
  if (!b.isTraining() && b.random.chance(50))
    b.put(op.getMean(), b.bound(x));
  return b.put(op.getResult(), 64);
}

static bool rmsNorm(ProgramBuilder &b) {
  Value x = b.bounded(b.pickFloat(1, 4), 64);
  Shape shape = shapeOf(x);
  Shape last(shape.begin() + b.random.below(shape.size()), shape.end());
  Value scale = b.bounded(b.floatOf(last), 4);
  auto op = graph::RmsNormOp::create(b.builder, b.parts.location, x, scale,
                                     b.random.pick({0.25, 0.5, 1.0}));
  // The reciprocal deviation is a residual: it has no gradient.
  if (!b.isTraining() && b.random.chance(50))
    b.put(op.getRstd(), 2);
  return b.put(op.getResult(), 64);
}

static bool silu(ProgramBuilder &b) {
  Value x = b.bounded(b.pickFloat(), 8);
  return b.put(graph::SiluOp::create(b.builder, b.parts.location, x),
               b.bound(x));
}

static bool gelu(ProgramBuilder &b) {
  Value x = b.bounded(b.pickFloat(), 8);
  auto form =
      b.random.chance(50) ? graph::GeluForm::Erf : graph::GeluForm::Tanh;
  return b.put(graph::GeluOp::create(b.builder, b.parts.location, x, form),
               b.bound(x));
}

static bool attention(ProgramBuilder &b) {
  int64_t groups = b.random.pick({1, 2, 3}),
          heads = groups * b.random.pick({1, 1, 2}),
          queries = b.random.pick({1, 2, 4}), keys = b.random.pick({2, 3, 4}),
          width = b.random.pick({2, 3}), valueWidth = b.random.pick({1, 2, 3});
  auto draw = [&](Shape shape) { return b.bounded(b.floatOf(shape), 8); };
  Value query = draw({b.batch, heads, queries, width}),
        key = draw({b.batch, groups, keys, width}),
        value = draw({b.batch, groups, keys, valueWidth});
  // The forms that models have: relative positions, ALiBi, padding, positions.
  Value bias, mask;
  switch (b.random.below(6)) {
  case 0:
    bias = draw({1, heads, queries, keys});
    mask = b.pickBool({b.batch, 1, 1, keys});
    break;
  case 1:
    bias = draw({1, heads, 1, keys});
    break;
  case 2:
    mask = b.pickBool({1, 1, queries, keys});
    break;
  case 3:
    mask = b.pickBool({b.batch, heads, queries, keys});
    break;
  default:
    break;
  }
  graph::AttentionForm form;
  form.scale = 0.5;
  form.causal = b.random.chance(50);
  if (form.causal && b.random.chance(30))
    form.window = b.random.pick({1, 2, 5});
  if (b.random.chance(20))
    form.softcap = 2;
  if (b.random.chance(40)) {
    form.masked =
        b.random.chance(50) ? graph::Masked::Add : graph::Masked::Replace;
    form.fill = b.random.pick({-1, -8}) * (b.random.chance(50) ? 1 : 1000);
  }
  SmallVector<Value> counters;
  if (b.random.chance(20)) {
    form.rate = 0.5;
    form.rngId = b.random.below(100);
    for (auto counter : {graph::RandomCounter::Seed, graph::RandomCounter::Step,
                         graph::RandomCounter::Microbatch})
      counters.push_back(b.getCounter(counter));
  }
  auto op = graph::AttentionOp::create(b.builder, b.parts.location, query, key,
                                       value, form, bias, mask, counters);
  return b.put(op.getResult(), b.bound(value) * (form.rate ? 2 : 1));
}

static bool crossEntropy(ProgramBuilder &b) {
  Value logits = b.bounded(b.pickFloat(1, 3), 16);
  Shape shape = shapeOf(logits);
  int64_t axis = b.random.below(shape.size()), classes = shape[axis];
  shape.erase(shape.begin() + axis);
  if (shape.empty() || shape[0] != b.batch) // labels are an input
    return false;
  int64_t ignored = b.random.pick({-100, 0});
  auto op = graph::CrossEntropyOp::create(b.builder, b.parts.location, logits,
                                          b.addLabels(shape, classes, ignored),
                                          axis, ignored);
  // lse, which label smoothing takes, is at most a logarithm above the largest.
  return b.put(b.random.chance(25) ? op.getLse() : op.getLoss(), 40);
}

/// A recurrent layer: tanh of what comes in, of a product or of one by one.
static bool scan(ProgramBuilder &b) {
  int64_t count = b.random.pick({1, 2, 3, 5}), width = b.random.pick({1, 2, 3});
  bool hasProduct = b.random.chance(50), gives = b.random.chance(75);
  Value of = b.bounded(b.floatOf({count, b.batch, width}), 8),
        carry = b.bounded(b.floatOf({b.batch, width}), 8),
        use = b.bounded(
            b.floatOf(hasProduct ? Shape{width, width} : Shape{b.batch, width}),
            8);
  Location location = b.parts.location;
  auto region = std::make_unique<Region>();
  Block &body = region->emplaceBlock();
  SmallVector<Value> arguments;
  for (Type type : {graph::ScanOp::getElementType(of.getType()),
                    graph::getGlobalType(carry), graph::getGlobalType(use)})
    arguments.push_back(body.addArgument(type, location));
  OpBuilder builder(b.builder.getContext());
  builder.setInsertionPointToEnd(&body);
  graph::Parts parts(builder, location);
  Value moved = hasProduct
                    ? parts.matmul(arguments[1], arguments[2], {}, {}, {1}, {0})
                    : parts.mul(arguments[1], arguments[2]);
  Value next = parts.apply<graph::TanhOp>(parts.add(arguments[0], moved));
  Value given = b.random.chance(50) ? arguments[1] : next;
  SmallVector<Value> stacks;
  if (gives)
    stacks.push_back(given);
  graph::ScanYieldOp::create(builder, location, stacks, next);
  auto op =
      graph::ScanOp::create(b.builder, location, count, b.random.chance(50), of,
                            carry, use, std::move(region));
  return b.put(op.getResult(0), gives && given == arguments[1] ? 8 : 1);
}

static bool dropout(ProgramBuilder &b) {
  Value x = b.pickFloat(1, 4);
  return b.put(
      graph::DropoutOp::create(b.builder, b.parts.location, x,
                               b.getCounter(graph::RandomCounter::Seed),
                               b.getCounter(graph::RandomCounter::Step),
                               b.getCounter(graph::RandomCounter::Microbatch),
                               0.5, b.random.below(100)),
      2 * b.bound(x), b.known(x).bits);
}

static bool uniform(ProgramBuilder &b) {
  if (!b.isTraining())
    return false;
  auto type = RankedTensorType::get(b.drawShape(b.random.between(1, 3)),
                                    b.builder.getF32Type());
  return b.put(
      graph::UniformOp::create(b.builder, b.parts.location, type,
                               b.getCounter(graph::RandomCounter::Seed),
                               b.getCounter(graph::RandomCounter::Step),
                               b.getCounter(graph::RandomCounter::Microbatch),
                               b.random.below(100)),
      1, 24);
}

/// The op is created by autodiff or by the step.
constexpr bool (*byPasses)(ProgramBuilder &) = nullptr;

ArrayRef<OpEntry> polyrank::test::opTable() {
  // Ops with many factors, and rare ops, are listed more than once.
  static const OpEntry table[] = {
      {"attention", attention},
      {"attention", attention},
      {"attention", attention},
      {"gather", gather},
      {"gather", gather},
      {"scatter_add", scatterAdd},
      {"scatter_add", scatterAdd},
      {"softmax", softmax},
      {"gelu", gelu},
      {"relu", exactUnary<graph::ReluOp>},
      {"neg", exactUnary<graph::NegOp>},
      {"exp", smooth<graph::ExpOp, 3, 21>},
      {"log", ofPositive<graph::LogOp, 7>},
      {"sqrt", ofPositive<graph::SqrtOp, 33>},
      {"rsqrt", ofPositive<graph::RsqrtOp, 2>},
      {"tanh", smooth<graph::TanhOp, 64, 1>},
      {"erf", smooth<graph::ErfOp, 64, 1>},
      {"sigmoid", smooth<graph::SigmoidOp, 64, 1>},
      {"sin", smooth<graph::SinOp, 64, 1>},
      {"cos", smooth<graph::CosOp, 64, 1>},
      {"atan", smooth<graph::AtanOp, 64, 2>},
      {"asin", ofPart<graph::AsinOp, 2>},
      {"acos", ofPart<graph::AcosOp, 4>},
      {"asinh", smooth<graph::AsinhOp, 64, 5>},
      {"acosh", acosh},
      {"atanh", ofPart<graph::AtanhOp, 1>},
      {"detach", exactUnary<graph::DetachOp>},
      {"abs", exactUnary<graph::AbsOp>},
      {"floor", exactUnary<graph::FloorOp>},
      {"not", notOp},
      {"add", sumLike<graph::AddOp>},
      {"sub", sumLike<graph::SubOp>},
      {"mul", mul},
      {"div", div},
      {"max", extremum<graph::MaxOp>},
      {"min", extremum<graph::MinOp>},
      {"pow", pow},
      {"and", logical<graph::AndOp>},
      {"or", logical<graph::OrOp>},
      {"bit_and", bitAnd},
      {"compare", compare},
      {"select", select},
      {"convert", convert},
      {"constant", constant},
      {"iota", iota},
      {"reshape", reshape},
      {"transpose", transpose},
      {"broadcast", broadcast},
      {"slice", slice},
      {"slice", slice},
      {"fold", fold},
      {"unfold", unfold},
      {"pad", pad},
      {"pad", pad},
      {"concat", concat},
      {"gather", gather},
      {"scatter_add", scatterAdd},
      {"matmul", matmul},
      {"grouped_matmul", grouped<graph::GroupedMatmulOp>},
      {"grouped_outer", grouped<graph::GroupedOuterOp>},
      {"reduce", reduce},
      {"softmax", softmax},
      {"softmax_grad", byPasses},
      {"layer_norm", layerNorm},
      {"layer_norm_grad", byPasses},
      {"rms_norm", rmsNorm},
      {"rms_norm_grad", byPasses},
      {"silu", silu},
      {"silu_grad", byPasses},
      {"gelu", gelu},
      {"gelu_grad", byPasses},
      {"attention", attention},
      {"attention_grad", byPasses},
      {"cross_entropy", crossEntropy},
      {"cross_entropy", crossEntropy},
      {"cross_entropy_grad", byPasses},
      {"scan", scan},
      {"scan", scan},
      {"dropout", dropout},
      {"uniform", uniform},
      {"seed", byPasses},
      {"gradient", byPasses},
      {"after", byPasses, /*isOfLayouts=*/true},
      {"transfer", byPasses, /*isOfLayouts=*/true},
      {"join", byPasses, /*isOfLayouts=*/true},
  };
  return table;
}
