// Expands the functions of `math`, and what machines lack of floats of 16 bits,
// into arithmetic on scalars, or on vectors lane by lane with
// the same bits. Functions of f32 are within 2 ulp (each says how far).
//
// Polynomials are those of S. Moshier's Cephes library (single precision: exp,
// log, tanh), N. Juffa's erff, and Taylor series in double precision for sin,
// cos and pow of floats. Integer tricks replace conversions, whose result is
// undefined for NaN: adding 1.5 * 2^23 leaves the rounded integer in the low
// bits of a float.

#include "compiler/target/math/ExpandMath.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/target/math/Formula.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;

namespace {
/// The differences between single and double precision.
struct Format {
  Type integer;
  int mantissa;
  int64_t bias;
  /// 1.5 * 2^mantissa, and its bits.
  double magic;
  int64_t magicBits;
};

} // namespace

static Format formatOf(const Formula &f) {
  MLIRContext *context = f.type.getContext();
  if (getElementTypeOrSelf(f.type).isF64())
    return {f.as(IntegerType::get(context, 64)), 52, 1023, 0x1.8p52,
            llvm::bit_cast<int64_t>(0x1.8p52)};
  return {f.as(IntegerType::get(context, 32)), 23, 127, 0x1.8p23,
          llvm::bit_cast<int32_t>(0x1.8p23f)};
}

/// x rounded to an integer, as a float and as an integer; |x| < 2^22 (2^51).
static std::pair<Value, Value> nearest(Formula &f, Value x, Value factor) {
  Format format = formatOf(f);
  Integers i{f.b, format.integer};
  Value shifted = f.fma(x, factor, f.c(format.magic));
  Value integer = i.sub(f.bits(shifted, format.integer), i.c(format.magicBits));
  return {f.sub(shifted, f.c(format.magic)), integer};
}

/// x * 2^n; n is applied in two halves, since 2^n itself may overflow.
static Value scaleByPower(Formula &f, Value x, Value n) {
  Format format = formatOf(f);
  Integers i{f.b, format.integer};
  auto power = [&](Value exponent) {
    return f.bits(i.shl(i.add(exponent, i.c(format.bias)), format.mantissa),
                  f.type);
  };
  Value half = i.sar(n, 1);
  return f.mul(f.mul(x, power(half)), power(i.sub(n, half)));
}

/// Cephes expf; in double precision the Taylor series. Within 1 ulp.
static Value emitExp(Formula &f, Value x) {
  bool isDouble = getElementTypeOrSelf(f.type).isF64();
  x = isDouble ? f.clamp(x, -746, 710) : f.clamp(x, -104, 89);
  auto [whole, n] = nearest(f, x, f.c(std::numbers::log2e));
  if (isDouble) {
    Value r = f.fma(whole, f.c(-0x1.62e42fefa39efp-1), x);
    r = f.fma(whole, f.c(-0x1.abc9e3b39803fp-56), r);
    Value p =
        f.polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800,
                         1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                         1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1});
    return scaleByPower(f, p, n);
  }
  Value r = f.fma(whole, f.c(-0.693359375), x);
  r = f.fma(whole, f.c(2.12194440e-4), r);
  Value p =
      f.polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
                       4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  p = f.add(f.fma(p, f.mul(r, r), r), f.c(1));
  return scaleByPower(f, p, n);
}

