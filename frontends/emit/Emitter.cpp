// Builds graph ops, or evaluates them at once if all operands are known.

#include "frontends/emit/Emitter.h"

#include "dialects/graph/Provenance.h"

using namespace mlir;

namespace polyrank::frontends {

void Emitter::setOrigin(Location newLocation, StringRef newScope) {
  location = newLocation;
  scope = newScope.empty() ? StringAttr() : builder.getStringAttr(newScope);
}

LogicalResult Emitter::fits(ArrayRef<int64_t> shape) {
  if (llvm::any_of(shape, [](int64_t dim) { return dim < 0; }))
    return fail("shape " + toString(shape));
  if (countElements(shape) > maxElements)
    return fail("shape " + toString(shape) + " is too large");
  return success();
}

bool Emitter::verify(Operation *op) {
  ScopedDiagnosticHandler handler(op->getContext(), [&](Diagnostic &message) {
    if (error.empty())
      error = message.str();
    return success();
  });
  return succeeded(op->getName().verifyInvariants(op));
}

bool Emitter::mayFold(Operation *op) {
  int64_t work = 0;
  for (const auto &types :
       {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types) {
      int64_t count = countElements(cast<RankedTensorType>(type).getShape());
      if (count > maxFolded)
        return false;
      work += count;
    }
  // A product takes more work than it has operands. (Its dims are no larger
  // than those of the tensors, so the sum does not overflow.)
  work = std::max(work, cast<graph::GraphOp>(op).getCost().flops);
  // Small computations on shapes are always folded: there are no more of them
  // than nodes.
  constexpr int64_t little = 1 << 10;
  if (work > little && work > foldingBudget)
    return false;
  foldingBudget -= work > little ? work : 0;
  return true;
}

std::optional<std::vector<graph::Tensor>>
Emitter::evaluate(ArrayRef<Known> operands, BuildFn build) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&scratch);
  for (const Known &operand : operands)
    scratch.addArgument(RankedTensorType::get(operand.getShape(),
                                              operand.getSlices().elementType),
                        location);
  Operation *op = build(builder, ValueRange(scratch.getArguments()));
  bool folds = verify(op) && mayFold(op);
  std::vector<graph::Tensor> inputs, outputs;
  if (folds) {
    inputs.reserve(operands.size());
    for (const Known &operand : operands)
      inputs.push_back(*operand);
    for (Value result : op->getResults())
      outputs.emplace_back(cast<RankedTensorType>(result.getType()));
    folds = succeeded(cast<graph::GraphOp>(op).evaluate(inputs, outputs));
    for (graph::Tensor &output : outputs)
      output.round();
  }
  op->erase();
  scratch.eraseArguments(0, scratch.getNumArguments());
  return folds ? std::optional(std::move(outputs)) : std::nullopt;
}

SmallVector<Imported> Emitter::emit(ArrayRef<Imported> operands, BuildFn build,
                                    bool isElementwise) {
  SmallVector<Imported> results;
  if (llvm::all_of(operands,
                   [](const Imported &x) { return bool(x.constant); })) {
    SmallVector<Known> known;
    for (const Imported &operand : operands)
      known.push_back(operand.constant);
    // The operands of elementwise ops have the same shape, or the op is
    // invalid.
    Shape shape = operands.empty() ? Shape() : operands[0].getShape(), slices;
    isElementwise &= countElements(shape) != 0 &&
                     llvm::all_of(operands, [&](const Imported &operand) {
                       return operand.getShape() == shape;
                     });
    if (isElementwise) {
      slices.assign(shape.size(), 1);
      for (const Known &operand : known)
        for (auto [size, other] :
             llvm::zip_equal(slices, operand.getSlices().shape))
          size = std::max(size, other);
      isElementwise = countElements(slices) <= maxFolded;
      if (slices != shape && isElementwise)
        for (Known &operand : known)
          operand = operand.getSlices().shape == slices
                        ? Known(operand.getSlices())
                        : Known(repeat(operand.getSlices(), slices));
    }
    if (auto outputs = evaluate(known, build)) {
      for (graph::Tensor &output : *outputs)
        results.push_back(isElementwise ? Known(std::move(output), shape)
                                        : Known(std::move(output)));
      return results;
    }
  }
  SmallVector<Value> values;
  for (const Imported &operand : operands)
    values.push_back(materialize(operand));
  Operation *op = build(builder, values);
  verify(op);
  graph::setScope(op, scope);
  for (Value result : op->getResults()) {
    // The op is on known tensors that are too large to be evaluated now.
    Type type = cast<RankedTensorType>(result.getType()).getElementType();
    results.push_back(type == toComputedType(type)
                          ? result
                          : graph::ConvertOp::create(builder, location, result,
                                                     toComputedType(type)));
  }
  return results;
}

