// Emits rows and columns: threads that share an item pass over its reduced
// points, once for each reduction of the longest chain, and once more if a
// result needs the last one.

#include "compiler/target/cuda/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;
using namespace polyrank::target;

bool KernelEmitter::dependsOnReduced(Value value) const {
  for (auto [v, variable] :
       llvm::enumerate(const_cast<LoopsOp &>(loops).getVariables()))
    if (variable.isReduced && dependences.dependsOn(value, v))
      return true;
  return false;
}

// The place of a thread

/// Returns 0 instead of a number that is too large, so that all that follows
/// from it is in range, and adds to the mask that it is not.
Value KernelEmitter::maskAbove(Value number, int64_t count) {
  Value exists = isLess(number, constant(count));
  mask = both(mask, exists);
  return arith::SelectOp::create(b, exists, number, constant(0));
}

void KernelEmitter::placeRow() {
  int64_t rowsOfBlock = schedule.threads / schedule.sharing;
  if (rowsOfBlock == 1) {
    sharer = thread;
    return placeItems(block);
  }
  Value sharing = constant(schedule.sharing);
  sharer = arith::RemUIOp::create(b, thread, sharing);
  Value row = add(multiply(block, rowsOfBlock),
                  arith::DivUIOp::create(b, thread, sharing));
  // Lanes of a warp share what they compute, so that none may be missing:
  // rows that do not exist are computed of nothing, and written nowhere.
  int64_t rows = schedule.numItems(loops);
  if (rows % rowsOfBlock)
    row = maskAbove(row, rows);
  placeItems(row);
}

void KernelEmitter::placeColumn() {
  int64_t columns = schedule.numVectors(loops);
  Value warp = constant(warpThreads);
  sharer = arith::DivUIOp::create(b, thread, warp);
  SmallVector<Value> digits = digitsOf(
      block, {schedule.numItems(loops),
              static_cast<int64_t>(llvm::divideCeil(columns, warpThreads))});
  placeItems(digits[0]);
  Value column = add(multiply(digits[1], warpThreads),
                     arith::RemUIOp::create(b, thread, warp));
  if (columns % warpThreads)
    column = maskAbove(column, columns);
  if (schedule.vector >= 0)
    variables[schedule.vector] = column;
}

void KernelEmitter::placeShared(Value number) {
  SmallVector<int64_t> sizes;
  for (int v : schedule.reductions)
    sizes.push_back(sizeOf(v));
  bool isRow = schedule.kind == LoopKind::Row;
  if (isRow)
    sizes.push_back(schedule.numVectors(loops));
  SmallVector<Value> digits = digitsOf(number, sizes);
  for (auto [v, digit] : llvm::zip(schedule.reductions, digits))
    variables[v] = digit;
  if (isRow)
    variables[schedule.vector] = multiply(digits.back(), schedule.lanes);
}

/// The vectors that a thread keeps: their places, and the scopes that have
/// their values in all passes.
void KernelEmitter::placeKept() {
  int64_t count = schedule.numShared(loops);
  Value ofItem = mask;
  for (int64_t i = 0; i < schedule.kept; ++i) {
    Value number = i ? add(sharer, constant(i * schedule.sharing)) : sharer;
    if ((i + 1) * schedule.sharing > count)
      number = maskAbove(number, count);
    placeShared(number);
    kept.push_back({variables, mask, Scope()});
    mask = ofItem;
  }
}

// Accumulators

KernelEmitter::Accumulators KernelEmitter::identities() {
  int64_t count = schedule.kind == LoopKind::Row ? lanes : 1;
  return llvm::map_to_vector(reductions, [&](ReduceOp op) {
    return Lanes(count, emitIdentity(b, op.getKind(), op.getType()));
  });
}

