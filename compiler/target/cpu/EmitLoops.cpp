// Emits the loops of a kernel: levels, maps, passes of reductions, scatters.

#include "compiler/target/cpu/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cpu;
using namespace polyrank::target;

void KernelEmitter::assignLevels() {
  levelOfVariable.assign(loops.getVariables().size(), 1);
  int level = 1;
  int vector = schedule.vectorVariable;
  if (schedule.kind == KernelSchedule::Kind::Row) {
    for (int v : schedule.reductionVariables)
      levelOfVariable[v] = ++level;
    levelOfVariable[vector] = ++level;
  } else if (schedule.kind == KernelSchedule::Kind::Scatter) {
    for (int v : schedule.reductionVariables)
      levelOfVariable[v] = ++level;
    ++level; // level of the condition that the update falls into the block
    if (vector >= 0)
      levelOfVariable[vector] = ++level;
  } else {
    if (vector >= 0)
      levelOfVariable[vector] = ++level;
    if (schedule.tileVariable >= 0)
      levelOfVariable[schedule.tileVariable] = ++level;
    level += schedule.part != 0;
    for (auto [i, v] : llvm::enumerate(schedule.reductionVariables)) {
      level += i == 0 || !schedule.part;
      levelOfVariable[v] = level;
    }
  }
  known.resize(level + 1);
  knownVectors.resize(level + 1);

  int reduceLevel =
      schedule.kind == KernelSchedule::Kind::Column && vector >= 0 ? 2 : 1;
  for (Operation &op : loops.getBlock()) {
    if (op.getNumResults() == 0)
      continue;
    int result = 0;
    if (const Affine *expression = getExpression(&op))
      for (auto [v, c] : llvm::enumerate(expression->coefficients))
        if (c != 0)
          result = std::max(result, levelOfVariable[v]);
    for (Value operand : op.getOperands())
      result = std::max(result, levels.lookup(operand));
    levels[op.getResult(0)] = isa<ReduceOp>(op) ? reduceLevel : result;
  }
  variables.resize(loops.getVariables().size());
}

void KernelEmitter::enterLevel(Operation *loop) {
  open.push_back(loop);
  known[depth()].clear();
  knownVectors[depth()].clear();
}

void KernelEmitter::leaveLevel() {
  known[depth()].clear();
  knownVectors[depth()].clear();
  b.setInsertionPointAfter(open.pop_back_val());
}

void KernelEmitter::setInsertionPoint(int level) {
  if (level < depth())
    b.setInsertionPoint(open[level]);
}

OwningOpRef<ModuleOp> KernelEmitter::emit(StringRef name) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  auto function = LLVM::LLVMFuncOp::create(
      b, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                  {pointer, i64, i64}));
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  auto element = [&](unsigned i) {
    return LLVM::LoadOp::create(
        b, pointer,
        LLVM::GEPOp::create(b, pointer, pointer, entry->getArgument(0),
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)}));
  };
  for (unsigned i = 0, n = loops->getNumOperands() + loops->getNumResults();
       i < n; ++i)
    buffers.push_back(element(i));
  for (Value value : schedule.kept)
    scratch[value] = LLVM::AllocaOp::create(
        b, pointer, memoryType(value.getType()),
        constant(
            llvm::alignTo(sizeOf(schedule.vectorVariable), schedule.lanes)),
        /*alignment=*/64);
  emitLoop(entry->getArgument(1), entry->getArgument(2), 1, /*variable=*/-1, {},
           [&](ValueRange) {
             Value item = cast<scf::ForOp>(open.back()).getInductionVar();
             emitItem(item);
             return SmallVector<Value>();
           });
  LLVM::ReturnOp::create(b, ValueRange());
  return module;
}

SmallVector<Value> KernelEmitter::emitLoop(Value low, Value high, int64_t step,
                                           int variable, ValueRange initial,
                                           Accumulate body) {
  auto loop = scf::ForOp::create(b, low, high, constant(step), initial);
  // It is created empty, with a terminator only if nothing is carried.
  Block *block = loop.getBody();
  if (!block->empty())
    block->getTerminator()->erase();
  enterLevel(loop);
  if (variable >= 0)
    variables[variable] = loop.getInductionVar();
  b.setInsertionPointToEnd(block);
  SmallVector<Value> results = body(loop.getRegionIterArgs());
  b.setInsertionPointToEnd(block);
  scf::YieldOp::create(b, results);
  leaveLevel();
  return llvm::to_vector_of<Value>(loop.getResults());
}

