// Arithmetic on scalars or vectors, written as formulas.

#pragma once

#include "compiler/target/math/Vectors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace polyrank::target {

/// Builds arithmetic on floats of one type. Every rounding is that of IEEE
/// arithmetic in the order written: nothing is contracted or reassociated.
struct Formula {
  mlir::ImplicitLocOpBuilder &b;
  mlir::Type type;

  Formula(mlir::ImplicitLocOpBuilder &b, mlir::Type type) : b(b), type(type) {}

  mlir::Type as(mlir::Type element) const { return likeType(element, type); }
  mlir::Value c(double value) { return makeConstant(b, type, value); }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddFOp::create(b, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubFOp::create(b, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return mlir::arith::MulFOp::create(b, x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return mlir::arith::DivFOp::create(b, x, y);
  }
  mlir::Value neg(mlir::Value x) { return mlir::arith::NegFOp::create(b, x); }
  mlir::Value abs(mlir::Value x) { return mlir::math::AbsFOp::create(b, x); }
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) {
    return mlir::math::FmaOp::create(b, x, y, z);
  }
  mlir::Value less(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b, mlir::arith::CmpFPredicate::OLT, x,
                                       y);
  }
  mlir::Value equal(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b, mlir::arith::CmpFPredicate::OEQ, x,
                                       y);
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, condition, x, y);
  }
  mlir::Value bits(mlir::Value x, mlir::Type to) {
    return mlir::arith::BitcastOp::create(b, to, x);
  }
  mlir::Value copySign(mlir::Value x, mlir::Value y) {
    return mlir::math::CopySignOp::create(b, x, y);
  }
  /// A polynomial by Horner's rule, coefficients from the highest power down.
  mlir::Value polynomial(mlir::Value x,
                         std::initializer_list<double> coefficients) {
    mlir::Value sum;
    for (double coefficient : coefficients)
      sum = sum ? fma(sum, x, c(coefficient)) : c(coefficient);
    return sum;
  }
  /// NaN stays NaN.
  mlir::Value clamp(mlir::Value x, double low, double high) {
    mlir::Value lower = c(low), upper = c(high);
    x = select(less(x, lower), lower, x);
    return select(less(upper, x), upper, x);
  }
};

/// The same for integers.
struct Integers {
  mlir::ImplicitLocOpBuilder &b;
  mlir::Type type;

  mlir::Value c(int64_t value) { return makeInteger(b, type, value); }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubIOp::create(b, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return mlir::arith::MulIOp::create(b, x, y);
  }
  mlir::Value land(mlir::Value x, mlir::Value y) {
    return mlir::arith::AndIOp::create(b, x, y);
  }
  mlir::Value lxor(mlir::Value x, mlir::Value y) {
    return mlir::arith::XOrIOp::create(b, x, y);
  }
  mlir::Value shl(mlir::Value x, int64_t n) {
    return mlir::arith::ShLIOp::create(b, x, c(n));
  }
  mlir::Value shr(mlir::Value x, int64_t n) {
    return mlir::arith::ShRUIOp::create(b, x, c(n));
  }
  mlir::Value sar(mlir::Value x, int64_t n) {
    return mlir::arith::ShRSIOp::create(b, x, c(n));
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x,
                      mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, predicate, x, y);
  }
};

} // namespace polyrank::target