KernelEmitter::Accumulators KernelEmitter::combine(const Accumulators &x,
                                                   const Accumulators &y) {
  Accumulators results;
  for (auto [op, ofX, ofY] : llvm::zip_equal(reductions, x, y)) {
    Lanes &result = results.emplace_back();
    for (auto [left, right] : llvm::zip_equal(ofX, ofY))
      result.push_back(emitCombine(b, op.getKind(), left, right));
  }
  return results;
}

KernelEmitter::Accumulators
KernelEmitter::accumulate(const Accumulators &carried) {
  Accumulators values;
  for (auto [op, accumulator] : llvm::zip_equal(reductions, carried)) {
    Lanes input = get(op.getInput()), &value = values.emplace_back();
    for (size_t l = 0; l < accumulator.size(); ++l) {
      Value each = input[input.size() == 1 ? 0 : l];
      if (mask)
        each = arith::SelectOp::create(
            b, mask, each, emitIdentity(b, op.getKind(), each.getType()));
      value.push_back(each.getType() == op.getType()
                          ? each
                          : emitWidened(b, each, op.getType()));
    }
  }
  return combine(carried, values);
}

KernelEmitter::Accumulators KernelEmitter::accumulateKept() {
  Accumulators sums = identities();
  bool isLast = pass == dependences.numPasses() - 1;
  SmallVector<Value> ofItem = variables;
  Value itemMask = mask;
  SmallVector<SmallVector<Lanes>> stored;
  for (Point &point : kept) {
    variables = point.variables;
    mask = point.mask;
    inScope(point.scope, [&] {
      sums = accumulate(sums);
      if (isLast)
        stored.push_back(evaluate(fullStores));
    });
  }
  if (isLast && !fullStores.empty())
    for (auto [point, values] : llvm::zip_equal(kept, stored)) {
      variables = point.variables;
      ifThen(point.mask, [&, values = ArrayRef<Lanes>(values)] {
        for (auto [op, value] : llvm::zip_equal(fullStores, values))
          store(op, value);
      });
    }
  variables = ofItem;
  mask = itemMask;
  return sums;
}

SmallVector<Value> KernelEmitter::flatten(const Accumulators &accumulators) {
  SmallVector<Value> values;
  for (const Lanes &each : accumulators)
    llvm::append_range(values, each);
  return values;
}

KernelEmitter::Accumulators KernelEmitter::unflatten(ValueRange values,
                                                     const Accumulators &like) {
  Accumulators result;
  for (const Lanes &each : like) {
    result.emplace_back(values.begin(), values.begin() + each.size());
    values = values.drop_front(each.size());
  }
  return result;
}

KernelEmitter::Accumulators KernelEmitter::loopOver(
    Value low, Value high, int64_t step, const Accumulators &initial,
    function_ref<Accumulators(Value, const Accumulators &)> body) {
  auto loop =
      scf::ForOp::create(b, low, high, constant(step), flatten(initial));
  // It is created empty, with a terminator only if nothing is carried.
  Block *inside = loop.getBody();
  if (!inside->empty())
    inside->getTerminator()->erase();
  b.setInsertionPointToEnd(inside);
  Scope scope;
  inScope(scope, [&] {
    scf::YieldOp::create(
        b, flatten(body(loop.getInductionVar(),
                        unflatten(loop.getRegionIterArgs(), initial))));
  });
  b.setInsertionPointAfter(loop);
  return unflatten(loop.getResults(), initial);
}

KernelEmitter::Accumulators KernelEmitter::accumulateInLoop() {
  bool isLast = pass == dependences.numPasses() - 1;
  Value count = constant(schedule.numShared(loops));
  auto addVector = [&](Value number, const Accumulators &carried) {
    placeShared(number);
    Accumulators sums = accumulate(carried);
    if (isLast)
      emitStores(fullStores);
    return sums;
  };
  if (!schedule.part)
    return loopOver(sharer, count, schedule.sharing, identities(), addVector);
  int64_t ofPart = schedule.part * schedule.sharing;
  return loopOver(
      sharer, count, ofPart, identities(),
      [&](Value first, const Accumulators &carried) {
        Value end =
            arith::MinSIOp::create(b, add(first, constant(ofPart)), count);
        return combine(carried, loopOver(first, end, schedule.sharing,
                                         identities(), addVector));
      });
}

