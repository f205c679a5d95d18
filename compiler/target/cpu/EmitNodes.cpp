// The values of a kernel: nodes, where they are known, and memory.

#include "compiler/target/cpu/Emitter.h"

#include <numeric>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using namespace polyrank::cpu;

Value Emitter::step() {
  SmallVector<int64_t> lanes(schedule.lanes);
  std::iota(lanes.begin(), lanes.end(), 0);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vectorOf(i64), ArrayRef<int64_t>(lanes)));
}

Value Emitter::get(int node) {
  int level = levelOfNode[node];
  auto found = known[level].find(node);
  if (found != known[level].end())
    return found->second;
  OpBuilder::InsertionGuard guard(b);
  Value row = scratch.lookup(node);
  auto locate = [&] {
    return emitAddress(row, loops.nodes[node].type,
                       variables[schedule.vectorVariable]);
  };
  Value value;
  if (row && llvm::countr_zero(computingPasses[node]) < pass) {
    value = LLVM::LoadOp::create(b, vectorOf(loops.nodes[node].type), locate(),
                                 /*alignment=*/64);
  } else {
    value = compute(node);
    if (row)
      LLVM::StoreOp::create(b, value, locate(), /*alignment=*/64);
  }
  known[level][node] = value;
  return value;
}

Value Emitter::getVector(int node) {
  Value value = get(node);
  if (isa<VectorType>(value.getType()))
    return value;
  // A splat is cheap: it stands where the scalar does.
  Value &wide = knownVectors[levelOfNode[node]][node];
  if (!wide) {
    OpBuilder::InsertionGuard guard(b);
    setInsertionPoint(levelOfNode[node]);
    wide = broadcast(value);
  }
  return wide;
}

Value Emitter::computeAddress(int id) {
  const Node &node = loops.nodes[id];
  auto isRange = [&](int other) {
    return loops.nodes[other].kind == Node::InRange && !isVector(other);
  };
  if (node.kind == Node::Load) {
    // Where it is not selected, it is not read.
    if (node.expression.coefficients[schedule.vectorVariable] != 1 ||
        !node.operands.empty() ||
        (node.predicate >= 0 && !isRange(node.predicate)))
      return Value();
    return emitAddress(buffers[node.parameter], memoryType(node.type),
                       emitAffine(node.expression, /*asVector=*/false));
  }
  if (node.kind != Node::Apply || node.function != Function::Select ||
      !isRange(node.operands[0]))
    return Value();
  Value first = computeAddress(node.operands[1]);
  Value second = first ? computeAddress(node.operands[2]) : Value();
  if (!second)
    return Value();
  return arith::SelectOp::create(b, get(node.operands[0]), first, second);
}

Value Emitter::compute(int id) {
  const Node &node = loops.nodes[id];
  bool asVector = isVector(id);
  if (asVector && node.kind == Node::Apply &&
      node.function == Function::Select && levelOfNode[id] == depth())
    if (Value address = computeAddress(id)) {
      VectorType type = vectorOf(memoryType(node.type));
      unsigned alignment = alignmentOf(node.type);
      Value loaded;
      if (tailMask)
        loaded = LLVM::MaskedLoadOp::create(
            b, type, address, tailMask,
            emitIdentity(b, sharding::ReductionKind::Sum, type), alignment);
      else
        loaded = LLVM::LoadOp::create(b, type, address, alignment);
      return fromMemory(loaded, node.type);
    }
  SmallVector<Value> operands;
  if (node.kind == Node::Apply)
    for (auto [i, operand] : llvm::enumerate(node.operands)) {
      // A scalar condition selects whole vectors.
      bool isCondition = node.function == Function::Select && i == 0;
      operands.push_back(asVector && !isCondition ? getVector(operand)
                                                  : get(operand));
    }
  else if (node.kind == Node::Load) {
    for (int operand : node.operands)
      get(operand);
    if (node.predicate >= 0)
      get(node.predicate);
  }
  setInsertionPoint(levelOfNode[id]);
  switch (node.kind) {
  case Node::Constant:
    return isa<FloatType>(node.type)
               ? makeConstant(b, node.type, node.value)
               : makeInteger(b, node.type, node.parameter);
  case Node::Index:
    return emitAffine(node.expression, asVector);
  case Node::InRange: {
    Value value = emitAffine(node.expression, asVector);
    Type type = value.getType();
    // One unsigned comparison does for both bounds.
    Value shifted =
        arith::SubIOp::create(b, value, makeInteger(b, type, node.lower));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, shifted,
                                 makeInteger(b, type, node.upper - node.lower));
  }
  case Node::Apply:
    return emitFunction(b, node, operands);
  case Node::Load:
    return computeLoad(node, asVector);
  case Node::Reduce:
    break;
  }
  llvm_unreachable("a reduction is known after its pass");
}

