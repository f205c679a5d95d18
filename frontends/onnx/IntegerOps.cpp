// Imports ops on bits, and determines the integer types of results.

#include "frontends/emit/Functions.h"
#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

IntegerType heldTypeOf(MLIRContext *context, const Node &node,
                       ArrayRef<Imported> operands) {
  auto held = [&](size_t i) {
    return i < operands.size() ? operands[i].held : IntegerType();
  };
  auto attribute = [&](std::string_view name) -> const Attribute * {
    for (const Attribute &each : node.attributes)
      if (each.name == name)
        return &each;
    return nullptr;
  };
  auto known = [&](ElementType type) { return heldType(context, type); };
  if (node.type == "Cast")
    if (const Attribute *to = attribute("to"))
      return known(typeOfNumber(to->i));
  if (node.type == "Constant" || node.type == "ConstantOfShape") {
    const Attribute *value = attribute("value");
    return value && value->t ? known(value->t->type) : IntegerType();
  }
  if (node.type == "EyeLike")
    if (const Attribute *to = attribute("dtype"))
      return known(typeOfNumber(to->i));
  // Counts and indices have a fixed type.
  for (std::string_view type : {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"})
    if (node.type == type)
      return {};
  if (node.type == "CastLike" || node.type == "Where")
    return held(1);
  return held(node.type == "OneHot" ? 2 : 0);
}

namespace {

/// Two integer operands, broadcast to their common shape.
FailureOr<SmallVector<Imported>> integerPair(NodeImporter &n) {
  if (failed(n.need(2)))
    return failure();
  for (size_t i = 0; i < 2; ++i)
    if (!isa<IntegerType>(n.operand(i).getElementType()))
      return n.fail("bits of floats; convert them to integers");
  return n.broadcastOperands();
}

LogicalResult bitwiseAnd(NodeImporter &n) {
  auto operands = integerPair(n);
  if (failed(operands))
    return failure();
  n.result(0, n.emit.binary<graph::BitAndOp>((*operands)[0], (*operands)[1]));
  return success();
}

template <bool isXor>
LogicalResult bitwiseOr(NodeImporter &n) {
  auto operands = integerPair(n);
  if (failed(operands))
    return failure();
  n.result(0, bitOrOf(n.emit, (*operands)[0], (*operands)[1], isXor));
  return success();
}

/// -1 - x.
LogicalResult bitwiseNot(NodeImporter &n) {
  if (failed(n.need(1)))
    return failure();
  const Imported &x = n.operand(0);
  if (!isa<IntegerType>(x.getElementType()))
    return n.fail("bits of floats; convert them to integers");
  Imported ones = n.emit.broadcast(n.emit.scalar(x.getElementType(), -1),
                                   x.getShape(), !x.isConstant());
  n.result(0, n.emit.binary<graph::SubOp>(ones, x));
  return success();
}

/// x * 2^y or x / 2^y of unsigned integers; 0 if no bits are left.
LogicalResult bitShift(NodeImporter &n) {
  auto operands = integerPair(n);
  if (failed(operands))
    return failure();
  Imported x = (*operands)[0], y = (*operands)[1];
  IntegerType held = n.operand(0).held;
  bool isLeft = n.getString("direction", "") == "LEFT";
  if (!isLeft && n.getString("direction", "") != "RIGHT")
    return n.fail("its direction is neither LEFT nor RIGHT");
  Type type = x.getElementType();
  auto is = [&](const Imported &z, graph::Comparison comparison, double value) {
    return n.emit.binaryOver<graph::CompareOp>(z, n.emit.scalar(type, value),
                                               comparison);
  };
  auto power = [&](const Imported &exponent) {
    Imported two = n.emit.broadcast(n.emit.scalar(type, 2), x.getShape(),
                                    !exponent.isConstant());
    return n.emit.binary<graph::PowOp>(two, exponent);
  };
  Imported zero =
      n.emit.broadcast(n.emit.scalar(type, 0), x.getShape(), !x.isConstant());
  double bits = held ? held.getWidth() : 64;
  Imported isOut = is(y, graph::Comparison::GE, bits);
  if (isLeft) {
    n.result(0, n.emit.select(isOut, zero,
                              n.emit.binary<graph::MulOp>(x, power(y))));
    return success();
  }
  Imported shifted;
  if (isUint64(held)) {
    // First shifts by one: halves the value without its sign bit and restores
    // that bit one place lower. Then shifts by the rest.
    Imported isNegative = is(x, graph::Comparison::LT, 0);
    graph::Tensor lower(type, {});
    lower.integers[0] = std::numeric_limits<int64_t>::max();
    Imported rest = n.emit.binaryOver<graph::BitAndOp>(x, std::move(lower));
    Imported one = n.emit.scalar(type, 1);
    Imported less = n.emit.binaryOver<graph::SubOp>(y, one);
    Imported none = is(y, graph::Comparison::EQ, 0);
    Imported safe = n.emit.select(none, zero, less);
    graph::Tensor top(type, {});
    top.integers[0] = int64_t(1) << 62;
    Imported half =
        n.emit.binaryOver<graph::DivOp>(rest, n.emit.scalar(type, 2));
    half = n.emit.select(isNegative,
                         n.emit.binaryOver<graph::AddOp>(half, std::move(top)),
                         half);
    // 2^63 exceeds int64; but then the half, which has 63 bits, is shifted by
    // 63, which leaves nothing.
    shifted =
        n.emit.select(none, x, n.emit.binary<graph::DivOp>(half, power(safe)));
  } else {
    shifted = n.emit.binary<graph::DivOp>(x, power(y));
  }
  n.result(0, n.emit.select(isOut, zero, shifted));
  return success();
}

const OpRow rows[] = {
    {"", "BitwiseAnd", 18, bitwiseAnd},
    {"", "BitwiseOr", 18, bitwiseOr<false>},
    {"", "BitwiseXor", 18, bitwiseOr<true>},
    {"", "BitwiseNot", 18, bitwiseNot},
    {"", "BitShift", 11, bitShift},
};

} // namespace

ArrayRef<OpRow> getIntegerRows() { return rows; }

} // namespace polyrank::frontends::onnx
