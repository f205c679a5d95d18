// How each op of the sharding dialect may change a layout, and its verifier.

#include "dialects/sharding/Reason.h"
#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;

#include "dialects/sharding/MovementInterface.cpp.inc"

/// The axes of `axes` after `prefix`; nullopt if it is not a prefix.
static std::optional<SmallVector<AxisRef>>
dropPrefix(MeshAttr mesh, ArrayRef<AxisRef> axes, ArrayRef<AxisRef> prefix) {
  auto whole = subAxes(axes, prefix), front = subAxes(prefix, axes);
  if (!whole || !front || front->size() > whole->size() ||
      ArrayRef(*whole).take_front(front->size()) != ArrayRef(*front))
    return std::nullopt;
  return merged(mesh, ArrayRef(*whole).drop_front(front->size()));
}

/// The set `axes` without the set `part`; nullopt if `axes` lacks some of it.
static std::optional<SmallVector<AxisRef>>
dropSubset(MeshAttr mesh, ArrayRef<AxisRef> axes, ArrayRef<AxisRef> part) {
  auto whole = subAxes(axes, part), removed = subAxes(part, axes);
  if (!whole || !removed)
    return std::nullopt;
  for (AxisRef ref : *removed) {
    auto *it = llvm::find(*whole, ref);
    if (it == whole->end())
      return std::nullopt;
    whole->erase(it);
  }
  return normalized(mesh, *whole);
}

/// Returns true if two dims differ at most in their axes, and have no borders
/// that would be lost.
static bool differInAxesOnly(DimAttr left, DimAttr right) {
  return left.getPadded() == right.getPadded() &&
         left.getFill() == right.getFill() && !left.hasHalo() &&
         !right.hasHalo();
}

static SmallVector<int64_t> differingDims(LayoutAttr from, LayoutAttr to) {
  SmallVector<int64_t> dims;
  for (int64_t d = 0; d < from.getRank(); ++d)
    if (from.getDim(d) != to.getDim(d))
      dims.push_back(d);
  return dims;
}

static bool samePartial(LayoutAttr from, LayoutAttr to) {
  return from.getPartialKind() == to.getPartialKind() &&
         from.getPartialAxes() == to.getPartialAxes();
}

/// The axes over which `from` is partial and `to` is not, if both agree on the
/// reduction kind of the remaining axes.
static std::optional<SmallVector<AxisRef>> removedPartial(LayoutAttr from,
                                                          LayoutAttr to) {
  if (!from.isPartial() ||
      (to.isPartial() && to.getPartialKind() != from.getPartialKind()))
    return std::nullopt;
  return dropSubset(from.getMesh(), from.getPartialAxes(), to.getPartialAxes());
}

static std::optional<Movement> getPermute(LayoutAttr from, LayoutAttr to,
                                          ArrayRef<int64_t> dims) {
  Movement movement;
  for (int64_t d : dims) {
    DimAttr source = from.getDim(d), target = to.getDim(d);
    if (!differInAxesOnly(source, target) ||
        source.getNumBlocks() != target.getNumBlocks())
      return std::nullopt;
    llvm::append_range(movement.axes, source.getAxes());
    llvm::append_range(movement.axes, target.getAxes());
  }
  // Two sub-axes of one axis may overlap in the list: the sub-axes form the
  // set.
  auto pieces = subAxes(movement.axes, SmallVector<AxisRef>(movement.axes));
  if (!pieces)
    return std::nullopt;
  llvm::sort(*pieces);
  pieces->erase(llvm::unique(*pieces), pieces->end());
  movement.axes = merged(from.getMesh(), *pieces);
  return movement;
}

DimAttr polyrank::sharding::getPartialDim(DimAttr dim, MeshAttr mesh,
                                          ReductionKind kind) {
  bool keeps = dim.getFill() == identityFill(kind);
  return DimAttr::get(mesh, dim.getAxes(), dim.getPadded(),
                      keeps ? dim.getFill() : Fill::Undefined, dim.getHaloLow(),
                      dim.getHaloHigh(), dim.getSpills());
}

