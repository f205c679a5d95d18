// Decides which values of a function share a buffer.

#include "compiler/lowering/BufferClasses.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

FailureOr<BufferClasses> BufferClasses::build(func::FuncOp function) {
  BufferClasses classes(function);
  if (failed(classes.collect(function.getBody().front())))
    return failure();
  return classes;
}

void BufferClasses::define(Value value) {
  int buffer = buffers.size();
  int64_t size = rank::getByteSize(value.getType());
  auto command = value.getDefiningOp<rank::CommandOp>();
  bool persistent = (command && command.isWrittenAtLoad()) ||
                    (isa<BlockArgument>(value) &&
                     isa<func::FuncOp>(value.getParentBlock()->getParentOp()));
  buffers.push_back({buffer, size, persistent, {value}});
  places[value] = {buffer, 0, size};
}

void BufferClasses::alias(Value value, Value of, int64_t offset, int64_t stride,
                          int64_t slots) {
  Place place = places.at(of);
  places[value] = {place.buffer,
                   place.offset + offset,
                   rank::getByteSize(value.getType()),
                   stride,
                   slots,
                   place.step,
                   place.axes,
                   place.each};
  buffers[root(place.buffer)].values.push_back(value);
}

/// Puts `result` into the class of the operand that it is a view of, if
/// possible. A device's block is a view only of a value that is always there,
/// and so need not be copied.
bool BufferClasses::aliasView(OpResult result, const rank::View &view) {
  Value of = result.getOwner()->getOperand(view.operand);
  Place whole = getPlace(of);
  if (view.axes && (!whole.isFirst() || !buffers[whole.buffer].persistent))
    return false;
  alias(result, of, view.begin, whole.stride, whole.slots);
  if (view.axes)
    places[result] = whole.getBlock(view.axes, places[result].size);
  return true;
}

Place polyrank::lowering::getSlotPlace(int buffer, Value part, int64_t slots) {
  int64_t bytes = rank::getByteSize(part.getType());
  if (slots == 1) // one slot is always the same
    return {buffer, 0, bytes};
  return {buffer, 0, bytes, bytes, slots};
}

Place polyrank::lowering::getElementPlace(Place whole, Value element,
                                          rank::LoopOp loop) {
  whole.size = rank::getByteSize(element.getType());
  whole.offset += loop.getFirst(whole.size);
  whole.each = loop.getEach(whole.size);
  return whole;
}

LogicalResult BufferClasses::collectLoop(rank::LoopOp loop) {
  for (Value result : loop.getResults())
    define(result);
  for (BlockArgument argument : loop.getBody().getArguments()) {
    auto [source, isElement] = loop.getSource(argument);
    Place whole = places.at(source);
    alias(argument, source, 0, whole.stride, whole.slots);
    if (isElement)
      places[argument] = getElementPlace(whole, argument, loop);
  }
  return collect(loop.getBody().front());
}

LogicalResult BufferClasses::collect(Block &block) {
  if (isa<func::FuncOp>(block.getParentOp()))
    llvm::for_each(block.getArguments(), [&](Value v) { define(v); });
  for (Operation &op : block) {
    if (auto region = dyn_cast<rank::MicrobatchesOp>(op)) {
      if (microbatches)
        return op.emitOpError("is the second microbatch region of a function");
      microbatches = region;
      for (Value result : region.getResults())
        define(result);
      for (Block *part : region.getBlocks()) {
        for (BlockArgument argument : part->getArguments()) {
          auto [source, isSlice, slots] = region.getSource(argument);
          Place slot = isSlice ? getSlotPlace(-1, argument, slots) : Place();
          alias(argument, source, 0, slot.stride, slot.slots);
        }
        if (failed(collect(*part)))
          return failure();
      }
      continue;
    }
    if (auto loop = dyn_cast<rank::LoopOp>(op)) {
      if (failed(collectLoop(loop)))
        return failure();
      continue;
    }
    if (!isa<rank::RankDialect, func::FuncDialect>(op.getDialect()))
      return op.emitOpError("is not a command; form-gemms and form-kernels "
                            "come before buffers are assigned");
    auto command = dyn_cast<rank::CommandOp>(op);
    for (OpResult result : op.getResults()) {
      std::optional<rank::View> view =
          command ? command.getView(result.getResultNumber()) : std::nullopt;
      if (!view || !aliasView(result, *view))
        define(result);
    }
  }
  return success();
}

int BufferClasses::root(int buffer) const {
  while (buffers[buffer].parent != buffer)
    buffer = buffers[buffer].parent;
  return buffer;
}

Place BufferClasses::getPlace(Value value) const {
  Place place = places.at(value);
  place.buffer = root(place.buffer);
  return place;
}

SmallVector<int> BufferClasses::getClasses() const {
  SmallVector<int> classes;
  for (int buffer = 0, e = buffers.size(); buffer < e; ++buffer)
    if (buffers[buffer].parent == buffer)
      classes.push_back(buffer);
  return classes;
}

