// The loops of a kernel: levels, maps, passes of reductions, scatters.

#include "compiler/target/cpu/Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using namespace polyrank::cpu;

void Emitter::assignLevels() {
  levelOfVariable.assign(loops.variables.size(), 1);
  int level = 1;
  int vector = schedule.vectorVariable;
  if (schedule.kind == Schedule::Row) {
    for (int v : schedule.reductionVariables)
      levelOfVariable[v] = ++level;
    levelOfVariable[vector] = ++level;
  } else if (schedule.kind == Schedule::Scatter) {
    for (int v : schedule.reductionVariables)
      levelOfVariable[v] = ++level;
    ++level; // the condition that the update falls into the block
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

  levelOfNode.resize(loops.nodes.size());
  int reduceLevel = schedule.kind == Schedule::Column && vector >= 0 ? 2 : 1;
  for (auto [i, node] : llvm::enumerate(loops.nodes)) {
    int &result = levelOfNode[i];
    for (auto [v, c] : llvm::enumerate(node.expression.coefficients))
      if (c != 0)
        result = std::max(result, levelOfVariable[v]);
    for (int operand : node.operands)
      result = std::max(result, levelOfNode[operand]);
    if (node.predicate >= 0)
      result = std::max(result, levelOfNode[node.predicate]);
    if (node.kind == Node::Reduce)
      result = reduceLevel;
  }
  variables.resize(loops.variables.size());
}

void Emitter::enterLevel(Operation *loop) {
  open.push_back(loop);
  known[depth()].clear();
  knownVectors[depth()].clear();
}

void Emitter::leaveLevel() {
  known[depth()].clear();
  knownVectors[depth()].clear();
  b.setInsertionPointAfter(open.pop_back_val());
}

void Emitter::setInsertionPoint(int level) {
  if (level < depth())
    b.setInsertionPoint(open[level]);
}

OwningOpRef<ModuleOp> Emitter::emit(StringRef name) {
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
  for (unsigned i = 0, n = loops.numArguments + loops.resultTypes.size(); i < n;
       ++i)
    buffers.push_back(element(i));
  for (int node : schedule.kept) {
    int64_t size = loops.variables[schedule.vectorVariable].size;
    scratch[node] = LLVM::AllocaOp::create(
        b, pointer, loops.nodes[node].type,
        constant(llvm::alignTo(size, schedule.lanes)), /*alignment=*/64);
  }
  emitLoop(entry->getArgument(1), entry->getArgument(2), 1, /*variable=*/-1, {},
           [&](ValueRange) {
             Value item = cast<scf::ForOp>(open.back()).getInductionVar();
             emitItem(item);
             return SmallVector<Value>();
           });
  LLVM::ReturnOp::create(b, ValueRange());
  return module;
}

SmallVector<Value> Emitter::emitLoop(Value low, Value high, int64_t step,
                                     int variable, ValueRange initial,
                                     Accumulate body) {
  auto loop = scf::ForOp::create(b, low, high, constant(step), initial);
  // Created empty, with a terminator only where nothing is carried.
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

/// The item's number is a mixed radix number over the outer variables, then
/// tiles and blocks.
void Emitter::emitItem(Value item) {
  int64_t blocks =
      schedule.kind == Schedule::Scatter
          ? llvm::divideCeil(loops.scatter->limit, schedule.scatterRows)
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
  int64_t left = schedule.range;
  auto take = [&](int64_t size) {
    left /= size;
    return takeDigit(size, left == 1);
  };
  Value block = take(blocks);
  Value tile = take(schedule.numTiles(loops));
  for (int v : llvm::reverse(schedule.itemVariables)) {
    if (v == schedule.tileVariable)
      continue;
    variables[v] = take(loops.variables[v].size);
  }
  if (schedule.tileVariable >= 0)
    variables[schedule.tileVariable] =
        arith::MulIOp::create(b, tile, constant(schedule.tile));

  if (schedule.kind == Schedule::Scatter)
    return emitScatter(
        arith::MulIOp::create(b, block, constant(schedule.scatterRows)));
  if (schedule.kind == Schedule::Row)
    return emitPasses();
  auto body = [&] {
    schedule.kind == Schedule::Map ? emitMap() : emitPasses();
  };
  if (schedule.vectorVariable < 0)
    return body();
  int64_t size = loops.variables[schedule.vectorVariable].size;
  Value low = constant(0), high = constant(size);
  if (schedule.block) {
    low = arith::MulIOp::create(b, block, constant(schedule.block));
    high = arith::MinSIOp::create(
        b, arith::AddIOp::create(b, low, constant(schedule.block)), high);
  }
  emitVectorLoop(low, high, size % schedule.lanes != 0, body);
}

/// Whole vectors, then the rest under a mask.
void Emitter::emitVectorLoop(Value low, Value high, bool hasRest, Body body) {
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

void Emitter::emitMap() {
  SmallVector<const Store *> stores;
  for (const Store &store : loops.stores)
    stores.push_back(&store);
  int tile = schedule.tileVariable;
  if (tile < 0)
    return emitStores(stores);
  Value first = variables[tile];
  Value last = arith::MinSIOp::create(
      b, arith::AddIOp::create(b, first, constant(schedule.tile)),
      constant(loops.variables[tile].size));
  emitLoop(first, last, 1, tile, {}, [&](ValueRange) {
    emitStores(stores);
    return SmallVector<Value>();
  });
  variables[tile] = first;
}

void Emitter::emitStores(ArrayRef<const Store *> stores) {
  // A result may have an argument's buffer: all reads come first.
  SmallVector<Value> values;
  for (const Store *store : stores)
    values.push_back(get(store->node));
  for (auto [item, value] : llvm::zip_equal(stores, values))
    store(value, loops.numArguments + item->result, item->offset);
}

void Emitter::emitPasses() {
  SmallVector<const Store *> full, last;
  for (const Store &store : loops.stores)
    (loops.isFull(store) ? full : last).push_back(&store);
  int numPasses = loops.numPasses();

  bool isRow = schedule.kind == Schedule::Row;
  for (pass = 0; pass < numPasses; ++pass) {
    reductions.clear();
    for (auto [i, node] : llvm::enumerate(loops.nodes))
      if (node.kind == Node::Reduce && passes[i] == pass + 1)
        reductions.push_back(i);
    auto accumulate = [&](ValueRange carried) {
      SmallVector<Value> values, results;
      for (auto [i, accumulator] : llvm::zip_equal(reductions, carried)) {
        const Node &node = loops.nodes[i];
        bool isWide = isa<VectorType>(accumulator.getType());
        Value value =
            isWide ? getVector(node.operands[0]) : get(node.operands[0]);
        if (isRow && tailMask)
          value = arith::SelectOp::create(
              b, tailMask, value,
              emitIdentity(b, node.reduction, value.getType()));
        results.push_back(emitCombine(b, node.reduction, accumulator, value));
      }
      if (pass == numPasses - 1)
        emitStores(full);
      return results;
    };
    SmallVector<Value> totals =
        emitReducedLoops(0, emitIdentities(), accumulate);
    for (auto [i, total] : llvm::zip_equal(reductions, totals))
      known[levelOfNode[i]][i] =
          isRow ? foldLanes(loops.nodes[i].reduction, total) : total;
  }
  emitStores(last);
}

SmallVector<Value> Emitter::emitIdentities() {
  return llvm::map_to_vector(reductions, [&](int i) {
    const Node &node = loops.nodes[i];
    bool isWide = schedule.kind == Schedule::Row || isVector(i);
    return emitIdentity(b, node.reduction,
                        isWide ? Type(vectorOf(node.type)) : node.type);
  });
}

/// All reduced variables as one loop over parts, and one over what is in a
/// part.
SmallVector<Value> Emitter::emitParts(ValueRange initial, Accumulate body) {
  Value size = constant(loops.product(/*reduced=*/true));
  auto number = [&] { return cast<scf::ForOp>(open.back()).getInductionVar(); };
  auto value = [&](ValueRange carried) {
    Value rest = number();
    for (int v : llvm::reverse(schedule.reductionVariables)) {
      Value digit = rest;
      if (v != schedule.reductionVariables.front()) {
        Value extent = constant(loops.variables[v].size);
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
        for (auto [i, x, y] : llvm::zip_equal(reductions, carried, part))
          results.push_back(emitCombine(b, loops.nodes[i].reduction, x, y));
        return results;
      });
}

SmallVector<Value> Emitter::emitReducedLoops(size_t next, ValueRange initial,
                                             Accumulate body) {
  if (schedule.part)
    return emitParts(initial, body);
  if (next < schedule.reductionVariables.size()) {
    int v = schedule.reductionVariables[next];
    return emitLoop(constant(0), constant(loops.variables[v].size), 1, v,
                    initial, [&](ValueRange carried) {
                      return emitReducedLoops(next + 1, carried, body);
                    });
  }
  if (schedule.kind == Schedule::Row)
    return emitVectorReduction(initial, body);
  return body(initial);
}

SmallVector<Value> Emitter::emitVectorReduction(ValueRange initial,
                                                Accumulate body) {
  int v = schedule.vectorVariable;
  int64_t lanes = schedule.lanes, size = loops.variables[v].size;
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

/// Lane i with lane i + half, until one is left.
Value Emitter::foldLanes(sharding::ReductionKind kind, Value vector) {
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

void Emitter::emitScatter(Value row) {
  const Scatter &scatter = *loops.scatter;
  int vector = schedule.vectorVariable;
  unsigned result = loops.numArguments;
  Type element = loops.resultTypes[0].getElementType();
  int64_t size = vector >= 0 ? loops.variables[vector].size : 1;
  bool hasRest = size % schedule.lanes != 0;
  Value end = arith::MinSIOp::create(
      b, arith::AddIOp::create(b, row, constant(schedule.scatterRows)),
      constant(scatter.limit));

  // The address of element `offset` in row `at` of a buffer.
  auto addressIn = [&](unsigned buffer, Value at) {
    Value offset = arith::AddIOp::create(
        b, emitAffine(scatter.offset, /*asVector=*/false),
        arith::MulIOp::create(b, at, constant(scatter.stride)));
    return emitAddress(buffers[buffer], memoryType(element), offset);
  };
  auto address = [&](Value at) { return addressIn(result, at); };
  auto write = [&](Value value, Value to) {
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
    if (tailMask)
      return LLVM::MaskedLoadOp::create(
          b, type, from, tailMask,
          emitIdentity(b, sharding::ReductionKind::Sum, type),
          alignmentOf(element));
    return LLVM::LoadOp::create(b, type, from, alignmentOf(element));
  };
  // In place there is nothing to copy. The loops here are fewer than the levels
  // of nodes suppose; none is used.
  Value beginEnd = end;
  if (scatter.init >= 0) {
    Value isElsewhere = LLVM::ICmpOp::create(
        b, LLVM::ICmpPredicate::ne, buffers[scatter.init], buffers[result]);
    beginEnd = arith::SelectOp::create(b, isElsewhere, end, row);
  }
  emitLoop(row, beginEnd, 1, -1, {}, [&](ValueRange) {
    Value at = cast<scf::ForOp>(open.back()).getInductionVar();
    overVectors([&] {
      write(scatter.init < 0
                ? emitIdentity(b, sharding::ReductionKind::Sum, type)
                : read(addressIn(scatter.init, at)),
            address(at));
    });
    return SmallVector<Value>();
  });
  emitReducedLoops(0, {}, [&](ValueRange) {
    Value at = get(scatter.indices);
    if (at.getType() != i64)
      at = arith::ExtSIOp::create(b, i64, at);
    Value inside = arith::AndIOp::create(
        b, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, at, row),
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, at, end));
    auto condition = scf::IfOp::create(b, inside, /*withElseRegion=*/false);
    enterLevel(condition);
    b.setInsertionPointToStart(condition.thenBlock());
    overVectors([&] {
      Value update =
          vector >= 0 ? getVector(scatter.updates) : get(scatter.updates);
      Value to = address(at);
      write(emitCombine(b, sharding::ReductionKind::Sum, read(to), update), to);
    });
    leaveLevel();
    return SmallVector<Value>();
  });
}

OwningOpRef<ModuleOp> cpu::emitLoops(MLIRContext *context, StringRef name,
                                     const Loops &loops,
                                     const Schedule &schedule) {
  return Emitter(context, loops, schedule).emit(name);
}