/// Returns true if the dims are those after to_partial.
static bool keepsFills(LayoutAttr from, LayoutAttr to) {
  for (auto [source, target] : llvm::zip_equal(from.getDims(), to.getDims()))
    if (target != getPartialDim(source, to.getMesh(), to.getPartialKind()))
      return false;
  return true;
}

/// The movement of halo and halo_add, which change the borders of one dim and
/// nothing else.
static std::optional<Movement> getBorderChange(bool isAdd, LayoutAttr from,
                                               LayoutAttr to, int64_t dim) {
  if (dim < 0)
    return std::nullopt;
  DimAttr bare = (isAdd ? to : from).getDim(dim),
          widened = (isAdd ? from : to).getDim(dim);
  bool isSum = from.getPartialKind() == ReductionKind::Sum;
  if (bare.getAxes() != widened.getAxes() ||
      bare.getPadded() != widened.getPadded() ||
      bare.getFill() != widened.getFill() || bare.hasHalo() ||
      widened.getSpills() != isAdd || (isAdd && from.isPartial() && !isSum))
    return std::nullopt;
  SmallVector<AxisRef> axes(bare.getAxes());
  return Movement{axes, isAdd ? dim : -1, isAdd ? -1 : dim};
}

/// The movement of repad and fill, which change one property of dims and
/// nothing else.
static std::optional<Movement> getLocalChange(MovementKind kind,
                                              LayoutAttr from, LayoutAttr to,
                                              ArrayRef<int64_t> dims) {
  Movement movement;
  for (int64_t d : dims) {
    DimAttr source = from.getDim(d), target = to.getDim(d);
    if (source.getAxes() != target.getAxes())
      return std::nullopt;
    bool samePad = source.getPadded() == target.getPadded();
    bool sameFill = source.getFill() == target.getFill();
    if (source.hasHalo() || target.hasHalo())
      return std::nullopt;
    if (kind == MovementKind::Repad) {
      if (samePad || !source.getAxes().empty())
        return std::nullopt;
    } else if (!samePad || sameFill) {
      return std::nullopt;
    }
  }
  return movement;
}

std::optional<Movement> polyrank::sharding::getMovement(MovementKind kind,
                                                        LayoutAttr from,
                                                        LayoutAttr to) {
  MeshAttr mesh = from.getMesh();
  if (mesh != to.getMesh() || from.getRank() != to.getRank() ||
      from.getPlaces() != to.getPlaces() || from == to)
    return std::nullopt;
  SmallVector<int64_t> dims = differingDims(from, to);
  int64_t dim = dims.size() == 1 ? dims.front() : -1;
  auto oneDim = [&] {
    return dim >= 0 && differInAxesOnly(from.getDim(dim), to.getDim(dim));
  };
  auto axesOf = [](LayoutAttr layout, int64_t d) {
    return layout.getDim(d).getAxes();
  };
  using Result = std::optional<Movement>;
  bool keepsPartial = samePartial(from, to);
  switch (kind) {
  case MovementKind::Slice:
  case MovementKind::AllGather: {
    if (!keepsPartial || !oneDim())
      return std::nullopt;
    bool slice = kind == MovementKind::Slice;
    auto axes = slice ? dropPrefix(mesh, axesOf(to, dim), axesOf(from, dim))
                      : dropPrefix(mesh, axesOf(from, dim), axesOf(to, dim));
    return axes ? Result(Movement{*axes, slice ? -1 : dim, slice ? dim : -1})
                : std::nullopt;
  }
  case MovementKind::ToPartial: {
    auto axes = removedPartial(to, from);
    return axes && keepsFills(from, to) ? Result(Movement{*axes})
                                        : std::nullopt;
  }
  case MovementKind::AllReduce: {
    auto axes = removedPartial(from, to);
    return axes && dims.empty() ? Result(Movement{*axes}) : std::nullopt;
  }
  case MovementKind::ReduceScatter: {
    auto reduced = removedPartial(from, to);
    if (!reduced || !oneDim())
      return std::nullopt;
    auto axes = dropPrefix(mesh, axesOf(to, dim), axesOf(from, dim));
    return axes && normalized(mesh, *axes) == *reduced
               ? Result(Movement{*axes, -1, dim})
               : std::nullopt;
  }
  case MovementKind::AllToAll:
    if (!keepsPartial || dims.size() != 2)
      return std::nullopt;
    for (auto [source, target] :
         {std::pair(dims[0], dims[1]), std::pair(dims[1], dims[0])}) {
      auto left = dropPrefix(mesh, axesOf(from, source), axesOf(to, source));
      auto entered = dropPrefix(mesh, axesOf(to, target), axesOf(from, target));
      if (left && entered && *left == *entered &&
          differInAxesOnly(from.getDim(source), to.getDim(source)) &&
          differInAxesOnly(from.getDim(target), to.getDim(target)))
        return Movement{*left, source, target};
    }
    return std::nullopt;
  case MovementKind::Permute:
    return keepsPartial ? getPermute(from, to, dims) : std::nullopt;
  case MovementKind::Halo:
  case MovementKind::HaloAdd:
    return keepsPartial
               ? getBorderChange(kind == MovementKind::HaloAdd, from, to, dim)
               : std::nullopt;
  case MovementKind::Repad:
  case MovementKind::Fill:
    return keepsPartial ? getLocalChange(kind, from, to, dims) : std::nullopt;
  case MovementKind::Reshard:
    return Movement();
  }
  return std::nullopt;
}