/// Cephes logf; in double precision 2 atanh((m - 1) / (m + 1)). Within 1 ulp.
static Value emitLog(Formula &f, Value x) {
  bool isDouble = getElementTypeOrSelf(f.type).isF64();
  Format format = formatOf(f);
  Integers i{f.b, format.integer};
  double smallest = isDouble ? 0x1p-1022 : 0x1p-126;
  Value isSmall = f.less(x, f.c(smallest));
  Value normal =
      f.select(isSmall, f.mul(x, f.c(isDouble ? 0x1p52 : 0x1p23)), x);
  // x = m * 2^n with m in [sqrt(1/2), sqrt(2)).
  int64_t root = isDouble ? 0x3FE6A09E667F3BCD : 0x3F3504F3;
  Value shifted = i.sub(f.bits(normal, format.integer), i.c(root));
  Value n = i.sar(shifted, format.mantissa);
  Value m =
      f.bits(i.add(i.land(shifted, i.c((int64_t(1) << format.mantissa) - 1)),
                   i.c(root)),
             f.type);
  Value exponent = arith::SIToFPOp::create(f.b, f.type, n);
  exponent = f.sub(exponent, f.select(isSmall, f.c(format.mantissa), f.c(0)));
  Value r = f.sub(m, f.c(1));
  Value result;
  if (isDouble) {
    Value s = f.div(r, f.add(m, f.c(1)));
    Value z = f.mul(s, s);
    Value p = f.polynomial(z, {2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15,
                               2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5,
                               2.0 / 3});
    Value low =
        f.fma(exponent, f.c(0x1.abc9e3b39803fp-56), f.mul(f.mul(s, z), p));
    // log(1 + r) = r - s r + (..): exact where the leading term is small.
    Value half = f.sub(r, f.mul(s, r));
    result = f.fma(exponent, f.c(0x1.62e42fefa39efp-1), f.add(half, low));
  } else {
    Value z = f.mul(r, r);
    Value p =
        f.polynomial(r, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1,
                         -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                         2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    Value y = f.mul(f.mul(r, z), p);
    y = f.fma(exponent, f.c(-2.12194440e-4), y);
    y = f.fma(z, f.c(-0.5), y);
    result = f.fma(exponent, f.c(0.693359375), f.add(r, y));
  }
  double infinity = std::numeric_limits<double>::infinity();
  result = f.select(f.equal(x, f.c(infinity)), x, result);
  result = f.select(f.equal(x, f.c(0)), f.c(-infinity), result);
  Value valid =
      arith::CmpFOp::create(f.b, arith::CmpFPredicate::OGE, x, f.c(0));
  return f.select(valid, result, f.c(std::nan("")));
}

/// Cephes tanhf. Within 2 ulp.
static Value emitTanh(Formula &f, Value x) {
  Value magnitude = f.abs(x);
  Value power = emitExp(f, f.add(magnitude, magnitude));
  Value large =
      f.copySign(f.sub(f.c(1), f.div(f.c(2), f.add(power, f.c(1)))), x);
  Value z = f.mul(x, x);
  Value p =
      f.polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                       1.33314422036e-1, -3.33332819422e-1});
  Value small = f.fma(f.mul(p, z), x, x);
  return f.select(f.less(magnitude, f.c(0.625)), small,
                  f.select(f.equal(x, x), large, x));
}

/// N. Juffa's erff: within 1 ulp.
static Value emitErf(Formula &f, Value x) {
  Value t = f.abs(x), s = f.mul(x, x);
  Value r = f.fma(f.c(-0x1.220000p-16), t, f.c(0x1.91cfb2p-12));
  Value u = f.fma(f.c(-0x1.fd1438p-9), t, f.c(0x1.8d6342p-6));
  r = f.fma(r, s, u);
  r = f.fma(r, t, f.c(-0x1.b55cb8p-4));
  r = f.fma(r, t, f.c(-0x1.450aa0p-1));
  r = f.fma(r, t, f.c(-0x1.079d0cp-3));
  r = f.fma(r, t, f.neg(t));
  Value large = f.copySign(f.sub(f.c(1), emitExp(f, r)), x);
  Value p = f.polynomial(s, {-0x1.38e000p-11, 0x1.471a58p-8, -0x1.b691b2p-6,
                             0x1.ce1c44p-4, -0x1.812700p-2, 0x1.06eba8p-3});
  Value small = f.fma(p, x, x);
  return f.select(f.less(f.c(0.927734375), t), large, small);
}

/// sin(x + quarter pi/2) in double precision; |x| < 2^31.
static Value emitShiftedSine(Formula &f, Value x, int64_t quarter) {
  Format format = formatOf(f);
  Integers i{f.b, format.integer};
  auto [n, quadrant] = nearest(f, x, f.c(2 / std::numbers::pi));
  Value r = f.fma(n, f.c(-0x1.921fb54442d18p0), x);
  r = f.fma(n, f.c(-0x1.1a62633145c07p-54), r);
  Value z = f.mul(r, r);
  Value sine = f.fma(
      f.mul(r, z),
      f.polynomial(z, {-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                       1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6}),
      r);
  Value cosine = f.polynomial(z, {1.0 / 20922789888000, -1.0 / 87178291200,
                                  1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
                                  -1.0 / 720, 1.0 / 24, -0.5, 1});
  quadrant = i.add(quadrant, i.c(quarter));
  Value isOdd =
      i.compare(arith::CmpIPredicate::ne, i.land(quadrant, i.c(1)), i.c(0));
  Value isNegative =
      i.compare(arith::CmpIPredicate::ne, i.land(quadrant, i.c(2)), i.c(0));
  Value result = f.select(isOdd, cosine, sine);
  return f.select(isNegative, f.neg(result), result);
}

