// Emits the values of a kernel: scalar ops, the levels where they are known,
// and memory.

#include "compiler/target/cpu/KernelEmitter.h"

#include <numeric>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cpu;
using namespace polyrank::target;

Value KernelEmitter::step() {
  SmallVector<int64_t> lanes(schedule.lanes);
  std::iota(lanes.begin(), lanes.end(), 0);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vectorOf(i64), ArrayRef<int64_t>(lanes)));
}

Value KernelEmitter::get(Value scalar) {
  int level = levels.lookup(scalar);
  auto found = known[level].find(scalar);
  if (found != known[level].end())
    return found->second;
  OpBuilder::InsertionGuard guard(b);
  Value row = scratch.lookup(scalar);
  unsigned keptAlignment =
      std::min<int64_t>(64, schedule.lanes * alignmentOf(scalar.getType()));
  auto locate = [&] {
    return emitAddress(row, memoryType(scalar.getType()),
                       variables[schedule.vectorVariable]);
  };
  Value value;
  if (row && llvm::countr_zero(computingPasses[scalar]) < pass) {
    Value kept = LLVM::LoadOp::create(b, vectorOf(memoryType(scalar.getType())),
                                      locate(), keptAlignment);
    value = fromMemory(kept, scalar.getType());
  } else {
    value = compute(scalar.getDefiningOp());
    if (row)
      LLVM::StoreOp::create(b, toMemory(value), locate(), keptAlignment);
  }
  known[level][scalar] = value;
  return value;
}

Value KernelEmitter::getVector(Value scalar) {
  Value value = get(scalar);
  if (isa<VectorType>(value.getType()))
    return value;
  // A splat is cheap: it is at the level of its scalar.
  int level = levels.lookup(scalar);
  Value &wide = knownVectors[level][scalar];
  if (!wide) {
    OpBuilder::InsertionGuard guard(b);
    setInsertionPoint(level);
    wide = broadcast(value);
  }
  return wide;
}

Value KernelEmitter::computeAddress(Operation *op) {
  auto isRange = [&](Value value) {
    return value.getDefiningOp<InRangeOp>() && !isVector(value);
  };
  if (auto load = dyn_cast<LoadOp>(op)) {
    // A part that is not selected is not read.
    if (load.getOffset().coefficients[schedule.vectorVariable] != 1 ||
        !load.getIndices().empty() ||
        (load.getPredicate() && !isRange(load.getPredicate())))
      return Value();
    return emitAddress(buffers[loops.getArgumentNumber(load.getSource())],
                       memoryType(load.getType()),
                       emitAffine(load.getOffset(), /*asVector=*/false));
  }
  auto select = dyn_cast<arith::SelectOp>(op);
  if (!select || !isRange(select.getCondition()))
    return Value();
  Value first = computeAddress(select.getTrueValue().getDefiningOp());
  Value second =
      first ? computeAddress(select.getFalseValue().getDefiningOp()) : Value();
  if (!second)
    return Value();
  return arith::SelectOp::create(b, get(select.getCondition()), first, second);
}

