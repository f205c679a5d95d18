// Which values of a function share a buffer, and when each buffer is live.

#include "compiler/lowering/BufferClasses.h"

#include "dialects/graph/Graph.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

// An op at position p reads and writes at p; copies that are inserted before it
// later happen at p - 2 and p - 1.
static constexpr int64_t spacing = 4;

bool polyrank::lowering::allowsInPlace(Operation *op, unsigned operand,
                                       unsigned result) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](rank::LaunchOp launch) {
        auto kernel = SymbolTable::lookupNearestSymbolFrom<rank::KernelOp>(
            op, launch.getKernelAttr());
        return llvm::is_contained(kernel.getInPlace(result), operand);
      })
      .Case([&](rank::GemmOp gemm) {
        return gemm.getAddend() && operand == 2;
      })
      .Case<rank::AllReduceOp, rank::BroadcastOp>(
          [&](Operation *) { return operand == result; })
      .Default(false);
}

FailureOr<BufferClasses> BufferClasses::build(func::FuncOp function) {
  BufferClasses classes;
  if (failed(classes.number(function.getBody().front())))
    return failure();
  return classes;
}

void BufferClasses::define(Value value) {
  int buffer = buffers.size();
  int64_t size = rank::getByteSize(value.getType());
  bool persistent =
      isa_and_nonnull<graph::ConstantOp, rank::AxisIndexOp>(
          value.getDefiningOp()) ||
      (isa<BlockArgument>(value) &&
       isa<func::FuncOp>(value.getParentBlock()->getParentOp()));
  buffers.push_back({buffer, size, persistent, {value}});
  places[value] = {buffer, 0, size, 0};
}

void BufferClasses::alias(Value value, Value of, int64_t offset,
                          int64_t stride) {
  Place place = places.at(of);
  places[value] = {place.buffer, place.offset + offset,
                   rank::getByteSize(value.getType()), stride};
  buffers[root(place.buffer)].values.push_back(value);
}

LogicalResult BufferClasses::number(Block &block) {
  auto position = [&](Operation *op) {
    next += spacing;
    positions[op] = next;
    opsByPosition.resize(next + 1);
    opsByPosition[next] = op;
  };
  next += spacing;
  blocks[&block].first = next;
  if (isa<func::FuncOp>(block.getParentOp()))
    llvm::for_each(block.getArguments(), [&](Value v) { define(v); });
  for (Operation &op : block) {
    if (auto region = dyn_cast<rank::MicrobatchesOp>(op)) {
      if (microbatches)
        return op.emitOpError("is the second microbatch region of a function");
      microbatches = region;
      for (Value result : region.getResults())
        define(result);
      for (Region *part : {&region.getFirst(), &region.getRest()}) {
        Block &body = part->front();
        auto arguments = body.getArguments();
        // All indices, one after another: written once, at load.
        if (part == &region.getFirst()) {
          define(arguments.front());
          buffers.back().size *= region.getCount();
          buffers.back().persistent = true;
          places[arguments.front()].stride = places[arguments.front()].size;
        } else {
          Value first = region.getFirst().getArgument(0);
          alias(arguments.front(), first, 0, places.at(first).stride);
        }
        arguments = arguments.drop_front();
        for (Value of : region.getOf()) {
          alias(arguments.front(), of, 0,
                rank::getByteSize(arguments.front().getType()));
          arguments = arguments.drop_front();
        }
        // `first` reads what is carried where it lies; `rest` finds sums and
        // carried values where the results will be.
        ValueRange sources = part == &region.getFirst()
                                 ? ValueRange(region.getCarry())
                                 : ValueRange(region.getResults());
        for (auto [argument, source] : llvm::zip_equal(arguments, sources))
          alias(argument, source, 0);
        if (failed(number(body)))
          return failure();
      }
      position(&op);
      continue;
    }
    if (!isa<rank::RankDialect, func::FuncDialect>(op.getDialect()) &&
        !isa<graph::ConstantOp>(op))
      return op.emitOpError("is not a command; form-gemms and form-kernels "
                            "come before buffers are assigned");
    position(&op);
    if (auto view = dyn_cast<rank::ViewOp>(op)) {
      alias(view.getResult(), view.getInput(),
            view.getOffset() *
                rank::getElementByteSize(view.getType().getElementType()),
            places.at(view.getInput()).stride);
      continue;
    }
    for (Value result : op.getResults())
      define(result);
  }
  blocks[&block].last = next;
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

/// From where the value appears to its last use. What `rest` uses of outside,
/// each microbatch needs.
Lifetime BufferClasses::getLifetime(Value value) const {
  Block *block = value.getParentBlock();
  Lifetime lifetime;
  if (Operation *op = value.getDefiningOp())
    lifetime.first = positions.at(op);
  else
    lifetime.first = blocks.at(block).first;
  lifetime.last = lifetime.first;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    int64_t last = positions.at(user);
    if (auto region = dyn_cast<rank::MicrobatchesOp>(user)) {
      unsigned index = use.getOperandNumber();
      if (index >= region.getOf().size())
        // Carried: read in the first microbatch, through its block argument.
        last = getLifetime(region.getFirst().getArgument(1 + index)).last;
    } else if (user->getBlock() != block &&
               user->getParentOp() == microbatches &&
               user->getParentRegion() ->getRegionNumber() == 1) {
      last = blocks.at(user->getBlock()).last;
    }
    lifetime.last = std::max(lifetime.last, last);
  }
  return lifetime;
}

SmallVector<Lifetime> BufferClasses::getLifetimes(int buffer) const {
  SmallVector<Lifetime> lifetimes;
  for (Value value : buffers[buffer].values)
    lifetimes.push_back(getLifetime(value));
  return joinLifetimes(lifetimes);
}

/// Whether the op at `position` reads class `read` only where it may write its
/// results in class `written`.
bool BufferClasses::meetInPlace(int read, int written, int64_t position) const {
  Operation *op = opsByPosition[position];
  if (!op)
    return false;
  bool writes = false;
  for (OpResult result : op->getResults()) {
    if (find(result) != written)
      continue;
    writes = true;
    for (OpOperand &operand : op->getOpOperands()) {
      Place place = getPlace(operand.get());
      if (place.buffer == read &&
          (place.offset != 0 ||
           !allowsInPlace(op, operand.getOperandNumber(),
                          result.getResultNumber())))
        return false;
    }
  }
  return writes;
}

bool BufferClasses::canMerge(int left, int right) const {
  if (left == right)
    return true;
  for (Value l : buffers[left].values)
    for (Value r : buffers[right].values) {
      Lifetime x = getLifetime(l), y = getLifetime(r);
      if (!x.overlaps(y))
        continue;
      bool leftFirst = x.last == y.first && x.first < x.last &&
                       meetInPlace(left, right, y.first);
      bool rightFirst = y.last == x.first && y.first < y.last &&
                        meetInPlace(right, left, x.first);
      if (!leftFirst && !rightFirst)
        return false;
    }
  return true;
}

int BufferClasses::merge(int left, int right) {
  if (left == right)
    return left;
  Buffer &into = buffers[left], &from = buffers[right];
  from.parent = left;
  into.size = std::max(into.size, from.size);
  into.persistent |= from.persistent;
  llvm::append_range(into.values, from.values);
  from.values.clear();
  return left;
}

Value BufferClasses::insertCopy(Value value, Operation *op, int phase) {
  OpBuilder builder(op);
  auto copy = rank::CopyOp::create(builder, value.getLoc(), value.getType(),
                                   value);
  positions[copy] = positions.at(op) - 2 + phase;
  define(copy.getResult());
  return copy.getResult();
}