/// The item's number is a mixed-radix number over the outer variables, then
/// tiles and blocks.
void KernelEmitter::emitItem(Value item) {
  int64_t blocks = schedule.kind == KernelSchedule::Kind::Scatter
                       ? llvm::divideCeil(loops.getScatter().getLimit(),
                                          schedule.scatterRows)
                       : schedule.numBlocks(loops);
  Value rest = item;
  auto takeDigit = [&](int64_t size, bool isLast) -> Value {
    if (size == 1)
      return constant(0);
    if (isLast)
      return rest;
    Value divisor = constant(size);
    Value quotient = arith::DivUIOp::create(b, rest, divisor);
    Value digit = arith::SubIOp::create(
        b, rest, arith::MulIOp::create(b, quotient, divisor));
    rest = quotient;
    return digit;
  };
  int64_t left = schedule.numItems(loops);
  auto take = [&](int64_t size) {
    left /= size;
    return takeDigit(size, left == 1);
  };
  Value block = take(blocks);
  Value tile = take(schedule.numTiles(loops));
  for (int v : llvm::reverse(schedule.itemVariables)) {
    if (v == schedule.tileVariable)
      continue;
    variables[v] = take(sizeOf(v));
  }
  if (schedule.tileVariable >= 0)
    variables[schedule.tileVariable] =
        arith::MulIOp::create(b, tile, constant(schedule.tile));

  if (schedule.kind == KernelSchedule::Kind::Scatter)
    return emitScatter(
        arith::MulIOp::create(b, block, constant(schedule.scatterRows)));
  if (schedule.kind == KernelSchedule::Kind::Row)
    return emitPasses();
  auto body = [&] {
    schedule.kind == KernelSchedule::Kind::Map ? emitMap() : emitPasses();
  };
  if (schedule.vectorVariable < 0)
    return body();
  int64_t size = sizeOf(schedule.vectorVariable);
  Value low = constant(0), high = constant(size);
  if (schedule.block) {
    low = arith::MulIOp::create(b, block, constant(schedule.block));
    high = arith::MinSIOp::create(
        b, arith::AddIOp::create(b, low, constant(schedule.block)), high);
  }
  emitVectorLoop(low, high, size % schedule.lanes != 0, body);
}

/// Emits whole vectors, then the rest under a mask.
void KernelEmitter::emitVectorLoop(Value low, Value high, bool hasRest,
                                   Body body) {
  int64_t lanes = schedule.lanes;
  auto run = [&](ValueRange) {
    body();
    return SmallVector<Value>();
  };
  Value whole = high;
  if (hasRest) {
    // Blocks begin at multiples of the lanes.
    Value count = arith::SubIOp::create(b, high, low);
    Value rest = arith::AndIOp::create(b, count, constant(lanes - 1));
    whole = arith::SubIOp::create(b, high, rest);
  }
  emitLoop(low, whole, lanes, schedule.vectorVariable, {}, run);
  if (!hasRest)
    return;
  emitLoop(whole, high, lanes, schedule.vectorVariable, {}, [&](ValueRange) {
    Value left =
        arith::SubIOp::create(b, high, variables[schedule.vectorVariable]);
    tailMask = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, step(),
                                     broadcast(left));
    body();
    tailMask = Value();
    return SmallVector<Value>();
  });
}

void KernelEmitter::emitMap() {
  std::vector<StoreOp> stores = loops.getStores();
  int tile = schedule.tileVariable;
  if (tile < 0)
    return emitStores(stores);
  Value first = variables[tile];
  Value last = arith::MinSIOp::create(
      b, arith::AddIOp::create(b, first, constant(schedule.tile)),
      constant(sizeOf(tile)));
  emitLoop(first, last, 1, tile, {}, [&](ValueRange) {
    emitStores(stores);
    return SmallVector<Value>();
  });
  variables[tile] = first;
}

void KernelEmitter::emitStores(ArrayRef<StoreOp> stores) {
  // A result may have an argument's buffer: all reads come first.
  SmallVector<Value> values;
  for (StoreOp op : stores)
    values.push_back(get(op.getValue()));
  for (auto [i, value] : llvm::enumerate(values)) {
    StoreOp op = stores[i];
    store(value, loops->getNumOperands() + op.getNumber(), op.getOffset());
  }
}

