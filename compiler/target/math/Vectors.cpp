// Helpers that build constants and functions on scalars or vectors.

#include "compiler/target/math/Vectors.h"

#include "compiler/target/math/Formula.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;

Type target::likeType(Type type, Type like) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), type);
  return type;
}

static Value makeSplat(ImplicitLocOpBuilder &builder, Type type,
                       TypedAttr scalar) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(builder,
                                     DenseElementsAttr::get(vector, scalar));
  return arith::ConstantOp::create(builder, scalar);
}

Value target::makeConstant(ImplicitLocOpBuilder &builder, Type type,
                           double value) {
  return makeSplat(builder, type,
                   builder.getFloatAttr(getElementTypeOrSelf(type), value));
}

Value target::makeInteger(ImplicitLocOpBuilder &builder, Type type,
                          int64_t value) {
  return makeSplat(builder, type,
                   builder.getIntegerAttr(getElementTypeOrSelf(type), value));
}

/// Implements Philox-4x32-10 (Salmon et al., Parallel Random Numbers: As Easy
/// as 1, 2, 3, 2011).
Value target::emitPhilox(ImplicitLocOpBuilder &b, int64_t id, Value index,
                         Value seed, Value step, Value microbatch) {
  Type wide = index.getType(), narrow = likeType(b.getI32Type(), wide);
  Integers i64{b, wide}, i32{b, narrow};
  auto low = [&](Value x) -> Value {
    return arith::TruncIOp::create(b, narrow, x);
  };
  uint64_t spread = static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15;
  Value key = i64.lxor(seed, i64.c(static_cast<int64_t>(spread)));
  Value k0 = low(key), k1 = low(i64.shr(key, 32));
  Value c0 = low(index), c1 = low(i64.shr(index, 32));
  Value c2 = low(step), c3 = low(microbatch);
  auto product = [&](Value x, uint32_t factor) {
    return i64.mul(arith::ExtUIOp::create(b, wide, x),
                   i64.c(static_cast<int64_t>(factor)));
  };
  for (int round = 0; round < 10; ++round) {
    Value p0 = product(c0, 0xD2511F53), p1 = product(c2, 0xCD9E8D57);
    c0 = i32.lxor(i32.lxor(low(i64.shr(p1, 32)), c1), k0);
    c2 = i32.lxor(i32.lxor(low(i64.shr(p0, 32)), c3), k1);
    c1 = low(p1);
    c3 = low(p0);
    k0 = i32.add(k0, i32.c(static_cast<int32_t>(0x9E3779B9)));
    k1 = i32.add(k1, i32.c(static_cast<int32_t>(0xBB67AE85)));
  }
  return c0;
}

Value target::emitWidened(ImplicitLocOpBuilder &builder, Value value,
                          Type type) {
  Type wide = likeType(type, value.getType());
  return value.getType() == wide
             ? value
             : Value(arith::ExtFOp::create(builder, wide, value));
}

Value target::emitCombine(ImplicitLocOpBuilder &b, sharding::ReductionKind kind,
                          Value x, Value y) {
  Type element = getElementTypeOrSelf(x.getType());
  bool isFloat = isa<FloatType>(element), isBoolean = element.isInteger(1);
  switch (kind) {
  case sharding::ReductionKind::Sum:
    return isFloat ? Value(arith::AddFOp::create(b, x, y))
                   : Value(arith::AddIOp::create(b, x, y));
  case sharding::ReductionKind::Max:
    return isFloat     ? Value(arith::MaximumFOp::create(b, x, y))
           : isBoolean ? Value(arith::OrIOp::create(b, x, y))
                       : Value(arith::MaxSIOp::create(b, x, y));
  case sharding::ReductionKind::Min:
    return isFloat     ? Value(arith::MinimumFOp::create(b, x, y))
           : isBoolean ? Value(arith::AndIOp::create(b, x, y))
                       : Value(arith::MinSIOp::create(b, x, y));
  }
  llvm_unreachable("covered switch");
}

Value target::emitIdentity(ImplicitLocOpBuilder &builder,
                           sharding::ReductionKind kind, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element))
    return makeConstant(builder, type,
                        sharding::fillValue(sharding::identityFill(kind)));
  unsigned width = element.getIntOrFloatBitWidth();
  if (kind == sharding::ReductionKind::Sum)
    return makeInteger(builder, type, 0);
  bool isMax = kind == sharding::ReductionKind::Max;
  if (width == 1)
    return makeInteger(builder, type, isMax ? 0 : 1);
  return makeInteger(builder, type,
                     isMax ? llvm::minIntN(width) : llvm::maxIntN(width));
}
