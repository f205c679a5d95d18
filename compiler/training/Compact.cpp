// Finds values without the dims along which they only repeat.

#include "compiler/training/Compact.h"

#include "compiler/training/ReshapeMotion.h"
#include "dialects/graph/Parts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getShape;

/// How many ops one search looks through. Masks and biases are a few; where ops
/// share operands, a search without a bound would take exponential time.
static constexpr int mostOps = 256;

SmallVector<int64_t> Compact::getVarying() const {
  SmallVector<int64_t> varying;
  for (auto [size, dim] : llvm::zip_equal(getShape(value), dims))
    if (size != 1)
      varying.push_back(dim);
  return varying;
}

Value Compact::inShape(OpBuilder &builder, ArrayRef<int64_t> of,
                       ArrayRef<int64_t> whole) const {
  SmallVector<int64_t> own(whole.size(), 1), wanted(whole.size(), 1);
  for (int64_t dim : getVarying())
    own[dim] = whole[dim];
  for (int64_t dim : of)
    wanted[dim] = whole[dim];
  if (own == wanted)
    return reshaped(builder, value, wanted);
  SmallVector<int64_t> kept, dims;
  for (auto [dim, size] : llvm::enumerate(own))
    if (size == wanted[dim]) {
      kept.push_back(size);
      dims.push_back(dim);
    }
  return graph::BroadcastOp::create(
      builder, value.getLoc(), reshaped(builder, value, kept), wanted, dims);
}

Value training::reshaped(OpBuilder &builder, Value value,
                         ArrayRef<int64_t> shape) {
  if (getShape(value) == shape)
    return value;
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getInput();
  return getShape(value) == shape
             ? value
             : graph::ReshapeOp::create(builder, value.getLoc(), value, shape)
                   .getResult();
}

/// Reads a reshape of a broadcast that splits dims, such as [12, 5] to
/// [2, 6, 5]: the broadcast value with the same dims split. Nullopt if it also
/// merges dims of that value with others.
static std::optional<Compact> splitBefore(OpBuilder &builder,
                                          graph::ReshapeOp reshape) {
  auto broadcast = reshape.getInput().getDefiningOp<graph::BroadcastOp>();
  if (!broadcast || !llvm::is_sorted(broadcast.getDims()))
    return std::nullopt;
  Compact result;
  SmallVector<int64_t> shape;
  for (const ReshapeGroup &group :
       getGroups(getShape(broadcast), getShape(reshape))) {
    bool isKept = llvm::any_of(group.source, [&](int64_t dim) {
      return llvm::is_contained(broadcast.getDims(), dim);
    });
    if (!isKept)
      continue;
    if (group.source.size() != 1)
      return std::nullopt;
    for (int64_t dim : group.result) {
      result.dims.push_back(dim);
      shape.push_back(getShape(reshape)[dim]);
    }
  }
  result.value = reshaped(builder, broadcast.getInput(), shape);
  return result;
}

/// Looks through broadcasts, and reshapes that split dims or add or drop dims
/// of size 1.
static Compact strip(OpBuilder &builder, Value value) {
  Compact result{value, {}};
  llvm::append_range(result.dims,
                     llvm::seq<int64_t>(0, getShape(value).size()));
  while (Operation *op = result.value.getDefiningOp()) {
    SmallVector<int64_t> dims;
    if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
      if (!llvm::is_sorted(broadcast.getDims()))
        break;
      for (int64_t dim : broadcast.getDims())
        dims.push_back(result.dims[dim]);
    } else if (isa<graph::ReshapeOp>(op)) {
      ArrayRef<int64_t> from = getShape(op->getOperand(0)),
                        to = getShape(op->getResult(0));
      // Dims of size 1 aside, both have the same ones.
      size_t next = 0;
      bool isSame = true;
      for (int64_t size : from) {
        if (size == 1) {
          dims.push_back(-1);
          continue;
        }
        while (next < to.size() && to[next] == 1)
          ++next;
        isSame = next < to.size() && to[next] == size;
        if (!isSame)
          break;
        dims.push_back(result.dims[next++]);
      }
      if (!isSame) {
        std::optional<Compact> split =
            splitBefore(builder, cast<graph::ReshapeOp>(op));
        if (!split)
          return result;
        for (int64_t &dim : split->dims)
          dim = result.dims[dim];
        result = *split;
        continue;
      }
    } else {
      break;
    }
    result = {op->getOperand(0), dims};
  }
  return result;
}

