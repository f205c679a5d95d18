// Emits scatters. A warp takes an update and some columns. It looks whether an
// earlier update has the same index. If not, it adds this update and all later
// ones with its index to the row, in their order, so that sums have the order
// of a sequential loop and no two warps write to one place.

#include "compiler/target/cuda/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;
using namespace polyrank::target;

Value KernelEmitter::indexOfUpdate(Value number, Value exists) {
  Scope scope;
  Value before = mask, index;
  mask = exists;
  inScope(scope, [&] {
    placeShared(number);
    index = get(loops.getScatter().getIndex())[0];
  });
  mask = before;
  Type i64 = b.getI64Type();
  return index.getType() == i64 ? index
                                : Value(arith::ExtSIOp::create(b, i64, index));
}

Lanes KernelEmitter::update(Value number) {
  Scope scope;
  Lanes values;
  inScope(scope, [&] {
    placeShared(number);
    values = get(loops.getScatter().getUpdate());
  });
  values.resize(lanes, values[0]);
  return values;
}

Value KernelEmitter::findSame(Value first, Value lane, Value end,
                              Value wanted) {
  Value number = add(first, lane);
  Value exists = isLess(number, end);
  number = arith::SelectOp::create(b, exists, number, constant(0));
  Value same = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                     indexOfUpdate(number, exists), wanted);
  return call(b.getI32Type(), "llvm.nvvm.vote.ballot.sync",
              {makeInteger(b, b.getI32Type(), -1), both(exists, same)});
}

Value KernelEmitter::hasEarlier(Value number, Value lane, Value wanted) {
  Value zero = makeInteger(b, b.getI32Type(), 0);
  SmallVector<Type> types = {index, b.getI32Type()};
  SmallVector<Location> locations(2, b.getLoc());
  auto isNone = [&](Value found) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, found, zero);
  };
  auto loop = scf::WhileOp::create(b, types, ValueRange{constant(0), zero});
  Block *before = b.createBlock(&loop.getBefore(), {}, types, locations);
  b.setInsertionPointToEnd(before);
  scf::ConditionOp::create(b,
                           both(isLess(before->getArgument(0), number),
                                isNone(before->getArgument(1))),
                           before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, locations);
  b.setInsertionPointToEnd(after);
  Value first = after->getArgument(0);
  Value found = findSame(first, lane, number, wanted);
  scf::YieldOp::create(b, ValueRange{add(first, constant(warpThreads)), found});
  b.setInsertionPointAfter(loop);
  return arith::XOrIOp::create(b, isNone(loop.getResult(1)),
                               makeInteger(b, b.getI1Type(), 1));
}

/// Adds the updates whose bits are set in `found`, counted from `first`.
Lanes KernelEmitter::addFound(Value first, Value found, const Lanes &sums) {
  Type i32 = b.getI32Type();
  SmallVector<Type> types = {i32};
  SmallVector<Value> initial = {found};
  for (Value sum : sums) {
    types.push_back(sum.getType());
    initial.push_back(sum);
  }
  SmallVector<Location> locations(types.size(), b.getLoc());
  auto loop = scf::WhileOp::create(b, types, initial);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, locations);
  b.setInsertionPointToEnd(before);
  scf::ConditionOp::create(b,
                           arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                                 before->getArgument(0),
                                                 makeInteger(b, i32, 0)),
                           before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, locations);
  b.setInsertionPointToEnd(after);
  Value left = after->getArgument(0);
  Value bit = LLVM::CountTrailingZerosOp::create(b, i32, left,
                                                 /*is_zero_poison=*/true);
  if (index != i32)
    bit = arith::ExtUIOp::create(b, index, bit);
  Lanes values = update(add(first, bit));
  SmallVector<Value> next = {arith::AndIOp::create(
      b, left, arith::SubIOp::create(b, left, makeInteger(b, i32, 1)))};
  for (auto [l, value] : llvm::enumerate(values))
    next.push_back(emitCombine(b, sharding::ReductionKind::Sum,
                               after->getArgument(1 + l), value));
  scf::YieldOp::create(b, next);
  b.setInsertionPointAfter(loop);
  return Lanes(loop.result_begin() + 1, loop.result_end());
}

