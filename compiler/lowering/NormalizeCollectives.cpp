// normalize-collectives: writes collectives that the target's communicator
// lacks as those that it has, and copies.

#include "compiler/lowering/Passes.h"
#include "compiler/target/Target.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Provenance.h"
#include "dialects/rank/Programs.h"
#include "dialects/rank/Rank.h"
#include "runtime/plan/CommunicatorProperties.h"

#include <deque>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_NORMALIZECOLLECTIVES
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

using runtime::Lack;

namespace {

/// Gives ids to the collectives that replace others. Members of a group may run
/// several functions, and give the same ids to what replaces the same value.
class NewIds {
public:
  explicit NewIds(ModuleOp module) {
    auto note = [&](int64_t id) { next = std::max(next, id + 1); };
    module.walk([&](Operation *op) {
      if (auto collective = dyn_cast<rank::CollectiveOp>(op))
        note(static_cast<int64_t>(collective.getId()));
      else if (auto transfer = rank::getTransfer(op))
        note(transfer->id);
    });
  }
  /// The id of collective `number` of those that replace the one with this id.
  int64_t get(uint64_t id, int64_t number) {
    auto [known, isNew] =
        ids.try_emplace({static_cast<int64_t>(id), number}, next);
    next += isNew;
    return known->second;
  }

private:
  int64_t next = 0;
  DenseMap<std::pair<int64_t, int64_t>, int64_t> ids;
};

/// Replaces one collective.
class Normalizer {
public:
  Normalizer(rank::CollectiveOp op, NewIds &ids)
      : op(op), copier(op), builder(op, &copier), loc(op.getLoc()), ids(ids) {}

  /// Moves what is strided by transposes, so that all operands have the blocks
  /// of the collective one after another.
  void makeContiguous(function_ref<bool(unsigned)> isStrided);
  /// Gets the borders of each block by permutes.
  void permuteBorders(rank::HaloOp halo);

private:
  Value transpose(Value value, ArrayRef<int64_t> permutation) {
    return graph::TransposeOp::create(builder, loc, value, permutation);
  }
  /// Moves dim `from` to place `to`; the others keep their order.
  Value moveDim(Value value, int64_t from, int64_t to);
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    return graph::ReshapeOp::create(builder, loc, value, shape);
  }
  static SmallVector<int64_t> shapeOf(Value value) {
    return SmallVector<int64_t>(
        cast<RankedTensorType>(value.getType()).getShape());
  }
  /// The operand for which dim 0 is split and dim 1 concatenated, each block
  /// being one run; and the result of the op from that of such a collective.
  /// @{
  Value packForAllToAll(Value input, int64_t split);
  Value unpackAllToAll(Value output, int64_t concat);
  /// @}
  /// Sends the slice [begin, end) of dim `dim` of `block` to the member that is
  /// `distance` after each one, around the group.
  Value shift(rank::HaloOp halo, Value block, int64_t dim, int64_t begin,
              int64_t end, int64_t distance, int64_t number);

  rank::CollectiveOp op;
  graph::ProvenanceCopier copier;
  OpBuilder builder;
  Location loc;
  NewIds &ids;
};

} // namespace

Value Normalizer::moveDim(Value value, int64_t from, int64_t to) {
  if (from == to)
    return value;
  SmallVector<int64_t> order;
  for (int64_t d = 0, e = shapeOf(value).size(); d < e; ++d)
    if (d != from)
      order.push_back(d);
  order.insert(order.begin() + to, from);
  return transpose(value, order);
}

/// [.., g * n, ..] becomes [g, 1, .., n, ..].
Value Normalizer::packForAllToAll(Value input, int64_t split) {
  int64_t group = op.getAxes().getGroupSize();
  SmallVector<int64_t> shape = shapeOf(input);
  shape[split] /= group;
  shape.insert(shape.begin() + split, group);
  Value packed = moveDim(reshape(input, shape), split, 0);
  shape = shapeOf(packed);
  shape.insert(shape.begin() + 1, 1);
  return reshape(packed, shape);
}

/// [1, g, .., n, ..] becomes [.., g * n, ..].
Value Normalizer::unpackAllToAll(Value output, int64_t concat) {
  SmallVector<int64_t> shape = shapeOf(output);
  shape.erase(shape.begin());
  Value moved = moveDim(reshape(output, shape), 0, concat);
  shape = shapeOf(moved);
  shape[concat + 1] *= shape[concat];
  shape.erase(shape.begin() + concat);
  return reshape(moved, shape);
}