Value KernelEmitter::compute(Operation *op) {
  Value scalar = op->getResult(0);
  bool asVector = isVector(scalar);
  int level = levels.lookup(scalar);
  if (asVector && isa<arith::SelectOp>(op) && level == depth())
    if (Value address = computeAddress(op)) {
      VectorType type = vectorOf(memoryType(scalar.getType()));
      unsigned alignment = alignmentOf(scalar.getType());
      Value loaded;
      if (tailMask)
        loaded = LLVM::MaskedLoadOp::create(
            b, type, address, tailMask,
            emitIdentity(b, sharding::ReductionKind::Sum, type), alignment);
      else
        loaded = LLVM::LoadOp::create(b, type, address, alignment);
      return fromMemory(loaded, scalar.getType());
    }
  auto load = dyn_cast<LoadOp>(op);
  // Operands are at their own levels, outside of this one.
  if (load) {
    for (Value index : load.getIndices())
      get(index);
    if (load.getPredicate())
      get(load.getPredicate());
  } else {
    for (Value operand : op->getOperands())
      isa<arith::SelectOp>(op) || !asVector ? get(operand) : getVector(operand);
  }
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](LoadOp load) {
        setInsertionPoint(level);
        return computeLoad(load, asVector);
      })
      .Case([&](IndexOp index) {
        setInsertionPoint(level);
        return emitAffine(index.getValue(), asVector);
      })
      .Case([&](InRangeOp range) {
        setInsertionPoint(level);
        Value value = emitAffine(range.getValue(), asVector);
        Type type = value.getType();
        // One unsigned comparison checks both bounds.
        Value shifted = arith::SubIOp::create(
            b, value, makeInteger(b, type, range.getLower()));
        return arith::CmpIOp::create(
            b, arith::CmpIPredicate::ult, shifted,
            makeInteger(b, type, range.getUpper() - range.getLower()));
      })
      .Default([&](Operation *op) { return computeScalar(op, asVector); });
}

Value KernelEmitter::computeScalar(Operation *op, bool asVector) {
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    // A scalar condition selects whole vectors.
    bool isCondition = isa<arith::SelectOp>(op) && i == 0;
    operands.push_back(asVector && !isCondition ? getVector(operand)
                                                : get(operand));
  }
  setInsertionPoint(levels.lookup(op->getResult(0)));
  if (auto philox = dyn_cast<PhiloxOp>(op))
    return emitPhilox(b, philox.getId(), operands[0], operands[1], operands[2],
                      operands[3]);
  Type type = op->getResult(0).getType();
  Operation *copy = op->clone();
  copy->setLoc(b.getLoc());
  copy->setOperands(operands);
  copy->getResult(0).setType(asVector ? Type(vectorOf(type)) : type);
  return b.insert(copy)->getResult(0);
}

Value KernelEmitter::emitAffine(const Affine &affine, bool asVector) {
  Value sum;
  Value lanes;
  auto add = [&](Value term) {
    sum = sum ? Value(arith::AddIOp::create(b, sum, term)) : term;
  };
  // Outer variables come first, so that their part is computed outside of inner
  // loops.
  SmallVector<int> order;
  for (size_t v = 0; v < affine.coefficients.size(); ++v)
    if (affine.coefficients[v] != 0)
      order.push_back(v);
  llvm::sort(order, [&](int x, int y) {
    return std::make_tuple(levelOfVariable[x], x) <
           std::make_tuple(levelOfVariable[y], y);
  });
  for (int v : order) {
    int64_t c = affine.coefficients[v];
    add(c == 1 ? variables[v]
               : arith::MulIOp::create(b, variables[v], constant(c)));
    if (asVector && v == schedule.vectorVariable)
      lanes =
          arith::MulIOp::create(b, step(), makeInteger(b, vectorOf(i64), c));
  }
  if (affine.constant != 0 || !sum)
    add(constant(affine.constant));
  if (!asVector)
    return sum;
  Value wide = broadcast(sum);
  return lanes ? Value(arith::AddIOp::create(b, wide, lanes)) : wide;
}