/// A constant or iota without the dims along which it does not vary.
static Compact withoutRepetitions(OpBuilder &builder, Compact compact) {
  Operation *op = compact.value.getDefiningOp();
  Type element =
      cast<RankedTensorType>(compact.value.getType()).getElementType();
  Location location = compact.value.getLoc();
  if (auto iota = dyn_cast_or_null<graph::IotaOp>(op)) {
    int64_t dim = iota.getDim(), size = getShape(iota)[dim];
    if (getShape(iota).size() > 1)
      return {graph::IotaOp::create(builder, location,
                                    RankedTensorType::get({size}, element), 0),
              {compact.dims[dim]}};
    return compact;
  }
  auto constant = dyn_cast_or_null<graph::ConstantOp>(op);
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                           : DenseElementsAttr();
  if (!elements || getShape(constant).empty())
    return compact;
  if (elements.isSplat())
    return {graph::ConstantOp::create(
                builder, location,
                elements.resizeSplat(RankedTensorType::get({}, element))),
            {}};
  // Exporters repeat masks for each sample and head: the first dims.
  ArrayRef<int64_t> shape = getShape(constant);
  if (shape.size() != 4 || shape[0] * shape[1] == 1)
    return compact;
  auto numbers = graph::Tensor::fromAttribute(elements);
  int64_t count = shape[2] * shape[3];
  for (int64_t i = count; i < numbers.size(); ++i)
    if (numbers.at(i) != numbers.at(i % count))
      return compact;
  graph::Tensor first(element, shape.drop_front(2));
  first.copy(0, numbers, 0, count);
  return {graph::ConstantOp::create(builder, location, first.toAttribute()),
          {compact.dims[2], compact.dims[3]}};
}

static bool isSameWithin(Value one, Value other, int &left) {
  if (one == other)
    return true;
  if (--left < 0)
    return false;
  Operation *op = one.getDefiningOp(), *second = other.getDefiningOp();
  if (!op || !second || op->getNumResults() != 1 ||
      !OperationEquivalence::isEquivalentTo(
          op, second, OperationEquivalence::ignoreValueEquivalence, nullptr,
          OperationEquivalence::IgnoreLocations))
    return false;
  return llvm::all_of(llvm::zip_equal(op->getOperands(), second->getOperands()),
                      [&](auto pair) {
                        return isSameWithin(std::get<0>(pair),
                                            std::get<1>(pair), left);
                      });
}

bool training::isSameValue(Value one, Value other) {
  int left = mostOps;
  return isSameWithin(one, other, left);
}

static Compact makeCompactWithin(OpBuilder &builder, Value value, int &left) {
  Compact result = withoutRepetitions(builder, strip(builder, value));
  Operation *op = result.value.getDefiningOp();
  if (!op || !op->hasTrait<graph::Elementwise>() || op->getNumResults() != 1 ||
      --left < 0)
    return result;
  ArrayRef<int64_t> shape = getShape(result.value);
  SmallVector<Compact> operands;
  SmallVector<bool> varies(shape.size());
  for (Value operand : op->getOperands()) {
    operands.push_back(makeCompactWithin(builder, operand, left));
    for (int64_t dim : operands.back().getVarying())
      varies[dim] = true;
  }
  SmallVector<int64_t> of, sizes, dims;
  for (auto [dim, size] : llvm::enumerate(shape))
    if (varies[dim]) {
      of.push_back(dim);
      sizes.push_back(size);
      dims.push_back(result.dims[dim]);
    }
  if (llvm::all_of(llvm::enumerate(shape), [&](auto dim) {
        return dim.value() == 1 || varies[dim.index()];
      }))
    return result;
  OperationState state(op->getLoc(), op->getName());
  for (const Compact &operand : operands)
    state.addOperands(
        reshaped(builder, operand.inShape(builder, of, shape), sizes));
  state.addAttributes(op->getAttrs());
  state.addTypes(RankedTensorType::get(
      sizes, cast<RankedTensorType>(result.value.getType()).getElementType()));
  return {builder.create(state)->getResult(0), dims};
}

Compact training::makeCompact(OpBuilder &builder, Value value) {
  int left = mostOps;
  return makeCompactWithin(builder, value, left);
}

Compact training::makeCompact(OpBuilder &builder, const Compact &compact,
                              unsigned operand) {
  Compact result =
      makeCompact(builder, compact.value.getDefiningOp()->getOperand(operand));
  for (int64_t &dim : result.dims)
    dim = dim < 0 ? -1 : compact.dims[dim];
  return result;
}