const Emitter::Compressed &Emitter::compress(const Imported &x) {
  auto [entry, isNew] = compressed.try_emplace(x.constant.getKey());
  Compressed &result = entry->second;
  if (!isNew)
    return result;
  kept.push_back(x.constant);
  const graph::Tensor &tensor = x.constant.getSlices();
  if (countElements(x.getShape()) == 0) {
    llvm::append_range(result.dims, llvm::seq(tensor.getRank()));
    result.elements = toComputed(*x.constant).toAttribute();
    return result;
  }
  result.dims = varyingDims(tensor);
  Shape size(tensor.getRank(), 1), shape;
  for (int64_t dim : result.dims) {
    size[dim] = tensor.shape[dim];
    shape.push_back(tensor.shape[dim]);
  }
  result.elements =
      toComputed(tensor.slice(Shape(tensor.getRank(), 0), size).reshaped(shape))
          .toAttribute();
  return result;
}

Value Emitter::materialize(const Imported &x) {
  return x.constant ? materialize(x, x.getShape()) : x.value;
}

Value Emitter::materialize(const Imported &x, ArrayRef<int64_t> shape) {
  const Compressed &constant = compress(x);
  auto type = RankedTensorType::get(shape, toComputedType(x.getElementType()));
  if (constant.dims.empty())
    return graph::ConstantOp::create(
        builder, location,
        DenseElementsAttr::get(
            type, constant.elements.getValues<mlir::Attribute>()[0]));
  Value value = graph::ConstantOp::create(builder, location, constant.elements);
  // `shape` has the same varying dims, perhaps after further leading dims.
  int64_t lead = type.getRank() - x.getRank();
  Shape dims(constant.dims);
  for (int64_t &dim : dims)
    dim += lead;
  if (constant.elements.getType() == type)
    return value;
  if (constant.elements.getNumElements() == type.getNumElements())
    return graph::ReshapeOp::create(builder, location, value, shape);
  return graph::BroadcastOp::create(builder, location, value, shape,
                                    ArrayRef<int64_t>(dims));
}

Imported Emitter::scalar(Type elementType, double value) {
  return graph::Tensor::splat(RankedTensorType::get({}, elementType), value);
}

Imported Emitter::integers(ArrayRef<int64_t> values) {
  graph::Tensor tensor(builder.getI64Type(),
                       {static_cast<int64_t>(values.size())});
  tensor.integers.assign(values.begin(), values.end());
  return tensor;
}

