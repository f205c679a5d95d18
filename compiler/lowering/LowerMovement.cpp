// Lowers ops of `sharding` to what one device does: collectives, local blocks,
// masks.

#include "compiler/lowering/LowerMovement.h"

#include "dialects/rank/Rank.h"
#include "dialects/sharding/Reason.h"
#include "dialects/sharding/Sharding.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace {
/// Lowers one sharding op.
struct MovementBuilder {
  Operation *op;
  graph::LocalContext &context;
  ValueRange operands;
  OpBuilder &builder = context.builder;
  Location location = op->getLoc();

  sharding::LayoutAttr from(unsigned i = 0) {
    return sharding::getLayout(op->getOperand(i));
  }
  sharding::LayoutAttr to(unsigned i = 0) {
    return sharding::getLayout(op->getResult(i));
  }
  ArrayRef<int64_t> globalShape(unsigned i) {
    return cast<RankedTensorType>(op->getResult(i).getType()).getShape();
  }
  RankedTensorType localType(unsigned i) {
    return sharding::getLocalType(
        cast<RankedTensorType>(op->getResult(i).getType()));
  }
  SmallVector<Type> localTypes() {
    SmallVector<Type> types;
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      types.push_back(localType(i));
    return types;
  }
  /// The verifier guarantees that the op has a movement, over one list of axes.
  sharding::Movement movement(unsigned i = 0) {
    return cast<sharding::MovementOp>(op).getMovement(i);
  }
  rank::AxesAttr axes() {
    return rank::AxesAttr::get(to().getMesh(), movement().axes);
  }
  SmallVector<int64_t> dims(int64_t sharding::Movement::*dim) {
    SmallVector<int64_t> result;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      result.push_back(movement(i).*dim);
    return result;
  }

  /// The widths of the borders that are added or removed, per operand.
  std::pair<SmallVector<int64_t>, SmallVector<int64_t>> borders() {
    SmallVector<int64_t> low, high;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      sharding::Movement moved = movement(i);
      sharding::DimAttr dim =
          moved.to >= 0 ? to(i).getDim(moved.to) : from(i).getDim(moved.from);
      low.push_back(dim.getHaloLow());
      high.push_back(dim.getHaloHigh());
    }
    return {low, high};
  }

  sharding::ReasonAttr why();
  SmallVector<int64_t> sourcesOfPermute(rank::AxesAttr axes);
  Value mask(Value value, Value condition, double elsewhere);
  Value toPartial(unsigned i);
  Value fill(unsigned i);
  Value repad(unsigned i);
};
} // namespace

/// The op's reason, completed by the value's name and the two layouts.
sharding::ReasonAttr MovementBuilder::why() {
  sharding::Reason reason(
      cast<sharding::MovementOp>(op).getWhy().value_or(sharding::ReasonAttr()));
  if (reason.from.empty())
    reason.from = from().toString();
  if (reason.to.empty())
    reason.to = to().toString();
  auto name = op->getOperand(0).getLoc()->findInstanceOf<NameLoc>();
  if (name && reason.value.empty())
    reason.value = name.getName().str();
  return reason.get(builder.getContext());
}

/// Member i of a group over `axes` takes its blocks from member sources[i], a
/// permutation. If several members hold the same blocks, each of them serves
/// one of the members that need these, preferably itself.
SmallVector<int64_t> MovementBuilder::sourcesOfPermute(rank::AxesAttr axes) {
  sharding::MeshAttr mesh = axes.getMesh();
  SmallVector<int64_t> group = mesh.getGroup(0, axes.getAxes());
  int64_t size = group.size();
  auto blocksOf = [&](sharding::LayoutAttr layout, int64_t member) {
    SmallVector<int64_t> blocks;
    for (int64_t d = 0; d < layout.getRank(); ++d)
      if (from().getDim(d) != to().getDim(d))
        blocks.push_back(
            mesh.getLinearIndex(group[member], layout.getDim(d).getAxes()));
    return blocks;
  };
  SmallVector<int64_t> sources(size, -1);
  SmallVector<bool> taken(size, false);
  for (bool onlySelf : {true, false})
    for (int64_t member = 0; member < size; ++member)
      for (int64_t source = 0; source < size && sources[member] < 0; ++source)
        if (!taken[source] && (source == member || !onlySelf) &&
            blocksOf(from(), source) == blocksOf(to(), member)) {
          sources[member] = source;
          taken[source] = true;
        }
  return sources;
}

/// `value` where the boolean `condition` (of the same shape) holds, else
/// `elsewhere`.
Value MovementBuilder::mask(Value value, Value condition, double elsewhere) {
  return graph::SelectOp::create(
      builder, location, condition, value,
      graph::splat(builder, location, value.getType(), elsewhere));
}

/// The first device along the new axes keeps the value.
Value MovementBuilder::toPartial(unsigned i) {
  Value index = context.axisIndex(movement(i).axes);
  Value first = graph::CompareOp::create(
      builder, location, index,
      graph::splat(builder, location, index.getType(), 0),
      graph::Comparison::EQ);
  Value condition = graph::BroadcastOp::create(
      builder, location, first, localType(i).getShape(), ArrayRef<int64_t>());
  return mask(
      operands[i], condition,
      sharding::fillValue(sharding::identityFill(to(i).getPartialKind())));
}

