// Builds graph ops, or computes them at once where all operands are known.

#include "frontends/onnx/Emitter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

RankedTensorType Imported::getType() const {
  return constant ? constant->getType()
                  : cast<RankedTensorType>(value.getType());
}

Shape Imported::getShape() const {
  return Shape(constant ? ArrayRef<int64_t>(constant->shape)
                        : cast<RankedTensorType>(value.getType()).getShape());
}

int64_t Imported::getRank() const {
  return constant ? constant->getRank()
                  : cast<RankedTensorType>(value.getType()).getRank();
}

FailureOr<Shape> broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Shape shape(a);
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &dim = shape[lead + i];
    if (dim == 1)
      dim = b[i];
    else if (b[i] != 1 && b[i] != dim)
      return failure();
  }
  return shape;
}

void Emitter::setOrigin(Location newLocation, StringRef newScope) {
  location = newLocation;
  scope = newScope.empty() ? StringAttr() : builder.getStringAttr(newScope);
}

int64_t countElements(ArrayRef<int64_t> shape) {
  constexpr int64_t most = int64_t(1) << 62;
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim <= 0)
      return 0;
    count = count > most / dim ? most : count * dim;
  }
  return count;
}

/// Constants above this many elements are left to run time.
static constexpr int64_t maxFolded = int64_t(1) << 27;

bool Emitter::verify(Operation *op) {
  ScopedDiagnosticHandler handler(op->getContext(), [&](Diagnostic &message) {
    if (error.empty())
      error = message.str();
    return success();
  });
  return succeeded(op->getName().verifyInvariants(op));
}

SmallVector<Imported> Emitter::emit(ArrayRef<Imported> operands,
                                    BuildFn build) {
  SmallVector<Imported> results;
  if (llvm::all_of(operands,
                   [](const Imported &x) { return x.isConstant(); })) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&scratch);
    std::vector<graph::Tensor> inputs, outputs;
    for (const Imported &operand : operands) {
      scratch.addArgument(operand.getType(), location);
      inputs.push_back(*operand.constant);
    }
    Operation *op = build(builder, ValueRange(scratch.getArguments()));
    bool folds = verify(op);
    for (Value result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      folds &= countElements(type.getShape()) <= maxFolded;
      if (folds)
        outputs.emplace_back(type);
    }
    folds =
        folds && succeeded(cast<graph::GraphOp>(op).evaluate(inputs, outputs));
    op->erase();
    scratch.eraseArguments(0, scratch.getNumArguments());
    if (folds) {
      for (graph::Tensor &output : outputs)
        results.push_back(std::move(output));
      return results;
    }
  }
  SmallVector<Value> values;
  for (const Imported &operand : operands)
    values.push_back(materialize(operand));
  Operation *op = build(builder, values);
  verify(op);
  if (scope)
    op->setAttr("graph.scope", scope);
  for (Value result : op->getResults())
    results.push_back(result);
  return results;
}

SmallVector<int64_t> varyingDims(const graph::Tensor &tensor) {
  SmallVector<int64_t> dims;
  SmallVector<int64_t> strides = graph::getStrides(tensor.shape);
  auto equal = [&](int64_t i, int64_t j) {
    // Bits, so that NaN equals itself and -0 does not equal 0.
    return tensor.isFloat() ? llvm::bit_cast<uint64_t>(tensor.floats[i]) ==
                                  llvm::bit_cast<uint64_t>(tensor.floats[j])
                            : tensor.integers[i] == tensor.integers[j];
  };
  for (int64_t dim = 0; dim < tensor.getRank(); ++dim) {
    int64_t stride = strides[dim], size = tensor.shape[dim];
    for (int64_t i = 0, n = tensor.size(); i < n; ++i) {
      if (i / stride % size == 0 || equal(i, i - stride))
        continue;
      dims.push_back(dim);
      break;
    }
  }
  return dims;
}

const Emitter::Compressed &Emitter::compress(const Imported &x) {
  auto [entry, isNew] = compressed.try_emplace(x.constant.get());
  Compressed &result = entry->second;
  if (!isNew)
    return result;
  kept.push_back(x.constant);
  const graph::Tensor &tensor = *x.constant;
  if (tensor.size() == 0) {
    llvm::append_range(result.dims, llvm::seq(tensor.getRank()));
    result.elements = tensor.toAttribute();
    return result;
  }
  result.dims = varyingDims(tensor);
  Shape size(tensor.getRank(), 1), shape;
  for (int64_t dim : result.dims) {
    size[dim] = tensor.shape[dim];
    shape.push_back(tensor.shape[dim]);
  }
  result.elements = tensor.slice(Shape(tensor.getRank(), 0), size)
                        .reshaped(shape)
                        .toAttribute();
  return result;
}

Value Emitter::materialize(const Imported &x) {
  return x.isConstant() ? materialize(x, x.getShape()) : x.value;
}

Value Emitter::materialize(const Imported &x, ArrayRef<int64_t> shape) {
  const Compressed &constant = compress(x);
  auto type = RankedTensorType::get(shape, x.getElementType());
  if (constant.dims.empty())
    return graph::ConstantOp::create(
        builder, location,
        DenseElementsAttr::get(type,
                               constant.elements.getValues<Attribute>()[0]));
  Value value = graph::ConstantOp::create(builder, location, constant.elements);
  // The dims that vary are the same in `shape`, which may have more in front.
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
  if (x.isConstant() && asValue)
    return materialize(x, shape);
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

Imported Emitter::reshape(const Imported &x, ArrayRef<int64_t> shape) {
  if (x.isConstant())
    return x.constant->reshaped(shape);
  // Of a chain of reshapes only the last one counts.
  Value source = x.value;
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

Imported Emitter::concat(ArrayRef<Imported> parts, int64_t dim) {
  if (parts.size() == 1)
    return parts.front();
  return emit(parts, [&](OpBuilder &b, ValueRange v) -> Operation * {
    return graph::ConcatOp::create(b, location, v, dim);
  })[0];
}

Imported Emitter::reduce(shard::ReductionKind kind, const Imported &x,
                         ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  return emit({x}, [&](OpBuilder &b, ValueRange v) -> Operation * {
    return graph::ReduceOp::create(b, location, kind, v[0], dims);
  })[0];
}

Imported Emitter::select(const Imported &condition, const Imported &onTrue,
                         const Imported &onFalse) {
  return emit({condition, onTrue, onFalse},
              [&](OpBuilder &b, ValueRange v) -> Operation * {
                return graph::SelectOp::create(b, location, v[0], v[1], v[2]);
              })[0];
}

Imported Emitter::iota(ArrayRef<int64_t> shape, int64_t dim, Type elementType) {
  return emit({}, [&](OpBuilder &b, ValueRange) -> Operation * {
    return graph::IotaOp::create(
        b, location, RankedTensorType::get(shape, elementType), dim);
  })[0];
}

} // namespace polyrank::frontends::onnx