static Value emitSine(Formula &f, Value x) { return emitShiftedSine(f, x, 0); }
static Value emitCosine(Formula &f, Value x) {
  return emitShiftedSine(f, x, 1);
}

/// Cephes atan in double precision.
static Value emitArcTangent(Formula &f, Value x) {
  Value t = f.abs(x);
  Value isLarge = f.less(f.c(2.41421356237309504880), t),
        isMiddle = f.less(f.c(0.66), t);
  // atan(t) = pi/2 - atan(1/t) = pi/4 + atan((t - 1) / (t + 1)). Infinity
  // counts as large.
  Value r = f.select(
      isLarge, f.div(f.c(-1), t),
      f.select(isMiddle, f.div(f.sub(t, f.c(1)), f.add(t, f.c(1))), t));
  Value start = f.select(isLarge, f.c(std::numbers::pi / 2),
                         f.select(isMiddle, f.c(std::numbers::pi / 4), f.c(0)));
  Value z = f.mul(r, r);
  Value p =
      f.polynomial(z, {-8.750608600031904122785e-1, -1.615753718733365076637e1,
                       -7.500855792314704667340e1, -1.228866684490136173410e2,
                       -6.485021904942025371773e1});
  Value q =
      f.polynomial(z, {1, 2.485846490142306297962e1, 1.650270098316988542046e2,
                       4.328810604912902668951e2, 4.853903996359136964868e2,
                       1.945506571482613964425e2});
  Value small = f.fma(f.mul(r, z), f.div(p, q), r);
  return f.copySign(f.add(start, small), x);
}

/// sqrt((1 - x)(1 + x)), a form that keeps its digits near 1: NaN outside of
/// [-1, 1].
static Value emitRootBelowOne(Formula &f, Value x) {
  return math::SqrtOp::create(f.b, f.mul(f.sub(f.c(1), x), f.add(f.c(1), x)));
}

static Value emitArcSine(Formula &f, Value x) {
  return emitArcTangent(f, f.div(x, emitRootBelowOne(f, x)));
}

/// 2 atan(sqrt((1 - x) / (1 + x))), which is exact near 1.
static Value emitArcCosine(Formula &f, Value x) {
  Value root =
      math::SqrtOp::create(f.b, f.div(f.sub(f.c(1), x), f.add(f.c(1), x)));
  return f.mul(f.c(2), emitArcTangent(f, root));
}

/// The series of asinh or atanh near 0, where a logarithm has no digits left:
/// x + x^3 p(x^2).
static Value emitNearZero(Formula &f, Value x, Value elsewhere,
                          std::initializer_list<double> coefficients) {
  Value z = f.mul(x, x);
  Value near = f.fma(f.mul(x, z), f.polynomial(z, coefficients), x);
  return f.select(f.less(f.abs(x), f.c(0.02)), near, elsewhere);
}

/// log(|x| + sqrt(x^2 + 1)) with x's sign.
static Value emitAreaSine(Formula &f, Value x) {
  Value t = f.abs(x);
  Value root = math::SqrtOp::create(f.b, f.fma(t, t, f.c(1)));
  return emitNearZero(f, x, f.copySign(emitLog(f, f.add(t, root)), x),
                      {35.0 / 1152, -5.0 / 112, 3.0 / 40, -1.0 / 6});
}

/// log(x + sqrt((x - 1)(x + 1))); NaN below 1.
static Value emitAreaCosine(Formula &f, Value x) {
  Value below = f.sub(x, f.c(1));
  Value root = math::SqrtOp::create(f.b, f.mul(below, f.add(x, f.c(1))));
  Value result = emitLog(f, f.add(x, root));
  return f.select(f.less(below, f.c(0)), f.c(std::nan("")), result);
}

/// log((1 + x) / (1 - x)) / 2.
static Value emitAreaTangent(Formula &f, Value x) {
  Value quotient = f.div(f.add(f.c(1), x), f.sub(f.c(1), x));
  return emitNearZero(f, x, f.mul(f.c(0.5), emitLog(f, quotient)),
                      {1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3});
}

