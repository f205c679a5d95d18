// Ops of `arith` and `math` on elements, in the elements' own types.
//
// This file is compiled without contraction, so that each operation rounds.

#include "test/compiler/target/schedule/EvaluateElement.h"

#include <bit>
#include <cmath>
#include <limits>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "support/Float16.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;

unsigned target::getElementBytes(Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

uint64_t target::wrap(Type type, uint64_t value) {
  unsigned width = type.getIntOrFloatBitWidth();
  return width == 1 ? value & 1 : llvm::SignExtend64(value, width);
}

static float asFloat(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
static double asDouble(uint64_t bits) { return std::bit_cast<double>(bits); }
static uint64_t toBits(float value) { return std::bit_cast<uint32_t>(value); }
static uint64_t toBits(double value) { return std::bit_cast<uint64_t>(value); }
/// The bits of an integer without its sign's extension.
static uint64_t withoutSign(Type type, uint64_t value) {
  return value & llvm::maskTrailingOnes<uint64_t>(type.getIntOrFloatBitWidth());
}

/// NaN if either is; -0 is less than 0.
template <typename Float>
static Float maximum(Float x, Float y) {
  if (std::isnan(x) || std::isnan(y))
    return std::numeric_limits<Float>::quiet_NaN();
  return x == y ? (std::signbit(x) ? y : x) : (x > y ? x : y);
}
template <typename Float>
static Float minimum(Float x, Float y) {
  return -maximum(-x, -y);
}

/// Calls `function` with the value, a float of 32 or 64 bits.
template <typename Function>
static auto onFloat(Type type, uint64_t bits, Function function) {
  return type.isF64() ? function(asDouble(bits)) : function(asFloat(bits));
}

uint64_t target::widen(Type from, Type to, uint64_t bits) {
  if (from == to)
    return bits;
  float single = from.isBF16()  ? floatFromBFloat16(bits)
                 : from.isF16() ? floatFromFloat16(bits)
                                : asFloat(bits);
  return to.isF64() ? toBits(static_cast<double>(single)) : toBits(single);
}

uint64_t target::combine(sharding::ReductionKind kind, Type type, uint64_t x,
                         uint64_t y) {
  using enum sharding::ReductionKind;
  auto number = [&](auto a, auto b) {
    return kind == Sum   ? toBits(a + b)
           : kind == Max ? toBits(maximum(a, b))
                         : toBits(minimum(a, b));
  };
  if (type.isF64())
    return number(asDouble(x), asDouble(y));
  if (type.isF32())
    return number(asFloat(x), asFloat(y));
  int64_t a = static_cast<int64_t>(x), b = static_cast<int64_t>(y);
  return kind == Sum   ? wrap(type, x + y)
         : kind == Max ? std::max(a, b)
                       : std::min(a, b);
}

uint64_t target::getIdentity(sharding::ReductionKind kind, Type type) {
  using enum sharding::ReductionKind;
  if (kind == Sum)
    return 0;
  if (isa<FloatType>(type)) {
    double infinity = std::numeric_limits<double>::infinity();
    double least = kind == Max ? -infinity : infinity;
    return type.isF64() ? toBits(least) : toBits(static_cast<float>(least));
  }
  unsigned width = type.getIntOrFloatBitWidth();
  if (width == 1)
    return kind == Min;
  return kind == Max ? llvm::minIntN(width) : llvm::maxIntN(width);
}

namespace {
/// One op at all points.
class ElementOp {
public:
  ElementOp(Operation *op, ArrayRef<const Column *> operands, Column &result)
      : op(op), operands(operands), result(result),
        type(op->getResult(0).getType()) {
    if (op->getNumOperands())
      from = op->getOperand(0).getType();
  }

  LogicalResult evaluate();

private:
  uint64_t in(size_t operand, size_t i) const {
    return (*operands[operand])[i];
  }

  /// `function` of the bits of one, two or three operands.
  template <typename Function>
  LogicalResult each(Function function) {
    for (size_t i = 0; i < result.size(); ++i) {
      if constexpr (std::is_invocable_v<Function, uint64_t>)
        result[i] = function(in(0, i));
      else if constexpr (std::is_invocable_v<Function, uint64_t, uint64_t>)
        result[i] = function(in(0, i), in(1, i));
      else
        result[i] = function(in(0, i), in(1, i), in(2, i));
    }
    return success();
  }
  /// `function` of floats of the operands' type.
  template <typename Function>
  LogicalResult floats(Function function) {
    auto run = [&](auto as) {
      using Float = decltype(as(0));
      if constexpr (std::is_invocable_v<Function, Float>)
        return each([&](uint64_t x) { return toBits(function(as(x))); });
      else if constexpr (std::is_invocable_v<Function, Float, Float>)
        return each([&](uint64_t x, uint64_t y) {
          return toBits(function(as(x), as(y)));
        });
      else
        return each([&](uint64_t x, uint64_t y, uint64_t z) {
          return toBits(function(as(x), as(y), as(z)));
        });
    };
    if (from.isF64())
      return run(asDouble);
    if (from.isF32())
      return run(asFloat);
    return op->emitOpError("computes with ") << from << ", which is only moved";
  }
  template <typename Function>
  LogicalResult integers(Function function) {
    return each([&](uint64_t x, uint64_t y) {
      return wrap(type,
                  function(static_cast<int64_t>(x), static_cast<int64_t>(y)));
    });
  }
  /// A shift of the bits by fewer than there are.
  template <typename Function>
  LogicalResult shifts(Function function) {
    return each([&](uint64_t x, uint64_t y) {
      unsigned width = type.getIntOrFloatBitWidth();
      return y < width ? wrap(type, function(x, y)) : 0;
    });
  }
  uint64_t fromInteger(double value, float single) const {
    return type.isF64() ? toBits(value) : toBits(single);
  }
  uint64_t constantOf(TypedAttr value) const;
  uint64_t truncate(uint64_t bits) const;
  uint64_t toInteger(double value) const;

  Operation *op;
  ArrayRef<const Column *> operands;
  Column &result;
  Type type, from;
};
} // namespace

uint64_t ElementOp::constantOf(TypedAttr value) const {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValue().bitcastToAPInt().getZExtValue();
  return wrap(type, cast<IntegerAttr>(value).getValue().getZExtValue());
}

/// A float rounded once to fewer bits: f64 to f32, or f32 to 16 bits.
uint64_t ElementOp::truncate(uint64_t bits) const {
  return from.isF64()   ? toBits(static_cast<float>(asDouble(bits)))
         : type.isF16() ? float16FromFloat(asFloat(bits))
                        : bfloat16FromFloat(asFloat(bits));
}

/// What no integer holds is 0: kernels select another value for it.
uint64_t ElementOp::toInteger(double value) const {
  unsigned width = type.getIntOrFloatBitWidth();
  double limit = std::ldexp(1.0, width == 1 ? 1 : static_cast<int>(width) - 1);
  if (!(value > -limit - 1 && value < limit))
    return 0;
  return wrap(type, static_cast<int64_t>(value));
}

LogicalResult ElementOp::evaluate() {
  using namespace arith;
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ConstantOp op) {
        llvm::fill(result, constantOf(op.getValue()));
        return success();
      })
      .Case([&](NegFOp) { return floats([](auto x) { return -x; }); })
      .Case([&](math::AbsFOp) {
        return floats([](auto x) { return std::abs(x); });
      })
      .Case([&](math::SqrtOp) {
        return floats([](auto x) { return std::sqrt(x); });
      })
      .Case([&](math::FloorOp) {
        return floats([](auto x) { return std::floor(x); });
      })
      .Case([&](math::CopySignOp) {
        return floats([](auto x, auto y) { return std::copysign(x, y); });
      })
      .Case([&](math::FmaOp) {
        return floats([](auto x, auto y, auto z) { return std::fma(x, y, z); });
      })
      .Case(
          [&](AddFOp) { return floats([](auto x, auto y) { return x + y; }); })
      .Case(
          [&](SubFOp) { return floats([](auto x, auto y) { return x - y; }); })
      .Case(
          [&](MulFOp) { return floats([](auto x, auto y) { return x * y; }); })
      .Case(
          [&](DivFOp) { return floats([](auto x, auto y) { return x / y; }); })
      .Case([&](MaximumFOp) {
        return floats([](auto x, auto y) { return maximum(x, y); });
      })
      .Case([&](MinimumFOp) {
        return floats([](auto x, auto y) { return minimum(x, y); });
      })
      .Case([&](ExtFOp) {
        return each([&](uint64_t x) { return widen(from, type, x); });
      })
      .Case([&](TruncFOp) -> LogicalResult {
        if (from.isF64() != type.isF32())
          return op->emitOpError("rounds ")
                 << from << " to " << type << " in one step";
        return each([&](uint64_t x) { return truncate(x); });
      })
      .Case([&](SIToFPOp) {
        return each([&](uint64_t x) {
          int64_t value = static_cast<int64_t>(x);
          if (from.isInteger(1)) // true is -1 as a signed integer
            value = -value;
          return fromInteger(static_cast<double>(value),
                             static_cast<float>(value));
        });
      })
      .Case([&](UIToFPOp) {
        return each([&](uint64_t x) {
          uint64_t value = withoutSign(from, x);
          return fromInteger(static_cast<double>(value),
                             static_cast<float>(value));
        });
      })
      .Case([&](FPToSIOp) {
        return each([&](uint64_t x) {
          return onFloat(from, x,
                         [&](double value) { return toInteger(value); });
        });
      })
      .Case([&](BitcastOp) {
        return each([&](uint64_t x) {
          return isa<FloatType>(type) ? withoutSign(from, x) : wrap(type, x);
        });
      })
      .Case([&](CmpFOp op) {
        return each([&](uint64_t x, uint64_t y) -> uint64_t {
          auto compare = [&](auto a) {
            return applyCmpPredicate(op.getPredicate(), llvm::APFloat(a(x)),
                                     llvm::APFloat(a(y)));
          };
          return from.isF64() ? compare(asDouble) : compare(asFloat);
        });
      })
      .Case([&](CmpIOp op) {
        unsigned width = from.getIntOrFloatBitWidth();
        return each([&](uint64_t x, uint64_t y) -> uint64_t {
          return applyCmpPredicate(op.getPredicate(),
                                   llvm::APInt(width, withoutSign(from, x)),
                                   llvm::APInt(width, withoutSign(from, y)));
        });
      })
      .Case([&](SelectOp) {
        return each([](uint64_t condition, uint64_t x, uint64_t y) {
          return condition ? x : y;
        });
      })
      .Case([&](AddIOp) {
        return integers([](uint64_t x, uint64_t y) { return x + y; });
      })
      .Case([&](SubIOp) {
        return integers([](uint64_t x, uint64_t y) { return x - y; });
      })
      .Case([&](MulIOp) {
        return integers([](uint64_t x, uint64_t y) { return x * y; });
      })
      // Kernels select another value where a quotient does not exist.
      .Case([&](DivSIOp) {
        return integers([](int64_t x, int64_t y) -> uint64_t {
          return y == 0 ? 0 : y == -1 ? -static_cast<uint64_t>(x) : x / y;
        });
      })
      .Case([&](RemSIOp) {
        return integers([](int64_t x, int64_t y) -> uint64_t {
          return y == 0 || y == -1 ? 0 : x % y;
        });
      })
      .Case([&](AndIOp) {
        return integers([](uint64_t x, uint64_t y) { return x & y; });
      })
      .Case([&](OrIOp) {
        return integers([](uint64_t x, uint64_t y) { return x | y; });
      })
      .Case([&](XOrIOp) {
        return integers([](uint64_t x, uint64_t y) { return x ^ y; });
      })
      .Case([&](MaxSIOp) {
        return integers([](int64_t x, int64_t y) { return std::max(x, y); });
      })
      .Case([&](MinSIOp) {
        return integers([](int64_t x, int64_t y) { return std::min(x, y); });
      })
      .Case([&](ShLIOp) {
        return shifts([](uint64_t x, uint64_t n) { return x << n; });
      })
      .Case([&](ShRUIOp) {
        return shifts(
            [&](uint64_t x, uint64_t n) { return withoutSign(type, x) >> n; });
      })
      .Case([&](ShRSIOp) {
        return shifts([](uint64_t x, uint64_t n) {
          return static_cast<int64_t>(x) >> n;
        });
      })
      .Case<ExtSIOp>([&](auto) {
        return each(
            [&](uint64_t x) { return from.isInteger(1) ? wrap(type, -x) : x; });
      })
      .Case<ExtUIOp>([&](auto) {
        return each(
            [&](uint64_t x) { return wrap(type, withoutSign(from, x)); });
      })
      .Case([&](TruncIOp) {
        return each([&](uint64_t x) { return wrap(type, x); });
      })
      .Default([](Operation *op) {
        return op->emitOpError("has no meaning in a scheduled kernel");
      });
}

LogicalResult target::evaluateElements(Operation *op,
                                       ArrayRef<const Column *> operands,
                                       Column &result) {
  return ElementOp(op, operands, result).evaluate();
}
