// Emits the function of a kernel: its place in the grid, and maps.

#include "compiler/target/cuda/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::cuda;

/// The address spaces of device memory and of a block's shared memory.
static constexpr unsigned globalSpace = 1, sharedSpace = 3;

/// Returns true if all numbers of the loops fit in 32 bits, with room for
/// threads that have nothing to do.
static bool hasSmallIndices(LoopsOp loops) {
  constexpr int64_t limit = (int64_t(1) << 31) - (int64_t(1) << 22);
  auto isSmall = [&](int64_t number) { return std::abs(number) < limit; };
  for (Type type : loops->getOperandTypes())
    if (!isSmall(cast<RankedTensorType>(type).getNumElements()))
      return false;
  for (Type type : loops->getResultTypes())
    if (!isSmall(cast<RankedTensorType>(type).getNumElements()))
      return false;
  if (!isSmall(loops.getNumPoints(/*ofReduced=*/false)) ||
      !isSmall(loops.getNumPoints(/*ofReduced=*/true)))
    return false;
  for (Operation &op : loops.getBlock()) {
    const Affine *affine = getExpression(&op);
    if (!affine)
      continue;
    int64_t sum = std::abs(affine->constant);
    for (auto [c, variable] :
         llvm::zip_equal(affine->coefficients, loops.getVariables()))
      sum += std::abs(c) * (variable.size + 32);
    if (auto range = dyn_cast<InRangeOp>(op))
      sum += std::max(std::abs(range.getLower()), std::abs(range.getUpper()));
    if (!isSmall(sum))
      return false;
  }
  return true;
}

KernelEmitter::KernelEmitter(LoopsOp loops, const KernelSchedule &schedule,
                             ArrayRef<int64_t> alignments)
    : loops(loops), schedule(schedule), context(loops.getContext()),
      b(UnknownLoc::get(context), context),
      index(hasSmallIndices(loops) ? b.getI32Type() : b.getI64Type()),
      pointer(LLVM::LLVMPointerType::get(context, globalSpace)),
      sharedPointer(LLVM::LLVMPointerType::get(context, sharedSpace)),
      alignments(alignments), dependences(loops), lanes(schedule.lanes),
      variables(loops.getVariables().size()) {
  for (StoreOp op : loops.getStores())
    (schedule.kind == LoopKind::Map || loops.isFull(op) ? fullStores
                                                        : itemStores)
        .push_back(op);
}

OwningOpRef<ModuleOp> KernelEmitter::emit(StringRef functionName) {
  name = functionName.str();
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
  moduleBody = module->getBody();
  b.setInsertionPointToEnd(moduleBody);
  SmallVector<Type> types(loops->getNumOperands() + loops->getNumResults(),
                          pointer);
  auto function = LLVM::LLVMFuncOp::create(
      b, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types));
  for (auto [i, alignment] : llvm::enumerate(alignments))
    function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                        b.getI64IntegerAttr(alignment));
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  buffers.assign(entry->args_begin(), entry->args_end());
  block = readRegister("ctaid.x");
  thread = readRegister("tid.x");
  switch (schedule.kind) {
  case LoopKind::Map:
    schedule.tiled < 0 ? emitMap() : emitTiles();
    break;
  case LoopKind::Row:
    placeRow();
    emitPasses();
    break;
  case LoopKind::Column:
    placeColumn();
    emitPasses();
    break;
  case LoopKind::Scatter:
    emitScatter();
    break;
  }
  b.setInsertionPointToEnd(entry);
  LLVM::ReturnOp::create(b, ValueRange());
  return module;
}

Value KernelEmitter::call(Type result, StringRef intrinsic,
                          ValueRange arguments) {
  StringAttr called = b.getStringAttr(intrinsic);
  if (!result) {
    LLVM::CallIntrinsicOp::create(b, called, arguments);
    return Value();
  }
  return LLVM::CallIntrinsicOp::create(b, result, called, arguments)
      ->getResult(0);
}

Value KernelEmitter::readRegister(StringRef which) {
  Value number =
      call(b.getI32Type(), ("llvm.nvvm.read.ptx.sreg." + which).str(), {});
  return index == number.getType()
             ? number
             : Value(arith::ExtUIOp::create(b, index, number));
}

void KernelEmitter::barrier() {
  call(Type(), "llvm.nvvm.barrier.cta.sync.aligned.all",
       target::makeInteger(b, b.getI32Type(), 0));
}

// Numbers

Value KernelEmitter::add(Value x, Value y) {
  return arith::AddIOp::create(b, x, y, arith::IntegerOverflowFlags::nsw);
}

Value KernelEmitter::multiply(Value x, int64_t factor) {
  return factor == 1
             ? x
             : Value(arith::MulIOp::create(b, x, constant(factor),
                                           arith::IntegerOverflowFlags::nsw));
}

Value KernelEmitter::isLess(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
}

Value KernelEmitter::both(Value x, Value y) {
  return !x ? y : !y ? x : Value(arith::AndIOp::create(b, x, y));
}

