// A tensor of the boundary, split into parts.

#include "compiler/sharding/TensorParts.h"

#include "compiler/sharding/Why.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"
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

/// The first dim that is not 1: the blocks of a row are blocks of this dim.
static int64_t getMajorDim(ArrayRef<int64_t> shape) {
  return llvm::find_if(shape, [](int64_t n) { return n != 1; }) - shape.begin();
}

WhyWhole TensorParts::whyNoRowOfElements() const {
  int64_t major = getMajorDim(whole.getShape());
  for (auto [d, entry] : llvm::enumerate(layout.getDims()))
    if (entry.getPadded() ||
        (static_cast<int64_t>(d) != major && !entry.getAxes().empty()))
      return "it is cut in another dim";
  return {};
}

WhyWhole TensorParts::choose(llvm::function_ref<WhyWhole()> whyNoRow) {
  ArrayRef<int64_t> shape = whole.getShape();
  SmallVector<int64_t> local = layout.getLocalShape(shape);
  int64_t count = product(axes), elements = graph::numElements(local);
  if (elements == 1)
    return "it has one element";
  dim = getMajorDim(local);
  if (local[dim] % count == 0)
    return {};
  std::string why = "dim " + std::to_string(dim) + ", " +
                    std::to_string(local[dim]) + ", does not divide by " +
                    std::to_string(count) + ", and as a row ";
  WhyWhole against = whyNoRowOfElements();
  if (against.empty())
    against = whyNoRow();
  if (against.empty() && elements % count == 0) {
    row = true;
    dim = getMajorDim(shape);
    return {};
  }
  for (auto [d, size] : llvm::enumerate(local))
    if (size > 1 && size % count == 0) {
      dim = d;
      return {};
    }
  if (choosePadding(against.empty()))
    return {};
  return why + (against.empty() ? "its blocks do not" : against) +
         "; a dim that is split already is not padded";
}

/// Only dims that are not split yet are padded: padded blocks of a split dim
/// would not lie within the blocks of the whole.
bool TensorParts::choosePadding(bool rowIsPossible) {
  ArrayRef<int64_t> shape = whole.getShape();
  int64_t count = product(axes);
  auto isFree = [](DimAttr entry) {
    return entry.getAxes().empty() && !entry.getPadded() && !entry.hasHalo();
  };
  if (rowIsPossible && llvm::all_of(layout.getDims(), isFree)) {
    row = true;
    dim = getMajorDim(shape);
    padded = llvm::alignTo(graph::numElements(shape), count);
    return true;
  }
  // The dim with the least padded / size.
  for (auto [d, size] : llvm::enumerate(shape)) {
    if (size == 1 || !isFree(layout.getDim(d)))
      continue;
    int64_t extent = llvm::alignTo(size, count);
    if (padded == 0 || extent * shape[dim] < padded * size) {
      dim = d;
      padded = extent;
    }
  }
  return padded != 0;
}

int64_t TensorParts::getExcess() const {
  if (padded == 0)
    return 0;
  int64_t elements = graph::numElements(whole.getShape());
  return row ? padded - elements
             : elements / whole.getShape()[dim] *
                   (padded - whole.getShape()[dim]);
}

/// The layout of the parts (of a row, if they are one), split over `more` too.
/// With empty `more` it is that of the whole, with only the whole's padding.
LayoutAttr TensorParts::getRowLayout(ArrayRef<AxisRef> more, Fill fill) const {
  DimAttr entry = layout.getDim(dim);
  SmallVector<AxisRef> all(entry.getAxes());
  llvm::append_range(all, more);
  int64_t extent = padded && !more.empty() ? padded : entry.getPadded();
  entry = DimAttr::get(layout.getMesh(), all, extent,
                       extent ? fill : Fill::Undefined);
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

RankedTensorType TensorParts::getStoredType(Type element) const {
  return getPartType(element, padded ? Fill::Zero : fillOf(layout));
}

/// Reshapes to a row, or back from one.
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
      reason.producer = graph::describe(producer);
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
  // The fill of the padding is written before the parts are gathered.
  Fill fill = fillOf(getLayout(type));
  if (!padded)
    part = reshard(builder, part, getRowLayout(axes, fill));
  Value all = reshard(builder, part, getRowLayout({}, fill));
  return reshard(builder, reshape(builder, all, type.getShape()),
                 getLayout(type));
}
