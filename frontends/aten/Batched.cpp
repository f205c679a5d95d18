// Tensors inside a region of torch.vmap, and how they enter and leave it.

#include "frontends/aten/Batched.h"

#include "frontends/aten/BatchedCall.h"
#include "frontends/aten/Nested.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace polyrank::frontends::aten {

Value Batched::of(TensorRef tensor, ArrayRef<int64_t> levels) {
  if (levels.empty())
    return tensor;
  return std::shared_ptr<Object>(
      std::make_shared<Batched>(std::move(tensor), levels));
}

Shape Batched::getShape() const {
  return Shape(ArrayRef<int64_t>(tensor->getShape()).drop_front(numHidden()));
}

std::shared_ptr<Batched> asBatched(const Value &value) {
  return value.isObject()
             ? std::dynamic_pointer_cast<Batched>(value.getObject())
             : nullptr;
}

bool hasBatched(const Value &value) {
  return !forEachValue(
      value, [](const Value &each) { return asBatched(each) == nullptr; });
}

TensorRef heldTensor(const Value &value) {
  if (auto batched = asBatched(value))
    return batched->tensor;
  return value.isTensor() ? value.getTensor() : nullptr;
}

//===-- the ends of a region ---------------------------------------------===//

static Value fail(Context &context, const Value &x, const Twine &reason) {
  if (!x.isUnknown())
    context.failures.add("torch.vmap: " + reason.str(), context.place);
  return Value::unknown();
}

/// Transposes `x`, whose levels are `levels`, by `order`, which includes the
/// hidden dims.
static Value ordered(Context &context, const TensorRef &x,
                     ArrayRef<int64_t> order, ArrayRef<int64_t> levels) {
  if (llvm::is_sorted(order))
    return Batched::of(x, levels);
  return Batched::of(
      Tensor::viewOf(context.emit, x, {View::Kind::Transpose, Shape(order)}),
      levels);
}

Value addBatchDim(Context &context, const Value &x, int64_t dim,
                  int64_t level) {
  TensorRef held = heldTensor(x);
  if (!held)
    return fail(context, x,
                "it maps over " + x.describe() + ", which is no real tensor");
  auto batched = asBatched(x);
  SmallVector<int64_t> levels;
  if (batched)
    levels.assign(batched->levels.begin(), batched->levels.end());
  auto numHidden = static_cast<int64_t>(levels.size());
  int64_t rank = held->getRank() - numHidden;
  if (dim < 0)
    dim += rank;
  if (dim < 0 || dim >= rank || llvm::is_contained(levels, level))
    return fail(context, x,
                "it maps over dim " + Twine(dim) + " of " + x.describe());
  auto at = llvm::lower_bound(levels, level) - levels.begin();
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(held->getRank()));
  order.erase(order.begin() + numHidden + dim);
  order.insert(order.begin() + at, numHidden + dim);
  levels.insert(levels.begin() + at, level);
  return ordered(context, held, order, levels);
}

Value removeBatchDim(Context &context, const Value &x, int64_t level,
                     int64_t size, int64_t dim) {
  TensorRef held = heldTensor(x);
  if (!held)
    return fail(context, x, "it gives " + x.describe());
  auto batched = asBatched(x);
  if (!batched || !llvm::is_contained(batched->levels, level)) {
    // The value is the same for all indices of the level.
    Shape shape = batched ? batched->getShape() : held->getShape();
    int64_t rank = static_cast<int64_t>(shape.size()) + 1;
    if (dim < 0)
      dim += rank;
    if (dim < 0 || dim >= rank)
      return fail(context, x, "its result has no dim " + Twine(dim));
    shape.insert(shape.begin() + dim, size);
    Value spread =
        call(context, "aten::unsqueeze", std::nullopt, {x, Value(dim)});
    return call(context, "aten::expand", std::nullopt,
                {spread, Value::ints(shape)});
  }
  SmallVector<int64_t> levels(batched->levels.begin(), batched->levels.end());
  auto at = llvm::find(levels, level) - levels.begin();
  int64_t rank = batched->getRank() + 1, numHidden = batched->numHidden() - 1;
  if (dim < 0)
    dim += rank;
  if (dim < 0 || dim >= rank || held->getShape()[at] != size)
    return fail(context, x,
                "of " + Twine(held->getShape()[at]) +
                    " samples its result has " + Twine(size) + " in dim " +
                    Twine(dim));
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(held->getRank()));
  order.erase(order.begin() + at);
  order.insert(order.begin() + numHidden + dim, at);
  levels.erase(levels.begin() + at);
  return ordered(context, held, order, levels);
}

//===-- calls ------------------------------------------------------------===//

Value callBatched(Context &context, StringRef name, const Schema &schema,
                  std::vector<Value> arguments) {
  return BatchedCall(context, name, schema, std::move(arguments)).run();
}

StringRef explainRegion() {
  return "; PyTorch can decompose the region: export the model by "
         "tools/export.py --decompose, or save program.run_decompositions()";
}

} // namespace polyrank::frontends::aten
