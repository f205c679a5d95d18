// A PyTorch tensor during import: elements with an identity.

#include "frontends/aten/Tensor.h"

using namespace mlir;

namespace polyrank::frontends::aten {

Tensor::Tensor(Imported contents, ElementType type, bool isWrappedNumber)
    : storage(std::make_shared<Storage>()), type(type),
      isWrapped(isWrappedNumber), shape(contents.getShape()),
      strides(graph::getStrides(shape)) {
  storage->contents = std::move(contents);
  cached = storage->contents;
}

std::shared_ptr<Tensor> Tensor::ofParameter(mlir::Value argument,
                                            ElementType type, Imported known,
                                            bool isTrained) {
  bool isKnown = bool(known);
  auto tensor = std::make_shared<Tensor>(
      isKnown ? std::move(known) : Imported(argument), type);
  tensor->storage->parameter = argument;
  tensor->storage->isKnownBuffer = isKnown;
  tensor->storage->isTrained = isTrained;
  return tensor;
}

//===-- views ------------------------------------------------------------===//

/// The part of `x` that `view` shows.
static Imported show(Emitter &emit, const Imported &x, const View &view) {
  const Shape &n = view.numbers;
  switch (view.kind) {
  case View::Kind::Reshape:
    return emit.reshape(x, n);
  case View::Kind::Transpose:
    return emit.transpose(x, n);
  case View::Kind::Slice:
    return emit.slice(x, n[0], n[1], n[2], n[3]);
  case View::Kind::Broadcast:
    return emit.broadcast(x, n, !x.isConstant());
  case View::Kind::Detach:
    return x.constant || !isa<FloatType>(x.getElementType())
               ? x
               : emit.unary<graph::DetachOp>(x);
  }
  llvm_unreachable("covered switch");
}

/// `whole`, with the slice that `n` describes replaced by `part`.
static Imported writeSlice(Emitter &emit, const Imported &whole,
                           const Imported &part, const Shape &n) {
  int64_t dim = n[0], start = n[1], limit = n[2], stride = n[3];
  int64_t size = whole.getShape()[dim];
  if (part.getShape()[dim] == 0)
    return whole;
  if (stride == 1)
    return emit.concat({emit.slice(whole, dim, 0, start), part,
                        emit.slice(whole, dim, limit, size)},
                       dim);
  // The elements of the part are not adjacent: each position selects the old or
  // the new element.
  graph::Tensor sources(emit.getBuilder().getI64Type(), {size}),
      isNew(IntegerType::get(emit.getBuilder().getContext(), 1), {size});
  for (int64_t at = start, i = 0; at < limit; at += stride, ++i) {
    sources.integers[at] = i;
    isNew.integers[at] = 1;
  }
  Imported spread =
      emit.binary<graph::GatherOp>(part, Imported(std::move(sources)), dim);
  Shape over(whole.getRank(), 1);
  over[dim] = size;
  bool known = whole.isConstant() && spread.isConstant();
  return emit.select(
      emit.broadcast(emit.reshape(Imported(std::move(isNew)), over),
                     whole.getShape(), !known),
      spread, whole);
}

/// `whole`, with what `view` shows replaced by `part`.
static Imported writeThrough(Emitter &emit, const Imported &whole,
                             const Imported &part, const View &view) {
  switch (view.kind) {
  case View::Kind::Reshape:
    return emit.reshape(part, whole.getShape());
  case View::Kind::Transpose: {
    Shape inverse(view.numbers.size());
    for (auto [i, dim] : llvm::enumerate(view.numbers))
      inverse[dim] = static_cast<int64_t>(i);
    return emit.transpose(part, inverse);
  }
  case View::Kind::Slice:
    return writeSlice(emit, whole, part, view.numbers);
  case View::Kind::Detach:
    return part;
  case View::Kind::Broadcast:
    break; // already refused
  }
  llvm_unreachable("covered switch");
}

bool Tensor::isContiguous() const {
  int64_t expected = 1;
  for (int64_t dim = getRank(); dim-- > 0;) {
    if (shape[dim] != 1 && strides[dim] != expected)
      return false;
    expected *= shape[dim];
  }
  return true;
}

std::optional<Shape> stridesOfReshape(const Tensor &tensor,
                                      ArrayRef<int64_t> shape) {
  if (tensor.isContiguous())
    return graph::getStrides(shape);
  // Dims that are contiguous with each other are merged; each merged dim must
  // consist of whole dims of the new shape.
  Shape strides(shape.size(), 1), from = tensor.getShape();
  auto to = static_cast<int64_t>(shape.size()) - 1;
  for (int64_t dim = tensor.getRank() - 1; dim >= 0;) {
    int64_t inner = tensor.getStrides()[dim], size = from[dim];
    while (dim > 0 &&
           (from[dim - 1] == 1 || tensor.getStrides()[dim - 1] == inner * size))
      size *= from[--dim];
    --dim;
    int64_t made = 1;
    while (to >= 0 && (made < size || shape[to] == 1)) {
      strides[to] = inner * made;
      made *= shape[to--];
    }
    if (made != size)
      return std::nullopt;
  }
  return to < 0 ? std::optional(strides) : std::nullopt;
}

/// The strides of the view `view` of `base`, which has shape `shape`.
static Shape stridesOfView(const Tensor &base, const View &view,
                           const Shape &shape) {
  Shape strides = base.getStrides(), from = base.getShape();
  switch (view.kind) {
  case View::Kind::Reshape:
    return stridesOfReshape(base, shape).value_or(graph::getStrides(shape));
  case View::Kind::Transpose: {
    Shape permuted;
    for (int64_t dim : view.numbers)
      permuted.push_back(strides[dim]);
    return permuted;
  }
  case View::Kind::Slice:
    strides[view.numbers[0]] *= view.numbers[3];
    return strides;
  case View::Kind::Broadcast: {
    size_t lead = shape.size() - from.size();
    Shape repeated(shape.size(), 0);
    for (size_t i = 0; i < from.size(); ++i)
      repeated[lead + i] = from[i] == shape[lead + i] ? strides[i] : 0;
    return repeated;
  }
  case View::Kind::Detach:
    return strides;
  }
  llvm_unreachable("covered switch");
}

std::shared_ptr<Tensor>
Tensor::viewOf(Emitter &emit, const std::shared_ptr<Tensor> &base, View view) {
  auto result = std::shared_ptr<Tensor>(new Tensor());
  result->storage = base->storage;
  result->views = base->views;
  result->type = base->type;
  result->cached = show(emit, base->read(emit), view);
  result->seen = base->seen;
  result->shape = result->cached.getShape();
  result->strides = stridesOfView(*base, view, result->shape);
  result->views.push_back(std::move(view));
  return result;
}

//===-- elements ---------------------------------------------------------===//

Imported Tensor::read(Emitter &emit) {
  storage->wasRead = true;
  if (seen == storage->version)
    return cached;
  cached = storage->contents;
  for (const View &view : views)
    cached = show(emit, cached, view);
  seen = storage->version;
  return cached;
}

std::string Tensor::prepareToWrite() {
  if (llvm::any_of(views, [](const View &view) {
        return view.kind == View::Kind::Broadcast;
      }))
    return "it writes into a tensor that was expanded, whose elements are one; "
           "clone() it before";
  if (!storage->whyFixed.empty())
    return storage->whyFixed;
  if (!storage->isKnownBuffer)
    return "";
  if (storage->wasRead)
    return "it changes an integer buffer that was read before, where its "
           "elements were taken as constants";
  storage->isKnownBuffer = false;
  storage->contents = storage->parameter;
  ++storage->version;
  return "";
}

void Tensor::write(Emitter &emit, const Imported &value) {
  // The contents as seen before each view is applied.
  SmallVector<Imported> wholes = {storage->contents};
  for (const View &view : views)
    wholes.push_back(show(emit, wholes.back(), view));
  Imported part = value;
  for (size_t i = views.size(); i-- > 0;)
    part = writeThrough(emit, wholes[i], part, views[i]);
  ++storage->version;
  if (storage->isTrained) {
    // The new elements, with the gradient of the parameter: the term added to
    // them is zero.
    Imported leaf = storage->parameter,
             next = emit.unary<graph::DetachOp>(emit.materialize(part));
    storage->contents = emit.binary<graph::AddOp>(
        next,
        emit.binary<graph::SubOp>(leaf, emit.unary<graph::DetachOp>(leaf)));
    emit.update(storage->parameter, next.value);
    return;
  }
  storage->contents = part;
  cached = value;
  seen = storage->version;
  if (storage->parameter)
    emit.update(storage->parameter, emit.materialize(part));
}

bool Tensor::isSameAs(const Tensor &other) const {
  auto isSameView = [](const View &a, const View &b) {
    return a.kind == b.kind && a.numbers == b.numbers;
  };
  return storage == other.storage &&
         llvm::equal(views, other.views, isSameView);
}

mlir::Value Tensor::getParameter() const {
  return views.empty() ? storage->parameter : mlir::Value();
}

} // namespace polyrank::frontends::aten