SmallVector<Value> KernelEmitter::digitsOf(Value number,
                                           ArrayRef<int64_t> sizes) {
  SmallVector<Value> digits(sizes.size());
  // The first digit of more than one value is what is left.
  size_t first = 0;
  while (first < sizes.size() && sizes[first] == 1)
    digits[first++] = constant(0);
  for (size_t i = sizes.size(); i-- > first;) {
    if (i == first) {
      digits[i] = number;
      break;
    }
    Value size = constant(sizes[i]);
    Value quotient = arith::DivUIOp::create(b, number, size);
    digits[i] = arith::RemUIOp::create(b, number, size);
    number = quotient;
  }
  return digits;
}

void KernelEmitter::placeItems(Value number) {
  SmallVector<int64_t> sizes;
  for (int v : schedule.items)
    sizes.push_back(sizeOf(v));
  for (auto [v, digit] :
       llvm::zip_equal(schedule.items, digitsOf(number, sizes)))
    variables[v] = digit;
}

// Control flow

void KernelEmitter::inScope(Scope &scope, Body body) {
  scopes.push_back(&scope);
  body();
  scopes.pop_back();
}

void KernelEmitter::ifThen(Value condition, Body body) {
  if (!condition)
    return body();
  auto conditional = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  b.setInsertionPointToStart(conditional.thenBlock());
  Scope scope;
  inScope(scope, body);
  b.setInsertionPointAfter(conditional);
}

// Maps

void KernelEmitter::placeInMap(Value number) {
  SmallVector<int64_t> sizes;
  for (int v : schedule.items)
    sizes.push_back(sizeOf(v));
  sizes.push_back(schedule.numVectors(loops));
  SmallVector<Value> digits = digitsOf(number, sizes);
  for (auto [v, digit] : llvm::zip(schedule.items, digits))
    variables[v] = digit;
  if (schedule.vector >= 0)
    variables[schedule.vector] = multiply(digits.back(), schedule.lanes);
}

/// Emits one vector; of the last one of a variable that has no whole number of
/// them, value by value.
void KernelEmitter::emitVector(Value number) {
  Scope scope;
  inScope(scope, [&] {
    placeInMap(number);
    if (schedule.vector < 0 || vectorSize() % schedule.lanes == 0)
      return emitStores(fullStores);
    int v = schedule.vector;
    Value first = variables[v];
    Value isWhole = isLess(add(first, constant(schedule.lanes - 1)),
                           constant(vectorSize()));
    auto conditional = scf::IfOp::create(b, isWhole, /*withElseRegion=*/true);
    b.setInsertionPointToStart(conditional.thenBlock());
    Scope whole, rest;
    inScope(whole, [&] { emitStores(fullStores); });
    b.setInsertionPointToStart(conditional.elseBlock());
    auto loop =
        scf::ForOp::create(b, first, constant(vectorSize()), constant(1));
    b.setInsertionPointToStart(loop.getBody());
    lanes = 1;
    variables[v] = loop.getInductionVar();
    inScope(rest, [&] { emitStores(fullStores); });
    variables[v] = first;
    lanes = schedule.lanes;
    b.setInsertionPointAfter(conditional);
  });
}

/// A thread has vectors that are a block's threads apart, so that adjacent
/// threads access adjacent vectors. All are read before one is written.
void KernelEmitter::emitMap() {
  int64_t all = schedule.numItems(loops) * schedule.numVectors(loops);
  int64_t ofBlock = schedule.threads * schedule.vectors;
  Value first = add(multiply(block, ofBlock), thread);
  auto numberAt = [&](int64_t i) {
    return i == 0 ? first : add(first, constant(i * schedule.threads));
  };
  if (schedule.vectors == 1)
    return ifThen(all % ofBlock ? isLess(first, constant(all)) : Value(),
                  [&] { emitVector(first); });
  bool hasRests = vectorSize() % schedule.lanes != 0;
  auto emitAll = [&] {
    std::vector<Point> points(hasRests ? 0 : schedule.vectors);
    SmallVector<SmallVector<Lanes>> values;
    for (auto [i, point] : llvm::enumerate(points)) {
      placeInMap(numberAt(i));
      point.variables = variables;
      inScope(point.scope, [&] { values.push_back(evaluate(fullStores)); });
    }
    for (auto [point, ofPoint] : llvm::zip_equal(points, values)) {
      variables = point.variables;
      for (auto [op, value] : llvm::zip_equal(fullStores, ofPoint))
        store(op, value);
    }
  };
  auto emitEach = [&] {
    for (int64_t i = 0; i < schedule.vectors; ++i)
      ifThen(isLess(numberAt(i), constant(all)),
             [&] { emitVector(numberAt(i)); });
  };
  if (hasRests)
    return emitEach();
  if (all % ofBlock == 0)
    return emitAll();
  Value isWhole = isLess(multiply(block, ofBlock), constant(all - ofBlock + 1));
  auto conditional = scf::IfOp::create(b, isWhole, /*withElseRegion=*/true);
  b.setInsertionPointToStart(conditional.thenBlock());
  Scope whole, rest;
  inScope(whole, emitAll);
  b.setInsertionPointToStart(conditional.elseBlock());
  inScope(rest, emitEach);
  b.setInsertionPointAfter(conditional);
}