/// Writes the fill into elements after the tensor's end, in the dims whose fill
/// changes.
Value MovementBuilder::fill(unsigned i) {
  Value value = operands[i];
  auto type = cast<RankedTensorType>(value.getType());
  for (int64_t d = 0; d < type.getRank(); ++d) {
    if (from(i).getDim(d) == to(i).getDim(d))
      continue;
    value = context.keepInside(location, value, to(i), d, globalShape(i)[d],
                               sharding::fillValue(to(i).getDim(d).getFill()));
  }
  return value;
}

/// Cuts dims that are not split to the tensor's extent, then pads them again.
Value MovementBuilder::repad(unsigned i) {
  Value value = operands[i];
  for (int64_t d = 0; d < to(i).getRank(); ++d) {
    sharding::DimAttr source = from(i).getDim(d), target = to(i).getDim(d);
    int64_t size = globalShape(i)[d];
    if (source == target)
      continue;
    if (source.getPadded())
      value = graph::SliceOp::create(builder, location, value, d,
                                     /*start=*/int64_t(0), size);
    if (!target.getPadded())
      continue;
    SmallVector<int64_t> none(to(i).getRank(), 0), high(none);
    high[d] = target.getPadded() - size;
    double content = target.getFill() == sharding::Fill::Undefined
                         ? 0
                         : sharding::fillValue(target.getFill());
    value = graph::PadOp::create(builder, location, value, none, high, none,
                                 content);
  }
  return value;
}

LogicalResult polyrank::lowering::localizeMovement(
    Operation *op, graph::LocalContext &context, ValueRange operands,
    SmallVectorImpl<Value> &results, int64_t &nextId) {
  MovementBuilder movement{op, context, operands};
  OpBuilder &builder = context.builder;
  Location location = op->getLoc();
  auto each = [&](Value (MovementBuilder::*build)(unsigned)) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      results.push_back((movement.*build)(i));
    return success();
  };
  auto collective = [&](Operation *created) {
    llvm::append_range(results, created->getResults());
    return success();
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](sharding::AllReduceOp) {
        return collective(rank::AllReduceOp::create(
            builder, location, movement.localTypes(), operands, movement.axes(),
            movement.from().getPartialKind(), nextId++, movement.why(),
            /*buffers=*/nullptr));
      })
      .Case([&](sharding::ReduceScatterOp) {
        return collective(rank::ReduceScatterOp::create(
            builder, location, movement.localTypes(), operands, movement.axes(),
            movement.from().getPartialKind(),
            movement.dims(&sharding::Movement::to), nextId++, movement.why(),
            /*buffers=*/nullptr));
      })
      .Case([&](sharding::AllGatherOp) {
        return collective(rank::AllGatherOp::create(
            builder, location, movement.localTypes(), operands, movement.axes(),
            movement.dims(&sharding::Movement::from), nextId++, movement.why(),
            /*buffers=*/nullptr));
      })
      .Case([&](sharding::AllToAllOp) {
        return collective(rank::AllToAllOp::create(
            builder, location, movement.localTypes(), operands, movement.axes(),
            movement.dims(&sharding::Movement::to),
            movement.dims(&sharding::Movement::from), nextId++, movement.why(),
            /*buffers=*/nullptr));
      })
      .Case([&](sharding::PermuteOp) {
        rank::AxesAttr axes = movement.axes();
        return collective(rank::PermuteOp::create(
            builder, location, movement.localTypes(), operands, axes,
            movement.sourcesOfPermute(axes), nextId++, movement.why(),
            /*buffers=*/nullptr));
      })
      .Case([&](sharding::HaloOp) {
        auto [low, high] = movement.borders();
        return collective(rank::HaloOp::create(
            builder, location, movement.localTypes(), operands, movement.axes(),
            movement.dims(&sharding::Movement::to), low, high, nextId++,
            movement.why(), /*buffers=*/nullptr));
      })
      .Case([&](sharding::HaloAddOp) {
        auto [low, high] = movement.borders();
        return collective(rank::HaloAddOp::create(
            builder, location, movement.localTypes(), operands, movement.axes(),
            movement.dims(&sharding::Movement::from), low, high, nextId++,
            movement.why(), /*buffers=*/nullptr));
      })
      .Case([&](sharding::SliceOp) {
        for (auto [i, operand] : llvm::enumerate(operands))
          results.push_back(rank::SliceOp::create(
              builder, location, movement.localType(i), operand,
              movement.movement(i).to, movement.axes(), /*buffers=*/nullptr));
        return success();
      })
      .Case([&](sharding::ToPartialOp) {
        return each(&MovementBuilder::toPartial);
      })
      .Case([&](sharding::FillOp) { return each(&MovementBuilder::fill); })
      .Case([&](sharding::RepadOp) { return each(&MovementBuilder::repad); })
      .Case([&](sharding::ReshardOp) {
        return op->emitOpError("is still to be planned: plan-reshards lowers "
                               "it to collectives");
      })
      .Default([&](Operation *) {
        return op->emitOpError("has no lowering to one device");
      });
}