/// x^y = exp(y log |x|) in double precision, C's pow for signs and zeros.
static Value emitPower(Formula &f, Value x, Value y) {
  Value magnitude = emitExp(f, f.mul(y, emitLog(f, f.abs(x))));
  Value half = f.mul(y, f.c(0.5));
  Value isInteger = f.equal(math::FloorOp::create(f.b, y), y);
  Value isEven = f.equal(math::FloorOp::create(f.b, half), half);
  Value isNegative = f.less(x, f.c(0));
  Value negative =
      f.select(isEven, magnitude,
               f.select(isInteger, f.neg(magnitude), f.c(std::nan(""))));
  Value result = f.select(isNegative, negative, magnitude);
  auto either = [&](Value a, Value b) {
    return arith::OrIOp::create(f.b, a, b);
  };
  Value isEndless =
      f.equal(f.abs(y), f.c(std::numeric_limits<double>::infinity()));
  Value isOne =
      either(either(f.equal(y, f.c(0)), f.equal(x, f.c(1))),
             arith::AndIOp::create(f.b, f.equal(x, f.c(-1)), isEndless));
  return f.select(isOne, f.c(1), result);
}

/// The result of `formula` on operands widened to double precision.
template <typename Build>
static Value inDouble(Formula &f, ValueRange operands, Build build) {
  Formula wide(f.b, f.as(f.b.getF64Type()));
  if (wide.type == f.type)
    return build(wide, operands);
  SmallVector<Value> widened;
  for (Value operand : operands)
    widened.push_back(arith::ExtFOp::create(f.b, wide.type, operand));
  return arith::TruncFOp::create(f.b, f.type, build(wide, widened));
}

/// x^y by squaring, like the reference. For a negative y only 1 and -1 give a
/// nonzero result.
static Value emitIntegerPower(Integers &i, Value x, Value y) {
  Value result = i.c(1), zero = i.c(0);
  auto equals = [&](Value a, int64_t b) -> Value {
    return i.compare(arith::CmpIPredicate::eq, a, i.c(b));
  };
  Value isUnit = arith::OrIOp::create(i.b, equals(x, 1), equals(x, -1));
  Value isInverse = i.compare(arith::CmpIPredicate::slt, y, zero);
  Value vanishes = arith::AndIOp::create(
      i.b, isInverse,
      arith::SelectOp::create(i.b, isUnit, equals(zero, 1), equals(zero, 0)));
  y = arith::MaxSIOp::create(i.b, y, i.sub(zero, y));
  unsigned width = getElementTypeOrSelf(i.type).getIntOrFloatBitWidth();
  for (unsigned bit = 0; bit + 1 < width; ++bit) {
    Value isSet = i.compare(arith::CmpIPredicate::ne, i.land(y, i.c(1)), zero);
    result = arith::SelectOp::create(i.b, isSet, i.mul(result, x), result);
    x = i.mul(x, x);
    y = i.shr(y, 1);
  }
  return arith::SelectOp::create(i.b, vanishes, zero, result);
}

/// f32 to bf16, to nearest even, with the bits of `bfloat16FromFloat`
/// (support/Float16.h). Instructions for it differ by machine: some make
/// denormals 0.
static Value emitToBFloat16(ImplicitLocOpBuilder &b, Value x) {
  Integers i32{b, likeType(b.getI32Type(), x.getType())};
  Value bits = arith::BitcastOp::create(b, i32.type, x);
  Value isOdd = i32.land(i32.shr(bits, 16), i32.c(1));
  Value rounded = i32.shr(i32.add(i32.add(bits, i32.c(0x7fff)), isOdd), 16);
  Value isNan =
      i32.compare(arith::CmpIPredicate::sgt, i32.land(bits, i32.c(0x7fffffff)),
                  i32.c(0x7f800000));
  Value quiet = arith::OrIOp::create(b, i32.shr(bits, 16), i32.c(0x40));
  Value low = arith::TruncIOp::create(
      b, likeType(b.getI16Type(), x.getType()),
      arith::SelectOp::create(b, isNan, quiet, rounded));
  return arith::BitcastOp::create(b, likeType(b.getBF16Type(), x.getType()),
                                  low);
}