Imported Emitter::broadcast(const Imported &x, ArrayRef<int64_t> shape,
                            bool asValue) {
  Shape from = x.getShape();
  if (ArrayRef<int64_t>(from) == shape)
    return x;
  auto common = broadcastShapes(from, shape);
  if (failed(common) || ArrayRef<int64_t>(*common) != shape) {
    if (error.empty())
      error = toString(from) + " does not go into the shape " + toString(shape);
    return broadcast(scalar(x.getElementType(), 0), shape, asValue);
  }
  if (x.constant && asValue)
    return materialize(x, shape);
  if (x.constant) {
    // Equal slices are merged before they are repeated.
    const graph::Tensor &given = x.constant.getSlices();
    Shape slices(given.getRank(), 1);
    if (given.size() != 0)
      for (int64_t dim : varyingDims(given))
        slices[dim] = given.shape[dim];
    else
      slices.assign(given.shape.begin(), given.shape.end());
    graph::Tensor part = given.slice(Shape(given.getRank(), 0), slices);
    slices.insert(slices.begin(), shape.size() - slices.size(), 1);
    return Known(part.reshaped(slices), shape);
  }
  if (graph::numElements(from) == graph::numElements(shape))
    return reshape(x, shape);
  size_t lead = shape.size() - from.size();
  Shape kept, dims;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != shape[lead + i])
      continue;
    kept.push_back(from[i]);
    dims.push_back(static_cast<int64_t>(lead + i));
  }
  return unary<graph::BroadcastOp>(reshape(x, kept), shape,
                                   ArrayRef<int64_t>(dims));
}

FailureOr<SmallVector<Imported>>
Emitter::broadcastAll(ArrayRef<Imported> operands) {
  Shape shape;
  bool known = true;
  for (const Imported &each : operands) {
    auto common = broadcastShapes(shape, each.getShape());
    if (failed(common))
      return fail("shapes " + toString(shape) + " and " +
                  toString(each.getShape()) + " do not go together");
    shape = *common;
    known &= each.isConstant();
  }
  SmallVector<Imported> result;
  for (const Imported &each : operands)
    result.push_back(broadcast(each, shape, !known));
  return result;
}

/// Dims of size 1 that are added or removed leave the slices unchanged.
static Known reshape(const Known &x, ArrayRef<int64_t> shape) {
  Shape slices(shape.size(), 1);
  size_t to = 0;
  bool isSame = x.repeats();
  for (auto [size, slice] :
       llvm::zip_equal(x.getShape(), x.getSlices().shape)) {
    if (size == 1)
      continue;
    while (to < shape.size() && shape[to] == 1)
      ++to;
    isSame = isSame && to < shape.size() && shape[to] == size;
    if (!isSame)
      return x->reshaped(shape);
    slices[to++] = slice;
  }
  return Known(x.getSlices().reshaped(slices), shape);
}

Imported Emitter::reshape(const Imported &x, ArrayRef<int64_t> shape) {
  if (x.isConstant())
    return frontends::reshape(x.constant, shape);
  // Of a chain of reshapes only the last one matters.
  Value source = materialize(x);
  while (auto reshape = source.getDefiningOp<graph::ReshapeOp>())
    source = reshape.getInput();
  if (cast<RankedTensorType>(source.getType()).getShape() == shape)
    return source;
  return unary<graph::ReshapeOp>(Imported(source), shape);
}

Imported Emitter::transpose(const Imported &x, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return x;
  return unary<graph::TransposeOp>(x, permutation);
}

Imported Emitter::convert(const Imported &x, Type elementType) {
  if (!x.constant)
    elementType = toComputedType(elementType);
  if (x.getElementType() == elementType)
    return x;
  return unary<graph::ConvertOp>(x, elementType);
}

Imported Emitter::slice(const Imported &x, int64_t dim, int64_t start,
                        int64_t limit, int64_t stride) {
  Shape limits = x.getShape();
  if (start == 0 && limit == limits[dim] && stride == 1)
    return x;
  Shape starts(limits.size(), 0), strides(limits.size(), 1);
  starts[dim] = start;
  limits[dim] = limit;
  strides[dim] = stride;
  return unary<graph::SliceOp>(x, ArrayRef<int64_t>(starts),
                               ArrayRef<int64_t>(limits),
                               ArrayRef<int64_t>(strides));
}

Imported Emitter::concat(ArrayRef<Imported> given, int64_t dim) {
  // Parts without elements (a cache before the first token) are dropped.
  SmallVector<Imported> parts;
  for (const Imported &part : given)
    if (part.getShape()[dim] != 0)
      parts.push_back(part);
  if (parts.empty())
    parts.push_back(given.front());
  if (parts.size() == 1)
    return parts.front();
  return emit(parts, [&](OpBuilder &b, ValueRange v) -> Operation * {
    return graph::ConcatOp::create(b, location, v, dim);
  })[0];
}