Movement MovementOp::getMovement(unsigned number) {
  return *sharding::getMovement(getMovementKind(),
                                getLayout((*this)->getOperand(number)),
                                getLayout((*this)->getResult(number)));
}

std::optional<runtime::CollectiveKind> MovementOp::getCollectiveKind() {
  return sharding::getCollectiveKind(getMovementKind());
}

namespace {
/// The properties of a kind.
struct MovementRow {
  StringLiteral duty; // "all_gather ..."
  std::optional<runtime::CollectiveKind> collective = std::nullopt;
};
} // namespace

static MovementRow rowOf(MovementKind kind) {
  using Collective = runtime::CollectiveKind;
  switch (kind) {
  case MovementKind::Slice:
    return {"adds most minor axes, over which the operand is replicated, to "
            "one dim"};
  case MovementKind::ToPartial:
    return {"makes a replicated value partial"};
  case MovementKind::AllGather:
    return {"removes the most minor axes of one dim", Collective::AllGather};
  case MovementKind::AllReduce:
    return {"removes axes from 'partial'", Collective::AllReduce};
  case MovementKind::ReduceScatter:
    return {"removes axes from 'partial' and adds them as the most minor ones "
            "of one dim",
            Collective::ReduceScatter};
  case MovementKind::AllToAll:
    return {"takes the most minor axes of one dim and adds them as the most "
            "minor ones of another",
            Collective::AllToAll};
  case MovementKind::Permute:
    return {"changes the axes of dims and keeps the number of blocks of each",
            Collective::Permute};
  case MovementKind::Halo:
    return {"adds borders to a split dim that has none", Collective::Halo};
  case MovementKind::HaloAdd:
    return {"adds the sums that a split dim holds for its neighbours to their "
            "blocks",
            Collective::HaloAdd};
  case MovementKind::Repad:
    return {"changes the padded extent of dims that are not split"};
  case MovementKind::Fill:
    return {"changes what the padding of dims holds"};
  case MovementKind::Reshard:
    return {"keeps the tensor, its mesh and its place"};
  }
  llvm_unreachable("a kind of movement");
}

std::optional<runtime::CollectiveKind>
polyrank::sharding::getCollectiveKind(MovementKind kind) {
  return rowOf(kind).collective;
}

// Verification