/// f32 to f16 by integers: LLVM makes one conversion of two, from f64 and to
/// f16, where it finds the first to be exact, and calls a function for it.
static Value emitToFloat16(ImplicitLocOpBuilder &b, Value x) {
  Integers i32{b, likeType(b.getI32Type(), x.getType())};
  Value bits = arith::BitcastOp::create(b, i32.type, x);
  Value sign = i32.land(i32.shr(bits, 16), i32.c(0x8000));
  Value size = i32.land(bits, i32.c(0x7fffffff));
  Value isOdd = i32.land(i32.shr(size, 13), i32.c(1));
  Value result =
      i32.shr(i32.add(i32.add(size, i32.c(0xfff - (112 << 23))), isOdd), 13);
  // Below 2^-14 a multiple of 2^-24, to which the sum with 0.5 is rounded.
  Value half = i32.c(0x3f000000);
  Value sum =
      arith::AddFOp::create(b, arith::BitcastOp::create(b, x.getType(), size),
                            arith::BitcastOp::create(b, x.getType(), half));
  Value small =
      i32.add(arith::BitcastOp::create(b, i32.type, sum), i32.c(-0x3f000000));
  auto choose = [&](arith::CmpIPredicate predicate, int64_t limit,
                    Value chosen) {
    result = arith::SelectOp::create(
        b, i32.compare(predicate, size, i32.c(limit)), chosen, result);
  };
  choose(arith::CmpIPredicate::slt, 0x38800000, small);
  choose(arith::CmpIPredicate::sge, 0x477ff000, i32.c(0x7c00));
  Value payload = i32.land(i32.shr(size, 13), i32.c(0x3ff));
  choose(arith::CmpIPredicate::sgt, 0x7f800000,
         arith::OrIOp::create(b, payload, i32.c(0x7e00)));
  Value low = arith::TruncIOp::create(b, likeType(b.getI16Type(), x.getType()),
                                      arith::OrIOp::create(b, result, sign));
  return arith::BitcastOp::create(b, likeType(b.getF16Type(), x.getType()),
                                  low);
}

/// f64 to a float that gives, when it is rounded to fewer digits, what rounding
/// x itself gives: the last of its digits is 1 if x has any further digits
/// (Boldo, Melquiond, Emulation of FMA and correctly rounded sums, 2008). This
/// holds for x of at least 2^-126.
static Value emitToOdd(ImplicitLocOpBuilder &b, Value x) {
  constexpr int64_t last = int64_t(1) << 29; // of the digits of a float
  Integers i64{b, likeType(b.getI64Type(), x.getType())};
  Value bits = arith::BitcastOp::create(b, i64.type, x);
  Value hasRest = i64.compare(arith::CmpIPredicate::ne,
                              i64.land(bits, i64.c(last - 1)), i64.c(0));
  Value odd = arith::OrIOp::create(
      b, i64.land(bits, i64.c(-last)),
      arith::SelectOp::create(b, hasRest, i64.c(last), i64.c(0)));
  return arith::TruncFOp::create(b, likeType(b.getF32Type(), x.getType()),
                                 arith::BitcastOp::create(b, x.getType(), odd));
}

// Patterns

namespace {

/// Rounding to bf16, and from f64 to f16, at once or by way of f32, for which
/// LLVM would call functions that kernels do not have.
struct ExpandNarrowing : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type type = getElementTypeOrSelf(op.getType());
    bool isDouble = getElementTypeOrSelf(op.getIn()).isF64();
    auto single = op.getIn().getDefiningOp<arith::TruncFOp>();
    bool wasDouble =
        isDouble || (single && getElementTypeOrSelf(single.getIn()).isF64());
    if (!type.isBF16() && !(type.isF16() && wasDouble))
      return failure();
    ImplicitLocOpBuilder builder(op.getLoc(), rewriter);
    Value x = isDouble ? emitToOdd(builder, op.getIn()) : op.getIn();
    rewriter.replaceOp(op, type.isBF16() ? emitToBFloat16(builder, x)
                                         : emitToFloat16(builder, x));
    return success();
  }
};

/// The value's bits as integers, and back.
Value asIntegers(ImplicitLocOpBuilder &b, Value x) {
  return arith::BitcastOp::create(b, likeType(b.getI16Type(), x.getType()), x);
}

/// A bf16 is the upper half of an f32.
struct ExpandFromBFloat16 : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getIn()).isBF16())
      return failure();
    ImplicitLocOpBuilder builder(op.getLoc(), rewriter);
    Integers i32{builder, likeType(builder.getI32Type(), op.getType())};
    Value low = arith::ExtUIOp::create(builder, i32.type,
                                       asIntegers(builder, op.getIn()));
    Type single = likeType(builder.getF32Type(), op.getType());
    Value wide = arith::BitcastOp::create(builder, single, i32.shl(low, 16));
    rewriter.replaceOp(
        op, single == op.getType()
                ? wide
                : arith::ExtFOp::create(builder, op.getType(), wide));
    return success();
  }
};