void KernelEmitter::emitPasses() {
  SmallVector<StoreOp> full, last;
  for (StoreOp op : loops.getStores())
    (loops.isFull(op) ? full : last).push_back(op);
  int numPasses = dependences.numPasses();

  bool isRow = schedule.kind == KernelSchedule::Kind::Row;
  for (pass = 0; pass < numPasses; ++pass) {
    reductions.clear();
    for (ReduceOp op : loops.getBlock().getOps<ReduceOp>())
      if (dependences.passes(op) == pass + 1)
        reductions.push_back(op);
    auto accumulate = [&](ValueRange carried) {
      SmallVector<Value> values, results;
      for (auto [op, accumulator] : llvm::zip_equal(reductions, carried)) {
        bool isWide = isa<VectorType>(accumulator.getType());
        Value value = isWide ? getVector(op.getInput()) : get(op.getInput());
        if (isRow && tailMask)
          value = arith::SelectOp::create(
              b, tailMask, value,
              emitIdentity(b, op.getKind(), value.getType()));
        if (op.getType() != op.getInput().getType())
          value = emitWidened(b, value, op.getType());
        results.push_back(emitCombine(b, op.getKind(), accumulator, value));
      }
      if (pass == numPasses - 1)
        emitStores(full);
      return results;
    };
    SmallVector<Value> totals =
        emitReducedLoops(0, emitIdentities(), accumulate);
    for (auto [op, total] : llvm::zip_equal(reductions, totals))
      known[levels[op]][op] = isRow ? foldLanes(op.getKind(), total) : total;
  }
  emitStores(last);
}

SmallVector<Value> KernelEmitter::emitIdentities() {
  return llvm::map_to_vector(reductions, [&](ReduceOp op) {
    bool isWide = schedule.kind == KernelSchedule::Kind::Row || isVector(op);
    return emitIdentity(b, op.getKind(),
                        isWide ? Type(vectorOf(op.getType())) : op.getType());
  });
}

/// Emits all reduced variables as one loop over parts, and one within a part.
SmallVector<Value> KernelEmitter::emitParts(ValueRange initial,
                                            Accumulate body) {
  Value size = constant(loops.getNumPoints(/*ofReduced=*/true));
  auto number = [&] { return cast<scf::ForOp>(open.back()).getInductionVar(); };
  auto value = [&](ValueRange carried) {
    Value rest = number();
    for (int v : llvm::reverse(schedule.reductionVariables)) {
      Value digit = rest;
      if (v != schedule.reductionVariables.front()) {
        Value extent = constant(sizeOf(v));
        digit = arith::RemUIOp::create(b, rest, extent);
        rest = arith::DivUIOp::create(b, rest, extent);
      }
      variables[v] = digit;
    }
    return body(carried);
  };
  return emitLoop(
      constant(0), size, schedule.part, -1, initial, [&](ValueRange carried) {
        Value last = arith::MinSIOp::create(
            b, arith::AddIOp::create(b, number(), constant(schedule.part)),
            size);
        SmallVector<Value> part =
            emitLoop(number(), last, 1, -1, emitIdentities(), value);
        SmallVector<Value> results;
        for (auto [op, x, y] : llvm::zip_equal(reductions, carried, part))
          results.push_back(emitCombine(b, op.getKind(), x, y));
        return results;
      });
}

SmallVector<Value> KernelEmitter::emitReducedLoops(size_t next,
                                                   ValueRange initial,
                                                   Accumulate body) {
  if (schedule.part)
    return emitParts(initial, body);
  if (next < schedule.reductionVariables.size()) {
    int v = schedule.reductionVariables[next];
    return emitLoop(constant(0), constant(sizeOf(v)), 1, v, initial,
                    [&](ValueRange carried) {
                      return emitReducedLoops(next + 1, carried, body);
                    });
  }
  if (schedule.kind == KernelSchedule::Kind::Row)
    return emitVectorReduction(initial, body);
  return body(initial);
}

SmallVector<Value> KernelEmitter::emitVectorReduction(ValueRange initial,
                                                      Accumulate body) {
  int v = schedule.vectorVariable;
  int64_t lanes = schedule.lanes, size = sizeOf(v);
  int64_t whole = size / lanes * lanes;
  SmallVector<Value> carried(initial);
  if (whole)
    carried = emitLoop(constant(0), constant(whole), lanes, v, carried, body);
  if (whole < size)
    carried = emitLoop(constant(whole), constant(size), lanes, v, carried,
                       [&](ValueRange carried) {
                         tailMask = arith::CmpIOp::create(
                             b, arith::CmpIPredicate::slt, step(),
                             broadcast(constant(size - whole)));
                         SmallVector<Value> results = body(carried);
                         tailMask = Value();
                         return results;
                       });
  return carried;
}