/// A thread without an item has identities alone: one condition is around the
/// whole loop.
KernelEmitter::Accumulators KernelEmitter::accumulateIfItemExists() {
  if (!mask)
    return accumulateInLoop();
  Accumulators none = identities();
  SmallVector<Value> otherwise = flatten(none);
  auto conditional =
      scf::IfOp::create(b, TypeRange(ValueRange(otherwise)), mask,
                        /*addThenBlock=*/true, /*addElseBlock=*/true);
  Value exists = std::exchange(mask, Value());
  b.setInsertionPointToStart(conditional.thenBlock());
  Scope scope;
  inScope(scope, [&] { scf::YieldOp::create(b, flatten(accumulateInLoop())); });
  b.setInsertionPointToStart(conditional.elseBlock());
  scf::YieldOp::create(b, otherwise);
  b.setInsertionPointAfter(conditional);
  mask = exists;
  return unflatten(conditional.getResults(), none);
}

// Totals of the threads that share an item

Value KernelEmitter::foldLanes(ReduceOp op, Lanes values) {
  for (size_t half = values.size() / 2; half >= 1; half /= 2)
    for (size_t l = 0; l < half; ++l)
      values[l] = emitCombine(b, op.getKind(), values[l], values[l + half]);
  return values[0];
}

Value KernelEmitter::shuffle(Value value, int64_t distance) {
  Type type = value.getType(), i32 = b.getI32Type();
  unsigned width = type.getIntOrFloatBitWidth();
  Type bits = b.getIntegerType(width);
  auto exchange = [&](Value word) {
    return call(i32, "llvm.nvvm.shfl.sync.bfly.i32",
                {makeInteger(b, i32, -1), word, makeInteger(b, i32, distance),
                 makeInteger(b, i32, warpThreads - 1)});
  };
  if (type != bits)
    value = arith::BitcastOp::create(b, bits, value);
  if (width < 32) {
    Value word = exchange(arith::ExtUIOp::create(b, i32, value));
    value = arith::TruncIOp::create(b, bits, word);
  } else if (width == 32) {
    value = exchange(value);
  } else {
    Value shift = makeInteger(b, bits, 32);
    Value low = exchange(arith::TruncIOp::create(b, i32, value));
    Value high = exchange(arith::TruncIOp::create(
        b, i32, arith::ShRUIOp::create(b, value, shift)));
    value = arith::OrIOp::create(
        b, arith::ExtUIOp::create(b, bits, low),
        arith::ShLIOp::create(b, arith::ExtUIOp::create(b, bits, high), shift));
  }
  return type == bits ? value : Value(arith::BitcastOp::create(b, type, value));
}

Value KernelEmitter::foldWarp(ReduceOp op, Value value) {
  for (int64_t distance = std::min<int64_t>(schedule.sharing, warpThreads) / 2;
       distance >= 1; distance /= 2)
    value = emitCombine(b, op.getKind(), value, shuffle(value, distance));
  return value;
}

Value KernelEmitter::addSlots(Type element, int64_t count) {
  int64_t bytes = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
  std::string slots = name + "_slots" + std::to_string(numSlots++);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(moduleBody);
    LLVM::GlobalOp::create(
        b, LLVM::LLVMArrayType::get(element, count), /*isConstant=*/false,
        LLVM::Linkage::Internal, slots, Attribute(), /*alignment=*/bytes,
        cast<LLVM::LLVMPointerType>(sharedPointer).getAddressSpace());
  }
  sharedBytes = llvm::alignTo(sharedBytes, bytes) + count * bytes;
  return LLVM::AddressOfOp::create(b, sharedPointer, slots);
}

