// A tensor of the boundary in parts.

#include "compiler/sharding/TensorParts.h"

#include "compiler/sharding/Why.h"
#include "dialects/graph/Parts.h"
#include "dialects/sharding/Reason.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

Fill polyrank::sharding::fillOf(LayoutAttr layout) {
  for (DimAttr dim : layout.getDims())
    if (dim.getPadded())
      return dim.getFill();
  return Fill::Undefined;
}

TensorParts::TensorParts(RankedTensorType whole, ArrayRef<AxisRef> axes)
    : whole(whole), layout(getLayout(whole)), axes(axes) {}

void TensorParts::setWhy(std::string constraint, std::string user) {
  this->constraint = std::move(constraint);
  this->user = std::move(user);
}

WhyWhole TensorParts::choose(llvm::function_ref<WhyWhole()> whyNoRow) {
  ArrayRef<int64_t> shape = whole.getShape();
  SmallVector<int64_t> local = layout.getLocalShape(shape);
  int64_t count = product(axes);
  dim = llvm::find_if(local, [](int64_t n) { return n != 1; }) - local.begin();
  int64_t elements = graph::numElements(local);
  if (elements % count != 0)
    return "its " + std::to_string(elements) + " elements do not divide by " +
           std::to_string(count);
  if (local[dim] % count == 0)
    return {};
  std::string why = "dim " + std::to_string(dim) + ", " +
                    std::to_string(local[dim]) + ", does not divide by " +
                    std::to_string(count) + ", and as a row ";
  // The blocks of a row are those of its most major dim.
  int64_t first =
      llvm::find_if(shape, [](int64_t n) { return n != 1; }) - shape.begin();
  for (auto [d, entry] : llvm::enumerate(layout.getDims()))
    if (entry.getPadded() ||
        (static_cast<int64_t>(d) != first && !entry.getAxes().empty()))
      return why + "it is cut in another dim";
  if (WhyWhole against = whyNoRow(); !against.empty())
    return why + against;
  row = true;
  dim = first;
  return {};
}

/// The layout, as a row where it is one, split over `more` too.
LayoutAttr TensorParts::getRowLayout(ArrayRef<AxisRef> more, Fill fill) const {
  DimAttr entry = layout.getDim(dim);
  SmallVector<AxisRef> all(entry.getAxes());
  llvm::append_range(all, more);
  entry = DimAttr::get(layout.getMesh(), all, entry.getPadded(),
                       entry.getPadded() ? fill : Fill::Undefined);
  if (row)
    return LayoutAttr::get(layout.getMesh(), entry, layout.getPartialKind(),
                           layout.getPartialAxes(), layout.getPlaces());
  SmallVector<DimAttr> dims(layout.getDims());
  dims[dim] = entry;
  for (auto [d, other] : llvm::enumerate(dims))
    if (static_cast<int64_t>(d) != dim && other.getPadded())
      other = DimAttr::get(layout.getMesh(), other.getAxes(), other.getPadded(),
                           fill);
  return layout.withDims(dims);
}

RankedTensorType TensorParts::getPartType(Type element, Fill fill) const {
  SmallVector<int64_t> shape(whole.getShape());
  if (row)
    shape = {graph::numElements(shape)};
  return RankedTensorType::get(shape, element, getRowLayout(axes, fill));
}

/// To a row, or from one.
Value TensorParts::reshape(OpBuilder &builder, Value value,
                           ArrayRef<int64_t> shape) const {
  if (!row)
    return value;
  LayoutAttr from = layoutOf(value);
  SmallVector<DimAttr> dims(shape.size(),
                            DimAttr::get(from.getMesh(), ArrayRef<AxisRef>()));
  dims[shape.size() == 1 ? 0 : dim] = layout.getDim(dim);
  auto type = RankedTensorType::get(
      shape, cast<RankedTensorType>(value.getType()).getElementType(),
      LayoutAttr::get(from.getMesh(), dims, from.getPartialKind(),
                      from.getPartialAxes(), from.getPlaces()));
  return graph::ReshapeOp::create(builder, value.getLoc(), type, value);
}

Value TensorParts::reshard(OpBuilder &builder, Value value, LayoutAttr to,
                           ReasonAttr why) const {
  if (layoutOf(value) == to)
    return value;
  Reason reason(why);
  if (!why) {
    reason.constraint = constraint;
    reason.user = user;
    if (Operation *producer = value.getDefiningOp())
      reason.producer = describe(producer);
  }
  reason.from = describe(layoutOf(value));
  reason.to = describe(to);
  auto op = ReshardOp::create(builder, value.getLoc(), value, to);
  op.setWhyAttr(reason.get(builder.getContext()));
  return op->getResult(0);
}

Value TensorParts::split(OpBuilder &builder, Value value,
                         ReasonAttr why) const {
  RankedTensorType type =
      getPartType(cast<RankedTensorType>(value.getType()).getElementType(),
                  fillOf(layoutOf(value)));
  return reshard(builder, reshape(builder, value, type.getShape()),
                 getLayout(type), why);
}

Value TensorParts::gather(OpBuilder &builder, Value part,
                          RankedTensorType type) const {
  // What padding shall contain is written before others get it.
  Fill fill = fillOf(getLayout(type));
  Value all = reshard(builder, reshard(builder, part, getRowLayout(axes, fill)),
                      getRowLayout({}, fill));
  return reshard(builder, reshape(builder, all, type.getShape()),
                 getLayout(type));
}