Imported Emitter::reduce(sharding::ReductionKind kind, const Imported &x,
                         ArrayRef<int64_t> dims, bool first) {
  if (dims.empty())
    return x;
  return emit({x}, [&](OpBuilder &b, ValueRange v) -> Operation * {
    return graph::ReduceOp::create(b, location, kind, v[0], dims, first);
  })[0];
}

Imported Emitter::mean(const Imported &x, ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= x.getShape()[dim];
  Imported sum = reduce(sharding::ReductionKind::Sum, x, dims);
  return binaryOver<graph::DivOp>(
      sum, scalar(x.getElementType(), static_cast<double>(count)));
}

Imported Emitter::keepDims(const Imported &reduced, ArrayRef<int64_t> shape,
                           ArrayRef<int64_t> dims) {
  Shape kept(shape);
  for (int64_t dim : dims)
    kept[dim] = 1;
  return reshape(reduced, kept);
}

Imported Emitter::select(const Imported &condition, const Imported &onTrue,
                         const Imported &onFalse) {
  return emit(
      {condition, onTrue, onFalse},
      [&](OpBuilder &b, ValueRange v) -> Operation * {
        return graph::SelectOp::create(b, location, v[0], v[1], v[2]);
      },
      /*isElementwise=*/true)[0];
}

void Emitter::limitIndices(const Imported &indices, int64_t limit,
                           std::optional<int64_t> ignored) {
  // Elements that are cut off here (the first label of a shifted text) are
  // limited to the range too.
  Value value = indices.value;
  auto isMoved = [&] {
    Operation *op = value ? value.getDefiningOp() : nullptr;
    return isa_and_present<graph::ReshapeOp, graph::ConvertOp, graph::SliceOp,
                           graph::PadOp, graph::TransposeOp>(op) &&
           isa<IntegerType>(getElementTypeOrSelf(op->getOperand(0)));
  };
  while (sequences.contains(value) || isMoved()) {
    Value sequence = sequences.lookup(value);
    value = sequence ? sequence : value.getDefiningOp()->getOperand(0);
  }
  auto argument = dyn_cast_if_present<BlockArgument>(value);
  if (!argument || !argument.getOwner()->getParentOp())
    return; // values that a scan carries are computed, not given
  auto [entry, isNew] =
      indexRanges.try_emplace(value, IndexRange{limit, ignored});
  if (isNew)
    return;
  IndexRange &range = entry->second;
  range.limit = std::min(range.limit, limit);
  if (range.ignored != ignored)
    range.ignored.reset();
}

Imported Emitter::dropout(const Imported &x, double rate) {
  auto [seed, step, microbatch] = getRandomness();
  return emit({x, seed, step, microbatch},
              [&](OpBuilder &b, ValueRange v) -> Operation * {
                return graph::DropoutOp::create(b, location, v[0], v[1], v[2],
                                                v[3], rate, numRandom++);
              })[0];
}

Imported Emitter::uniform(ArrayRef<int64_t> shape) {
  auto [seed, step, microbatch] = getRandomness();
  return emit({seed, step, microbatch},
              [&](OpBuilder &b, ValueRange v) -> Operation * {
                return graph::UniformOp::create(
                    b, location, RankedTensorType::get(shape, b.getF32Type()),
                    v[0], v[1], v[2], numRandom++);
              })[0];
}

Imported Emitter::iota(ArrayRef<int64_t> shape, int64_t dim, Type elementType) {
  return emit({}, [&](OpBuilder &b, ValueRange) -> Operation * {
    return graph::IotaOp::create(
        b, location, RankedTensorType::get(shape, elementType), dim);
  })[0];
}

} // namespace polyrank::frontends