void KernelEmitter::emitUpdates(Value number, Value lane, Value wanted) {
  ScatterAddOp scatter = loops.getScatter();
  Type type = scatter.getUpdate().getType(), element = memoryType(type);
  Value at = wanted;
  if (at.getType() != index)
    at = arith::TruncIOp::create(b, index, at);
  Value offset =
      add(emitAffine(scatter.getOffset()), multiply(at, scatter.getStride()));
  unsigned result = loops->getNumOperands();
  int64_t alignment =
      alignmentOf(result, element, scatter.getOffset(), {scatter.getStride()});
  int64_t bytes = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
  Lanes addresses = addressesFrom(emitAddress(buffers[result], element, offset),
                                  element, 1, lanes);
  auto alignmentAt = [&](size_t l) {
    return l ? llvm::MinAlign(alignment, l * bytes) : alignment;
  };
  // Columns that do not exist add up nothing, and are not written.
  Accumulators sums = {
      Lanes(lanes, emitIdentity(b, sharding::ReductionKind::Sum, type))};
  if (Value exists = mask) {
    auto conditional = scf::IfOp::create(b, SmallVector<Type>(lanes, element),
                                         exists, true, true);
    SmallVector<Value> held, none;
    b.setInsertionPointToStart(conditional.thenBlock());
    for (auto [l, address] : llvm::enumerate(addresses))
      held.push_back(LLVM::LoadOp::create(b, element, address, alignmentAt(l)));
    scf::YieldOp::create(b, held);
    b.setInsertionPointToStart(conditional.elseBlock());
    none.assign(lanes, emitIdentity(b, sharding::ReductionKind::Sum, element));
    scf::YieldOp::create(b, none);
    b.setInsertionPointAfter(conditional);
    for (int64_t l = 0; l < lanes; ++l)
      sums[0][l] = fromMemory(conditional.getResult(l), type);
  } else {
    for (auto [l, address] : llvm::enumerate(addresses))
      sums[0][l] = fromMemory(
          LLVM::LoadOp::create(b, element, address, alignmentAt(l)), type);
  }
  Lanes own = update(number);
  for (int64_t l = 0; l < lanes; ++l)
    sums[0][l] =
        emitCombine(b, sharding::ReductionKind::Sum, sums[0][l], own[l]);
  Value count = constant(schedule.numShared(loops));
  sums = loopOver(add(number, constant(1)), count, warpThreads, sums,
                  [&](Value first, const Accumulators &carried) {
                    Value found = findSame(first, lane, count, wanted);
                    return Accumulators{addFound(first, found, carried[0])};
                  });
  ifThen(mask, [&] {
    for (auto [l, address] : llvm::enumerate(addresses))
      LLVM::StoreOp::create(b, toMemory(sums[0][l]), address, alignmentAt(l));
  });
}

void KernelEmitter::emitScatter() {
  ScatterAddOp scatter = loops.getScatter();
  int64_t updates = schedule.numShared(loops),
          tiles = llvm::divideCeil(schedule.numVectors(loops), warpThreads),
          items = schedule.numItems(loops);
  Value size = constant(warpThreads);
  Value lane = arith::RemUIOp::create(b, thread, size);
  Value warp = add(multiply(block, schedule.threads / warpThreads),
                   arith::DivUIOp::create(b, thread, size));
  int64_t all = items * tiles * updates;
  bool areWhole = all % (schedule.threads / warpThreads) == 0;
  ifThen(areWhole ? Value() : isLess(warp, constant(all)), [&] {
    SmallVector<Value> digits = digitsOf(warp, {items, tiles, updates});
    placeItems(digits[0]);
    if (schedule.vector >= 0) {
      Value vector = add(multiply(digits[1], warpThreads), lane);
      if (schedule.numVectors(loops) % warpThreads)
        vector = maskAbove(vector, schedule.numVectors(loops));
      variables[schedule.vector] = multiply(vector, schedule.lanes);
    } else {
      mask =
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, constant(0));
    }
    Value wanted = indexOfUpdate(digits[2], Value());
    Value inside = arith::CmpIOp::create(
        b, arith::CmpIPredicate::ult, wanted,
        makeInteger(b, b.getI64Type(), scatter.getLimit()));
    ifThen(inside, [&] {
      Value isLater = hasEarlier(digits[2], lane, wanted);
      Value isFirst =
          arith::XOrIOp::create(b, isLater, makeInteger(b, b.getI1Type(), 1));
      ifThen(isFirst, [&] { emitUpdates(digits[2], lane, wanted); });
    });
  });
}