/// Combines lane i with lane i + half, until one is left.
Value KernelEmitter::foldLanes(sharding::ReductionKind kind, Value vector) {
  for (int64_t half = schedule.lanes / 2; half >= 1; half /= 2) {
    auto part = [&](int64_t offset) {
      return vector::ExtractStridedSliceOp::create(
          b, vector, ArrayRef<int64_t>{offset}, ArrayRef<int64_t>{half},
          ArrayRef<int64_t>{1});
    };
    vector = emitCombine(b, kind, part(0), part(half));
  }
  return vector::ExtractOp::create(b, vector, ArrayRef<int64_t>{0});
}

void KernelEmitter::emitScatter(Value row) {
  ScatterAddOp scatter = loops.getScatter();
  int vector = schedule.vectorVariable;
  unsigned result = loops->getNumOperands();
  std::optional<unsigned> init;
  if (scatter.getInit())
    init = loops.getArgumentNumber(scatter.getInit());
  Type element = loops.getResultType(0).getElementType();
  int64_t size = vector >= 0 ? sizeOf(vector) : 1;
  bool hasRest = size % schedule.lanes != 0;
  Value end = arith::MinSIOp::create(
      b, arith::AddIOp::create(b, row, constant(schedule.scatterRows)),
      constant(scatter.getLimit()));

  // The address of element `offset` in row `at` of a buffer.
  auto addressIn = [&](unsigned buffer, Value at) {
    Value offset = arith::AddIOp::create(
        b, emitAffine(scatter.getOffset(), /*asVector=*/false),
        arith::MulIOp::create(b, at, constant(scatter.getStride())));
    return emitAddress(buffers[buffer], memoryType(element), offset);
  };
  auto address = [&](Value at) { return addressIn(result, at); };
  auto write = [&](Value value, Value to) {
    value = toMemory(value);
    if (tailMask)
      LLVM::MaskedStoreOp::create(b, value, to, tailMask, alignmentOf(element));
    else
      LLVM::StoreOp::create(b, value, to, alignmentOf(element));
  };
  auto overVectors = [&](Body body) {
    if (vector < 0)
      return body();
    emitVectorLoop(constant(0), constant(size), hasRest, body);
  };
  Type type = vector >= 0 ? Type(vectorOf(element)) : element;
  auto read = [&](Value from) -> Value {
    Type held = likeType(memoryType(element), type);
    Value value =
        tailMask
            ? Value(LLVM::MaskedLoadOp::create(
                  b, held, from, tailMask,
                  emitIdentity(b, sharding::ReductionKind::Sum, held),
                  alignmentOf(element)))
            : Value(LLVM::LoadOp::create(b, held, from, alignmentOf(element)));
    return fromMemory(value, element);
  };
  // A scatter in place copies nothing. There are fewer loops here than the
  // levels of values assume, but no value is used here.
  Value beginEnd = end;
  if (init) {
    Value isElsewhere = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne,
                                             buffers[*init], buffers[result]);
    beginEnd = arith::SelectOp::create(b, isElsewhere, end, row);
  }
  emitLoop(row, beginEnd, 1, -1, {}, [&](ValueRange) {
    Value at = cast<scf::ForOp>(open.back()).getInductionVar();
    overVectors([&] {
      write(init ? read(addressIn(*init, at))
                 : emitIdentity(b, sharding::ReductionKind::Sum, type),
            address(at));
    });
    return SmallVector<Value>();
  });
  emitReducedLoops(0, {}, [&](ValueRange) {
    Value at = get(scatter.getIndex());
    if (at.getType() != i64)
      at = arith::ExtSIOp::create(b, i64, at);
    Value inside = arith::AndIOp::create(
        b, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, at, row),
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, at, end));
    auto condition = scf::IfOp::create(b, inside, /*withElseRegion=*/false);
    enterLevel(condition);
    b.setInsertionPointToStart(condition.thenBlock());
    overVectors([&] {
      Value update = vector >= 0 ? getVector(scatter.getUpdate())
                                 : get(scatter.getUpdate());
      Value to = address(at);
      write(emitCombine(b, sharding::ReductionKind::Sum, read(to), update), to);
    });
    leaveLevel();
    return SmallVector<Value>();
  });
}

OwningOpRef<ModuleOp> cpu::emitLoops(StringRef name, LoopsOp loops,
                                     const KernelSchedule &schedule) {
  return KernelEmitter(loops, schedule).emit(name);
}