Value KernelEmitter::emitAddress(Value base, Type element, Value offset) {
  Type type = likeType(pointer, offset.getType());
  return LLVM::GEPOp::create(b, type, element, base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value KernelEmitter::lanesOf(Value predicate) {
  if (!predicate)
    return tailMask;
  Value lanes = getVector(predicate);
  return tailMask ? Value(arith::AndIOp::create(b, lanes, tailMask)) : lanes;
}

Value KernelEmitter::computeLoad(LoadOp load, bool asVector) {
  Type element = memoryType(load.getType());
  unsigned alignment = alignmentOf(load.getType());
  Value base = buffers[loops.getArgumentNumber(load.getSource())];
  Value loaded;
  auto addIndices = [&](Value offset) {
    for (auto [operand, stride] :
         llvm::zip_equal(load.getIndices(), load.getStrides())) {
      bool wide = isa<VectorType>(offset.getType());
      Value index = wide ? getVector(operand) : get(operand);
      offset = arith::AddIOp::create(
          b, offset,
          arith::MulIOp::create(b, index,
                                makeInteger(b, index.getType(), stride)));
    }
    return offset;
  };
  if (!asVector) {
    Value offset = addIndices(emitAffine(load.getOffset(), false));
    // Element 0 always exists.
    if (load.getPredicate())
      offset = arith::SelectOp::create(b, get(load.getPredicate()), offset,
                                       constant(0));
    loaded = LLVM::LoadOp::create(
        b, element, emitAddress(base, element, offset), alignment);
    if (load.getPredicate())
      loaded = arith::SelectOp::create(
          b, get(load.getPredicate()), loaded,
          emitIdentity(b, sharding::ReductionKind::Sum, element));
  } else {
    VectorType type = vectorOf(element);
    bool isIndexed = llvm::any_of(load.getIndices(),
                                  [&](Value index) { return isVector(index); });
    bool isContiguous =
        !isIndexed &&
        load.getOffset().coefficients[schedule.vectorVariable] == 1;
    Value lanes = lanesOf(load.getPredicate());
    Value zero = emitIdentity(b, sharding::ReductionKind::Sum, type);
    if (isContiguous) {
      Value address = emitAddress(
          base, element, addIndices(emitAffine(load.getOffset(), false)));
      if (lanes)
        loaded = LLVM::MaskedLoadOp::create(b, type, address, lanes, zero,
                                            alignment);
      else
        loaded = LLVM::LoadOp::create(b, type, address, alignment);
    } else {
      Value addresses = emitAddress(
          base, element, addIndices(emitAffine(load.getOffset(), true)));
      if (!lanes)
        lanes = makeInteger(b, vectorOf(b.getI1Type()), 1);
      loaded = LLVM::masked_gather::create(b, type, addresses, lanes,
                                           ValueRange{zero}, alignment);
    }
  }
  return fromMemory(loaded, load.getType());
}

Value KernelEmitter::fromMemory(Value loaded, Type type) {
  if (memoryType(type) == type)
    return loaded;
  if (isa<FloatType>(type))
    return arith::BitcastOp::create(b, likeType(type, loaded.getType()),
                                    loaded);
  return arith::CmpIOp::create(
      b, arith::CmpIPredicate::ne, loaded,
      emitIdentity(b, sharding::ReductionKind::Sum, loaded.getType()));
}

Value KernelEmitter::toMemory(Value value) {
  Type type = getElementTypeOrSelf(value.getType()), element = memoryType(type);
  if (element == type)
    return value;
  Type held = likeType(element, value.getType());
  if (isa<FloatType>(type))
    return arith::BitcastOp::create(b, held, value);
  return arith::ExtUIOp::create(b, held, value);
}

void KernelEmitter::store(Value value, unsigned buffer, const Affine &offset) {
  Type type = getElementTypeOrSelf(value.getType());
  Type element = memoryType(type);
  int vector = schedule.vectorVariable;
  int64_t stride = vector >= 0 ? offset.coefficients[vector] : 0;
  if (stride != 0 && !isa<VectorType>(value.getType()))
    value = broadcast(value);
  value = toMemory(value);
  unsigned alignment = alignmentOf(type);
  if (stride == 0 || stride == 1) {
    Value to = emitAddress(buffers[buffer], element, emitAffine(offset, false));
    if (stride == 1 && tailMask)
      LLVM::MaskedStoreOp::create(b, value, to, tailMask, alignment);
    else
      LLVM::StoreOp::create(b, value, to, alignment);
    return;
  }
  Value to = emitAddress(buffers[buffer], element, emitAffine(offset, true));
  Value lanes =
      tailMask ? tailMask : makeInteger(b, vectorOf(b.getI1Type()), 1);
  LLVM::masked_scatter::create(b, value, to, lanes, alignment);
}