void Normalizer::makeContiguous(function_ref<bool(unsigned)> isStrided) {
  // AllGather, ReduceScatter, Halo and HaloAdd have dims; an AllToAll has two.
  auto allToAll = dyn_cast<rank::AllToAllOp>(op.getOperation());
  StringRef name = allToAll ? "split" : "dims";
  SmallVector<int64_t> dims(
      op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef());
  SmallVector<int64_t> concat;
  if (allToAll)
    concat.assign(allToAll.getConcat().begin(), allToAll.getConcat().end());
  SmallVector<int64_t> dimsBefore = dims, concatBefore = concat;
  SmallVector<Value> operands(op->getOperands());
  SmallVector<Type> types(op->getResultTypes());
  for (unsigned i = 0; i < operands.size(); ++i) {
    if (!isStrided(i))
      continue;
    if (allToAll) {
      operands[i] = packForAllToAll(operands[i], dims[i]);
      SmallVector<int64_t> shape = shapeOf(operands[i]);
      std::swap(shape[0], shape[1]);
      types[i] = cast<RankedTensorType>(types[i]).clone(shape);
      dims[i] = 0, concat[i] = 1;
      continue;
    }
    auto result = cast<RankedTensorType>(types[i]);
    SmallVector<int64_t> shape(result.getShape());
    int64_t size = shape[dims[i]];
    shape.erase(shape.begin() + dims[i]);
    shape.insert(shape.begin(), size);
    types[i] = result.clone(shape);
    operands[i] = moveDim(operands[i], dims[i], 0);
    dims[i] = 0;
  }
  OperationState state(loc, op->getName(), operands, types,
                       op->getAttrDictionary().getValue());
  Operation *contiguous = builder.create(state);
  contiguous->setAttr(name, builder.getDenseI64ArrayAttr(dims));
  if (allToAll)
    contiguous->setAttr("concat", builder.getDenseI64ArrayAttr(concat));
  for (unsigned i = 0; i < operands.size(); ++i) {
    Value result = contiguous->getResult(i);
    if (isStrided(i))
      result = allToAll ? unpackAllToAll(result, concatBefore[i])
                        : moveDim(result, 0, dimsBefore[i]);
    op->getResult(i).replaceAllUsesWith(result);
  }
  op->erase();
}

Value Normalizer::shift(rank::HaloOp halo, Value block, int64_t dim,
                        int64_t begin, int64_t end, int64_t distance,
                        int64_t number) {
  int64_t group = op.getAxes().getGroupSize();
  Value slice = graph::SliceOp::create(builder, loc, block, dim, begin, end);
  SmallVector<int64_t> sources;
  for (int64_t member = 0; member < group; ++member)
    sources.push_back(((member - distance) % group + group) % group);
  return rank::PermuteOp::create(builder, loc, TypeRange(slice.getType()),
                                 ValueRange(slice), halo.getAxes(), sources,
                                 ids.get(halo.getId(), number),
                                 halo.getWhyAttr(), /*buffers=*/nullptr)
      ->getResult(0);
}

/// The first members get what the last ones have, and the other way round: a
/// halo does not define these elements.
void Normalizer::permuteBorders(rank::HaloOp halo) {
  int64_t number = 0;
  for (auto [i, input] : llvm::enumerate(halo.getInputs())) {
    int64_t dim = halo.getDims()[i], size = shapeOf(input)[dim],
            low = halo.getLow()[i], high = halo.getHigh()[i];
    // A border that is wider than a block consists of parts of several.
    std::deque<Value> parts{input};
    for (int64_t distance = 1; (distance - 1) * size < low; ++distance) {
      int64_t width = std::min(size, low - (distance - 1) * size);
      parts.push_front(
          shift(halo, input, dim, size - width, size, distance, number++));
    }
    for (int64_t distance = 1; (distance - 1) * size < high; ++distance) {
      int64_t width = std::min(size, high - (distance - 1) * size);
      parts.push_back(shift(halo, input, dim, 0, width, -distance, number++));
    }
    SmallVector<Value> all(parts.begin(), parts.end());
    halo->getResult(i).replaceAllUsesWith(
        all.size() == 1
            ? input
            : graph::ConcatOp::create(builder, loc, all, dim).getResult());
  }
  halo->erase();
}

namespace {
struct NormalizeCollectivesPass
    : lowering::impl::NormalizeCollectivesBase<NormalizeCollectivesPass> {
  void runOnOperation() override {
    SmallVector<rank::CollectiveOp> all;
    getOperation().walk([&](rank::CollectiveOp op) { all.push_back(op); });
    if (all.empty())
      return;
    auto target = target::getCommunicationTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    const runtime::CommunicatorProperties &has = target->getCommunicator();
    NewIds ids(getOperation());
    for (rank::CollectiveOp op : all)
      if (failed(normalize(op, has, ids)))
        return signalPassFailure();
  }

  /// Borders that are permuted are no strided collectives any more.
  static LogicalResult normalize(rank::CollectiveOp op,
                                 const runtime::CommunicatorProperties &has,
                                 NewIds &ids) {
    auto lackOf = [&](unsigned number) {
      return findLack(has, op.getCollectiveKind(), op.getTransferShape(number),
                      op.getAxes().getGroupSize());
    };
    SmallVector<Lack> lacks;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      lacks.push_back(lackOf(i));
    auto halo = dyn_cast<rank::HaloOp>(op.getOperation());
    if (llvm::is_contained(lacks, Lack::Kind)) {
      if (!halo || !has.has(runtime::CollectiveKind::Permute))
        return op.emitOpError("is of a kind that the target's communicator '")
               << has.name
               << "' lacks, and that cannot be written as others; use a layout "
                  "that does not need it, or another target";
      Normalizer(op, ids).permuteBorders(halo);
    } else if (llvm::is_contained(lacks, Lack::Strides)) {
      Normalizer(op, ids).makeContiguous(
          [&](unsigned number) { return lacks[number] == Lack::Strides; });
    }
    return success();
  }
};
} // namespace
