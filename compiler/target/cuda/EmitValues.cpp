// Emits the values of a kernel for each lane of a thread's vector, and what it
// reads and writes.

#include "compiler/target/cuda/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;
using namespace polyrank::target;

Type cuda::memoryType(Type type) {
  if (type.isInteger(1))
    return IntegerType::get(type.getContext(), 8);
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 16)
    return IntegerType::get(type.getContext(), 16);
  return type;
}

static int64_t bytesOf(Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

Lanes KernelEmitter::get(Value value) {
  for (Scope *scope : llvm::reverse(scopes))
    if (auto found = scope->find(value); found != scope->end())
      return found->second;
  Lanes computed = compute(value.getDefiningOp());
  return (*scopes.back())[value] = std::move(computed);
}

Lanes KernelEmitter::compute(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return computeLoad(load);
  int64_t count = 1;
  if (auto number = dyn_cast<IndexOp>(op)) {
    const Affine &affine = number.getValue();
    if (coefficientOf(affine) != 0)
      count = lanes;
    Value first = emitAffine(affine);
    Lanes results;
    for (int64_t l = 0; l < count; ++l) {
      Value value =
          l == 0 ? first : add(first, constant(l * coefficientOf(affine)));
      results.push_back(value.getType() == op->getResult(0).getType()
                            ? value
                            : Value(arith::ExtSIOp::create(
                                  b, op->getResult(0).getType(), value)));
    }
    return results;
  }
  auto range = dyn_cast<InRangeOp>(op);
  if (!range)
    return computeScalars(op);
  const Affine &affine = range.getValue();
  if (coefficientOf(affine) != 0 &&
      !isUniform(range, schedule.vector, lanes, dependences))
    count = lanes;
  // One unsigned comparison checks both bounds.
  Value first = add(emitAffine(affine), constant(-range.getLower()));
  Value size = constant(range.getUpper() - range.getLower());
  Lanes results;
  for (int64_t l = 0; l < count; ++l)
    results.push_back(arith::CmpIOp::create(
        b, arith::CmpIPredicate::ult,
        l == 0 ? first : add(first, constant(l * coefficientOf(affine))),
        size));
  return results;
}

/// Emits an op of `arith` or `math` for each lane in which its operands differ.
Lanes KernelEmitter::computeScalars(Operation *op) {
  SmallVector<Lanes> operands;
  size_t count = 1;
  for (Value operand : op->getOperands()) {
    operands.push_back(get(operand));
    count = std::max(count, operands.back().size());
  }
  Lanes results;
  for (size_t l = 0; l < count; ++l) {
    SmallVector<Value> ofLane;
    for (const Lanes &operand : operands)
      ofLane.push_back(operand[operand.size() == 1 ? 0 : l]);
    if (auto philox = dyn_cast<PhiloxOp>(op)) {
      results.push_back(emitPhilox(b, philox.getId(), ofLane[0], ofLane[1],
                                   ofLane[2], ofLane[3]));
      continue;
    }
    Operation *copy = op->clone();
    copy->setLoc(b.getLoc());
    copy->setOperands(ofLane);
    results.push_back(b.insert(copy)->getResult(0));
  }
  return results;
}

Value KernelEmitter::emitAffine(const Affine &affine) {
  Value sum;
  for (auto [v, c] : llvm::enumerate(affine.coefficients)) {
    if (c == 0)
      continue;
    Value term = multiply(variables[v], c);
    sum = sum ? add(sum, term) : term;
  }
  if (!sum)
    return constant(affine.constant);
  return affine.constant ? add(sum, constant(affine.constant)) : sum;
}

Value KernelEmitter::emitAddress(Value base, Type element, Value offset) {
  return LLVM::GEPOp::create(b, base.getType(), element, base,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Lanes KernelEmitter::addressesFrom(Value first, Type element, int64_t step,
                                   size_t count) {
  Lanes addresses = {first};
  for (size_t l = 1; l < count; ++l)
    addresses.push_back(LLVM::GEPOp::create(
        b, first.getType(), element, first,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(step * l)}));
  return addresses;
}

int64_t KernelEmitter::alignmentOf(unsigned buffer, Type element,
                                   const Affine &offset,
                                   ArrayRef<int64_t> strides) {
  int64_t bytes = bytesOf(element);
  bool isWhole = lanes > 1 && isAligned(offset, schedule.vector, lanes) &&
                 llvm::all_of(strides, [&](int64_t stride) {
                   return stride % lanes == 0;
                 });
  return isWhole ? std::max(bytes, std::min(alignments[buffer], lanes * bytes))
                 : bytes;
}

Lanes KernelEmitter::computeLoad(LoadOp load) {
  Type element = memoryType(load.getType());
  unsigned buffer = loops.getArgumentNumber(load.getSource());
  int64_t step = coefficientOf(load.getOffset());
  SmallVector<Lanes> indices;
  bool isIndexed = false;
  for (Value operand : load.getIndices()) {
    indices.push_back(get(operand));
    isIndexed |= indices.back().size() > 1;
  }
  Lanes conditions = {mask};
  if (load.getPredicate()) {
    conditions = get(load.getPredicate());
    for (Value &condition : conditions)
      condition = both(mask, condition);
  }
  bool isUnlike = conditions.size() > 1;
  size_t count = step != 0 || isIndexed || isUnlike ? lanes : 1;

  Value offset = emitAffine(load.getOffset());
  auto offsetOf = [&](size_t lane) {
    Value sum = lane && step ? add(offset, constant(step * lane)) : offset;
    for (auto [operand, stride] : llvm::zip_equal(indices, load.getStrides())) {
      Value number = operand[operand.size() == 1 ? 0 : lane];
      if (number.getType() != index)
        number = arith::TruncIOp::create(b, index, number);
      sum = arith::AddIOp::create(
          b, sum, arith::MulIOp::create(b, number, constant(stride)));
    }
    return sum;
  };
  Lanes addresses;
  if (isIndexed)
    for (size_t l = 0; l < count; ++l)
      addresses.push_back(emitAddress(buffers[buffer], element, offsetOf(l)));
  else
    addresses =
        addressesFrom(emitAddress(buffers[buffer], element, offsetOf(0)),
                      element, step, count);
  int64_t bytes = bytesOf(element);
  int64_t alignment = isIndexed ? bytes
                                : alignmentOf(buffer, element, load.getOffset(),
                                              load.getStrides());
  auto read = [&](size_t lane) -> Value {
    return LLVM::LoadOp::create(b, element, addresses[lane],
                                lane ? llvm::MinAlign(alignment, lane * bytes)
                                     : alignment);
  };
  // What does not exist may be anything but a divisor of zero; what the
  // program does not read is zero.
  bool mayDivide = isa<IntegerType>(element) && !load.getPredicate();
  auto elsewhere = [&]() -> Value {
    return isa<FloatType>(element) ? makeConstant(b, element, 0)
                                   : makeInteger(b, element, mayDivide);
  };
  // One condition guards as many lanes as it holds for, so that LLVM joins
  // their loads.
  Lanes loaded;
  size_t together = isUnlike ? 1 : count;
  for (size_t first = 0; first < count; first += together) {
    Value condition = conditions[isUnlike ? first : 0];
    if (!condition) {
      for (size_t l = first; l < first + together; ++l)
        loaded.push_back(read(l));
      continue;
    }
    auto conditional =
        scf::IfOp::create(b, SmallVector<Type>(together, element), condition,
                          /*addThenBlock=*/true, /*addElseBlock=*/true);
    SmallVector<Value> then, otherwise;
    b.setInsertionPointToStart(conditional.thenBlock());
    for (size_t l = first; l < first + together; ++l)
      then.push_back(read(l));
    scf::YieldOp::create(b, then);
    b.setInsertionPointToStart(conditional.elseBlock());
    otherwise.assign(together, elsewhere());
    scf::YieldOp::create(b, otherwise);
    b.setInsertionPointAfter(conditional);
    llvm::append_range(loaded, conditional.getResults());
  }
  for (Value &value : loaded)
    value = fromMemory(value, load.getType());
  return loaded;
}

Value KernelEmitter::fromMemory(Value loaded, Type type) {
  if (loaded.getType() == type)
    return loaded;
  if (isa<FloatType>(type))
    return arith::BitcastOp::create(b, type, loaded);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, loaded,
                               makeInteger(b, loaded.getType(), 0));
}

Value KernelEmitter::toMemory(Value value) {
  Type type = value.getType(), held = memoryType(type);
  if (held == type)
    return value;
  if (isa<FloatType>(type))
    return arith::BitcastOp::create(b, held, value);
  return arith::ExtUIOp::create(b, held, value);
}

SmallVector<Lanes> KernelEmitter::evaluate(ArrayRef<StoreOp> stores) {
  return llvm::map_to_vector(
      stores, [&](StoreOp op) { return Lanes(get(op.getValue())); });
}

void KernelEmitter::emitStores(ArrayRef<StoreOp> stores) {
  // A result may have an argument's buffer: all reads come first.
  for (auto [op, value] : llvm::zip_equal(stores, evaluate(stores)))
    store(op, value);
}

void KernelEmitter::store(StoreOp op, const Lanes &values) {
  Type element = memoryType(op.getValue().getType());
  unsigned buffer = loops->getNumOperands() + op.getNumber();
  int64_t step = coefficientOf(op.getOffset()), bytes = bytesOf(element);
  size_t count = step ? lanes : 1;
  int64_t alignment = alignmentOf(buffer, element, op.getOffset(), {});
  Lanes addresses = addressesFrom(
      emitAddress(buffers[buffer], element, emitAffine(op.getOffset())),
      element, step, count);
  for (size_t l = 0; l < count; ++l)
    LLVM::StoreOp::create(b, toMemory(values[values.size() == 1 ? 0 : l]),
                          addresses[l],
                          l ? llvm::MinAlign(alignment, l * bytes) : alignment);
}