Value Emitter::emitAffine(const Affine &affine, bool asVector) {
  Value sum;
  Value lanes;
  auto add = [&](Value term) {
    sum = sum ? Value(arith::AddIOp::create(b, sum, term)) : term;
  };
  // Outer variables first, so that their part stands outside of inner loops.
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

Value Emitter::emitAddress(Value base, Type element, Value offset) {
  Type type = likeType(pointer, offset.getType());
  return LLVM::GEPOp::create(b, type, element, base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value Emitter::lanesOf(int predicate) {
  if (predicate < 0)
    return tailMask;
  Value lanes = getVector(predicate);
  return tailMask ? Value(arith::AndIOp::create(b, lanes, tailMask)) : lanes;
}

Value Emitter::computeLoad(const Node &node, bool asVector) {
  Type element = memoryType(node.type);
  unsigned alignment = alignmentOf(node.type);
  Value base = buffers[node.parameter];
  Value loaded;
  auto addIndices = [&](Value offset) {
    for (auto [operand, stride] :
         llvm::zip_equal(node.operands, node.strides)) {
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
    Value offset = addIndices(emitAffine(node.expression, false));
    // Element 0 always exists.
    if (node.predicate >= 0)
      offset =
          arith::SelectOp::create(b, get(node.predicate), offset, constant(0));
    loaded = LLVM::LoadOp::create(
        b, element, emitAddress(base, element, offset), alignment);
    if (node.predicate >= 0)
      loaded = arith::SelectOp::create(
          b, get(node.predicate), loaded,
          emitIdentity(b, sharding::ReductionKind::Sum, element));
  } else {
    VectorType type = vectorOf(element);
    bool isIndexed = llvm::any_of(
        node.operands, [&](int operand) { return isVector(operand); });
    bool isContiguous =
        !isIndexed &&
        node.expression.coefficients[schedule.vectorVariable] == 1;
    Value lanes = lanesOf(node.predicate);
    Value zero = emitIdentity(b, sharding::ReductionKind::Sum, type);
    if (isContiguous) {
      Value address = emitAddress(
          base, element, addIndices(emitAffine(node.expression, false)));
      if (lanes)
        loaded = LLVM::MaskedLoadOp::create(b, type, address, lanes, zero,
                                            alignment);
      else
        loaded = LLVM::LoadOp::create(b, type, address, alignment);
    } else {
      Value addresses = emitAddress(
          base, element, addIndices(emitAffine(node.expression, true)));
      if (!lanes)
        lanes = makeInteger(b, vectorOf(b.getI1Type()), 1);
      loaded = LLVM::masked_gather::create(b, type, addresses, lanes,
                                           ValueRange{zero}, alignment);
    }
  }
  return fromMemory(loaded, node.type);
}

Value Emitter::fromMemory(Value loaded, Type type) {
  if (!type.isInteger(1))
    return loaded;
  return arith::CmpIOp::create(
      b, arith::CmpIPredicate::ne, loaded,
      emitIdentity(b, sharding::ReductionKind::Sum, loaded.getType()));
}

void Emitter::store(Value value, unsigned buffer, const Affine &offset) {
  Type type = getElementTypeOrSelf(value.getType());
  Type element = memoryType(type);
  int vector = schedule.vectorVariable;
  int64_t stride = vector >= 0 ? offset.coefficients[vector] : 0;
  if (stride != 0 && !isa<VectorType>(value.getType()))
    value = broadcast(value);
  if (type.isInteger(1))
    value =
        arith::ExtUIOp::create(b, likeType(element, value.getType()), value);
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