/// LLVM selects floats of 16 bits as f32 where a machine has no vectors of
/// them, and rounds what it has selected by functions that kernels do not have.
struct ExpandNarrowSelect : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SelectOp op,
                                PatternRewriter &rewriter) const override {
    Type type = getElementTypeOrSelf(op.getType());
    if (!type.isBF16() && !type.isF16())
      return failure();
    ImplicitLocOpBuilder builder(op.getLoc(), rewriter);
    Value bits = arith::SelectOp::create(
        builder, op.getCondition(), asIntegers(builder, op.getTrueValue()),
        asIntegers(builder, op.getFalseValue()));
    rewriter.replaceOp(op,
                       arith::BitcastOp::create(builder, op.getType(), bits));
    return success();
  }
};

/// Replaces an op of floats by a formula.
template <typename Op>
struct ExpandFloat : OpRewritePattern<Op> {
  using Build = Value (*)(Formula &, ValueRange);
  ExpandFloat(MLIRContext *context, Build build)
      : OpRewritePattern<Op>(context), build(build) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder builder(op.getLoc(), rewriter);
    Formula formula(builder, op.getType());
    rewriter.replaceOp(op, build(formula, op->getOperands()));
    return success();
  }

private:
  Build build;
};

struct ExpandIntegerPower : OpRewritePattern<math::IPowIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::IPowIOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder builder(op.getLoc(), rewriter);
    Integers integers{builder, op.getType()};
    rewriter.replaceOp(op,
                       emitIntegerPower(integers, op.getLhs(), op.getRhs()));
    return success();
  }
};

/// `formula` of the first operand, in double precision.
template <Value (*formula)(Formula &, Value)>
Value widened(Formula &f, ValueRange operands) {
  return inDouble(f, operands, [](Formula &f, ValueRange operands) {
    return formula(f, operands[0]);
  });
}
/// `formula` of the first operand.
template <Value (*formula)(Formula &, Value)>
Value direct(Formula &f, ValueRange operands) {
  return formula(f, operands[0]);
}

} // namespace

void target::populateMathExpansions(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  patterns.add<ExpandFloat<math::ExpOp>>(context, direct<emitExp>);
  patterns.add<ExpandFloat<math::LogOp>>(context, direct<emitLog>);
  patterns.add<ExpandFloat<math::TanhOp>>(context, direct<emitTanh>);
  patterns.add<ExpandFloat<math::ErfOp>>(context, direct<emitErf>);
  patterns.add<ExpandFloat<math::SinOp>>(context, widened<emitSine>);
  patterns.add<ExpandFloat<math::CosOp>>(context, widened<emitCosine>);
  patterns.add<ExpandFloat<math::AtanOp>>(context, widened<emitArcTangent>);
  patterns.add<ExpandFloat<math::AsinOp>>(context, widened<emitArcSine>);
  patterns.add<ExpandFloat<math::AcosOp>>(context, widened<emitArcCosine>);
  patterns.add<ExpandFloat<math::AsinhOp>>(context, widened<emitAreaSine>);
  patterns.add<ExpandFloat<math::AcoshOp>>(context, widened<emitAreaCosine>);
  patterns.add<ExpandFloat<math::AtanhOp>>(context, widened<emitAreaTangent>);
  patterns.add<ExpandFloat<math::PowFOp>>(
      context, +[](Formula &f, ValueRange operands) {
        return inDouble(f, operands, [](Formula &f, ValueRange operands) {
          return emitPower(f, operands[0], operands[1]);
        });
      });
  patterns.add<ExpandIntegerPower, ExpandNarrowing, ExpandFromBFloat16,
               ExpandNarrowSelect>(context);
}

bool target::hasCode(Operation *op) {
  if (!isa<math::MathDialect>(op->getDialect()))
    return true;
  Type type = op->getOperand(0).getType();
  return TypeSwitch<Operation *, bool>(op)
      .Case<math::TanhOp, math::ErfOp>([&](auto) { return !type.isF64(); })
      .Case<math::ExpOp, math::LogOp, math::SqrtOp, math::SinOp, math::CosOp,
            math::AtanOp, math::AsinOp, math::AcosOp, math::AsinhOp,
            math::AcoshOp, math::AtanhOp, math::PowFOp, math::IPowIOp,
            math::AbsFOp, math::FloorOp>([](auto) { return true; })
      .Default(false);
}