/// Each warp writes its totals to slots of their own, and all threads read
/// those of all warps.
void KernelEmitter::foldWarps(SmallVectorImpl<Value> &totals) {
  bool isRow = schedule.kind == LoopKind::Row;
  int64_t warps = isRow ? schedule.sharing / warpThreads : schedule.sharing;
  if (warps <= 1)
    return;
  Value size = constant(warpThreads);
  Value warp = arith::DivUIOp::create(b, thread, size),
        lane = arith::RemUIOp::create(b, thread, size);
  // A row has a slot for each warp, a column one for each of its threads.
  int64_t width = isRow ? 1 : warpThreads;
  SmallVector<Value> slots;
  for (Value total : totals)
    slots.push_back(addSlots(memoryType(total.getType()), warps * width));
  auto addressOf = [&](size_t i, Value number) {
    Value slot = isRow ? number : add(multiply(number, width), lane);
    return emitAddress(slots[i], memoryType(totals[i].getType()), slot);
  };
  Value writes = isRow ? Value(arith::CmpIOp::create(
                             b, arith::CmpIPredicate::eq, lane, constant(0)))
                       : Value();
  ifThen(writes, [&] {
    for (auto [i, total] : llvm::enumerate(totals))
      LLVM::StoreOp::create(b, toMemory(total), addressOf(i, warp));
  });
  barrier();
  for (auto [i, op] : llvm::enumerate(reductions)) {
    Type type = totals[i].getType();
    SmallVector<Value> ofWarps;
    for (int64_t w = 0; w < warps; ++w)
      ofWarps.push_back(fromMemory(
          LLVM::LoadOp::create(b, memoryType(type), addressOf(i, constant(w))),
          type));
    for (int64_t half = llvm::bit_ceil<uint64_t>(warps) / 2; half >= 1;
         half /= 2)
      for (int64_t w = 0; w < half; ++w)
        if (w + half < static_cast<int64_t>(ofWarps.size()))
          ofWarps[w] =
              emitCombine(b, op.getKind(), ofWarps[w], ofWarps[w + half]);
    totals[i] = ofWarps[0];
  }
}

void KernelEmitter::emitTotals(const Accumulators &accumulators) {
  SmallVector<Value> totals;
  for (auto [op, values] : llvm::zip_equal(reductions, accumulators)) {
    Value total = foldLanes(op, values);
    totals.push_back(schedule.kind == LoopKind::Row ? foldWarp(op, total)
                                                    : total);
  }
  if (!totals.empty())
    foldWarps(totals);
  for (auto [op, total] : llvm::zip_equal(reductions, totals))
    (*scopes.back())[op] = {total};
}

// Passes

void KernelEmitter::emitItemValues(int pass) {
  for (Operation &op : loops.getBlock())
    if (op.getNumResults() && !isa<ReduceOp>(op) &&
        dependences.passes(op.getResult(0)) <= pass &&
        !dependsOnReduced(op.getResult(0)))
      get(op.getResult(0));
}

void KernelEmitter::emitPasses() {
  Scope ofItem;
  inScope(ofItem, [&] {
    if (schedule.kept)
      placeKept();
    int numPasses = dependences.numPasses();
    for (pass = 0; pass < numPasses; ++pass) {
      reductions.clear();
      for (ReduceOp op : loops.getBlock().getOps<ReduceOp>())
        if (dependences.passes(op) == pass + 1)
          reductions.push_back(op);
      emitItemValues(pass);
      emitTotals(schedule.kept ? accumulateKept() : accumulateIfItemExists());
    }
    emitItemValues(numPasses);
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, sharer, constant(0));
    if (itemStores.empty())
      return;
    SmallVector<Lanes> values = evaluate(itemStores);
    ifThen(both(isFirst, mask), [&] {
      for (auto [op, value] : llvm::zip_equal(itemStores, values))
        store(op, value);
    });
  });
}