SmallVector<Lifetime> BufferClasses::getLifetimes(int buffer) const {
  SmallVector<Lifetime> lifetimes;
  for (Value value : buffers[buffer].values) {
    lifetimes.push_back(liveness.get(value));
    llvm::append_range(lifetimes, liveness.getPassed(value));
  }
  return joinLifetimes(lifetimes);
}

/// The place of a value, assuming that its class is placed at `at`.
Place BufferClasses::getPlaceIn(Value value, const Place &at) const {
  Place place = getPlace(value);
  place.buffer = at.buffer;
  place.offset += at.offset;
  if (at.axes) {
    place.step = at.step;
    place.axes = at.axes;
  }
  if (at.stride) {
    place.stride = at.stride;
    place.slots = at.slots;
  }
  if (at.each)
    place.each = at.each;
  return place;
}

/// Returns true if the op at `position` reads class `read` only where it may
/// write its results in class `written`, when class `inner`, one of the two, is
/// at `at`.
bool BufferClasses::meetInPlace(int read, int written, int inner,
                                const Place &at, int64_t position) const {
  Operation *op = liveness.getOp(position);
  if (!op)
    return false;
  auto placeOf = [&](Value value) {
    int buffer = find(value);
    return getPlaceIn(value, buffer == inner ? at : Place{at.buffer});
  };
  bool writes = false;
  for (OpResult result : op->getResults()) {
    if (find(result) != written)
      continue;
    writes = true;
    for (OpOperand &operand : op->getOpOperands()) {
      if (find(operand.get()) != read)
        continue;
      Place from = placeOf(operand.get()), to = placeOf(result);
      unsigned number = operand.getOperandNumber();
      InPlace way = getInPlace(op, number, result.getResultNumber());
      auto blockOf = [&](const Place &whole) -> std::optional<Place> {
        if (whole.axes)
          return std::nullopt;
        auto collective = cast<rank::CollectiveOp>(op);
        return whole.getBlock(collective.getAxes(),
                              collective.getBlockBytes(number));
      };
      // Results may be smaller than the operands that they replace.
      to.size = way == InPlace::Same ? from.size : to.size;
      if (!runtime::isInPlace(way, from, to, blockOf))
        return false;
    }
  }
  return writes;
}

/// Returns true if one of two values, of which `right` is in the class that
/// `at` names, is live while the other waits for a later run.
bool BufferClasses::meetWhilePassed(Value left, Value right,
                                    const Place &at) const {
  auto meet = [&](Value passing, Value other) {
    return llvm::any_of(liveness.getPassed(passing), [&](const Lifetime &mine) {
      auto overlaps = [&](const Lifetime &theirs) {
        return mine.overlaps(theirs);
      };
      return overlaps(liveness.get(other)) ||
             llvm::any_of(liveness.getPassed(other), overlaps);
    });
  };
  return meet(left, right) || (!at.slots && !at.each && meet(right, left));
}

bool BufferClasses::canPlace(int inner, const Place &at) const {
  if (inner == at.buffer)
    return true;
  for (Value l : buffers[inner].values) {
    if ((at.axes || at.stride) && (places.at(l).axes || places.at(l).stride))
      return false;
    if (at.each && places.at(l).each)
      return false;
    for (Value r : buffers[at.buffer].values) {
      if (meetWhilePassed(l, r, at))
        return false;
      Lifetime x = liveness.getBeside(l, r), y = liveness.getBeside(r, l);
      if (!x.overlaps(y))
        continue;
      bool innerFirst = x.last == y.first && x.first < x.last &&
                        meetInPlace(inner, at.buffer, inner, at, y.first);
      bool outerFirst = y.last == x.first && y.first < y.last &&
                        meetInPlace(at.buffer, inner, inner, at, x.first);
      if (!innerFirst && !outerFirst)
        return false;
    }
  }
  return true;
}

void BufferClasses::place(int inner, const Place &at) {
  if (inner == at.buffer)
    return;
  Buffer &into = buffers[at.buffer], &from = buffers[inner];
  for (Value value : from.values)
    places[value] = getPlaceIn(value, at);
  from.parent = at.buffer;
  into.size = std::max(into.size, at.axes || at.stride || at.each
                                      ? into.size
                                      : at.offset + from.size);
  into.persistent |= from.persistent;
  llvm::append_range(into.values, from.values);
  from.values.clear();
}

int BufferClasses::merge(int left, int right) {
  place(right, Place{left});
  return left;
}

Value BufferClasses::insertCopy(Value value, Operation *op, int phase) {
  OpBuilder builder(op);
  auto copy =
      rank::CopyOp::create(builder, value.getLoc(), value.getType(), value);
  liveness.insert(copy, op, phase);
  define(copy.getResult());
  return copy.getResult();
}