/// Describes the first difference between two layouts.
static std::string describeChange(LayoutAttr from, LayoutAttr to) {
  MeshAttr mesh = from.getMesh();
  if (from == to)
    return "the layouts are equal";
  if (from.getPlaces() != to.getPlaces())
    return "the place differs, and no op moves a value to another place";
  for (int64_t d : differingDims(from, to)) {
    DimAttr source = from.getDim(d), target = to.getDim(d);
    std::string dim = "dim " + std::to_string(d);
    if (source.getAxes() != target.getAxes())
      return dim + " goes from " + mesh.toString(source.getAxes()) + " to " +
             mesh.toString(target.getAxes());
    if (source.getPadded() != target.getPadded())
      return dim + " goes from padded extent " +
             std::to_string(source.getPadded()) + " to " +
             std::to_string(target.getPadded());
    if (source.getFill() != target.getFill())
      return dim + " goes from fill " + stringifyFill(source.getFill()).str() +
             " to " + stringifyFill(target.getFill()).str();
    return dim + " changes its borders";
  }
  auto partial = [&](LayoutAttr layout) {
    return layout.isPartial()
               ? "partial " +
                     stringifyReductionKind(layout.getPartialKind()).str() +
                     " " + mesh.toString(layout.getPartialAxes())
               : std::string("not partial");
  };
  return "it goes from " + partial(from) + " to " + partial(to);
}

static std::string getRemedy(LayoutAttr from, LayoutAttr to) {
  if (from == to)
    return "remove the op";
  for (unsigned number = 0; number <= getMaxEnumValForMovementKind();
       ++number) {
    auto kind = static_cast<MovementKind>(number);
    if (kind != MovementKind::Reshard && getMovement(kind, from, to))
      return "sharding." + getName(kind).str() + " does this";
  }
  return "sharding.reshard does this, and plan-reshards lowers it";
}

/// The reduction kind over which operand `i` is or becomes partial.
static ReductionKind getReduced(Operation *op, unsigned i) {
  LayoutAttr from = getLayout(op->getOperand(i));
  return (from.isPartial() ? from : getLayout(op->getResult(i)))
      .getPartialKind();
}

LogicalResult polyrank::sharding::verifyMovement(Operation *operation) {
  auto op = cast<MovementOp>(operation);
  MovementKind kind = op.getMovementKind();
  if (op->getNumOperands() == 0 || op->getNumOperands() != op->getNumResults())
    return op->emitOpError("[M1] has ")
           << op->getNumOperands() << " operands and " << op->getNumResults()
           << " results; operand i becomes result i, and there is at least one";
  if (failed(verifyReason(op, op.getWhy().value_or(ReasonAttr()))))
    return failure();
  std::optional<Movement> first;
  for (auto [i, operand, result] :
       llvm::enumerate(op->getOperandTypes(), op->getResultTypes())) {
    auto source = cast<RankedTensorType>(operand);
    auto target = cast<RankedTensorType>(result);
    if (withLayout(source, nullptr) != withLayout(target, nullptr))
      return op->emitOpError("[M2] operand ")
             << i << " of type " << source << " cannot become " << target
             << ": shape and element type stay";
    LayoutAttr from = getLayout(operand), to = getLayout(result);
    if (!from || !to)
      return op->emitOpError(from ? "[M3] result " : "[M3] operand ")
             << i << " has no layout";
    if (from.getMesh() != to.getMesh())
      return op->emitOpError("[M3] operand ")
             << i << " and result " << i << " are laid out over two meshes, "
             << from.getMesh() << " and " << to.getMesh();
    std::optional<Movement> movement;
    if (kind == MovementKind::Reshard && from.getPlaces() == to.getPlaces())
      movement = Movement();
    else
      movement = getMovement(kind, from, to);
    if (!movement)
      return op->emitOpError("[M4] operand ")
             << i << " of layout " << from.toString() << " cannot become "
             << to.toString() << ": " << describeChange(from, to) << ", but "
             << getName(kind) << " " << rowOf(kind).duty << "; "
             << getRemedy(from, to);
    if (!first)
      first = movement;
    else if (first->axes != movement->axes)
      return op->emitOpError("[M5] operand ")
             << i << " moves over " << from.getMesh().toString(movement->axes)
             << ", operand 0 over " << from.getMesh().toString(first->axes)
             << "; make them two ops";
    if (isa<AllReduceOp, ReduceScatterOp, ToPartialOp>(op) &&
        getReduced(op, 0) != getReduced(op, i))
      return op->emitOpError("[M5] operand ")
             << i << " is a partial "
             << stringifyReductionKind(getReduced(op, i)) << ", operand 0 a "
             << stringifyReductionKind(getReduced(op, 0))
             << "; make them two ops";
  }
  return success();
}
