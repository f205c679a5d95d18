// Elementary functions and reductions that are several ops.

#include "frontends/emit/Functions.h"

#include <cmath>
#include <limits>

#include "frontends/emit/Arithmetic.h"

using namespace mlir;

namespace polyrank::frontends {

using sharding::ReductionKind;

Imported roundToEven(Emitter &emit, const Imported &x) {
  auto scalar = [&](double value) {
    return emit.scalar(x.getElementType(), value);
  };
  auto is = [&](const Imported &y, graph::Comparison comparison, double value) {
    return emit.binaryOver<graph::CompareOp>(y, scalar(value), comparison);
  };
  Imported below = emit.unary<graph::FloorOp>(x);
  Imported rest = emit.binary<graph::SubOp>(x, below);
  Imported half = emit.binaryOver<graph::MulOp>(below, scalar(0.5));
  // A number is odd if its half is not an integer.
  Imported isOdd = emit.binary<graph::CompareOp>(
      half, emit.unary<graph::FloorOp>(half), graph::Comparison::NE);
  Imported goesUp = emit.binary<graph::OrOp>(
      is(rest, graph::Comparison::GT, 0.5),
      emit.binary<graph::AndOp>(is(rest, graph::Comparison::EQ, 0.5), isOdd));
  return emit.select(goesUp, emit.binaryOver<graph::AddOp>(below, scalar(1)),
                     below);
}

Imported coshOf(Emitter &emit, const Imported &x) {
  auto times = [&](const Imported &y, double factor) {
    return emit.binaryOver<graph::MulOp>(
        y, emit.scalar(x.getElementType(), factor));
  };
  auto half = [&](double sign) {
    Imported root = emit.unary<graph::ExpOp>(times(x, sign * 0.5));
    return emit.binary<graph::MulOp>(times(root, 0.5), root);
  };
  return emit.binary<graph::AddOp>(half(1), half(-1));
}

Imported signOf(Emitter &emit, const Imported &x) {
  Imported zero = emit.scalar(x.getElementType(), 0);
  auto is = [&](graph::Comparison comparison) {
    return emit.convert(emit.binaryOver<graph::CompareOp>(x, zero, comparison),
                        x.getElementType());
  };
  return emit.binary<graph::SubOp>(is(graph::Comparison::GT),
                                   is(graph::Comparison::LT));
}

Imported remainderOf(Emitter &emit, const Imported &x, const Imported &y,
                     bool ofDividend) {
  Imported rest = emit.binary<graph::SubOp>(
      x, emit.binary<graph::MulOp>(emit.binary<graph::DivOp>(x, y), y));
  if (!ofDividend) {
    // The signs are compared, since the product of two large numbers would wrap
    // around.
    Imported zero = emit.scalar(x.getElementType(), 0);
    auto is = [&](const Imported &z, graph::Comparison comparison) {
      return emit.binaryOver<graph::CompareOp>(z, zero, comparison);
    };
    Imported differs = emit.binary<graph::OrOp>(
        emit.binary<graph::AndOp>(is(rest, graph::Comparison::LT),
                                  is(y, graph::Comparison::GT)),
        emit.binary<graph::AndOp>(is(rest, graph::Comparison::GT),
                                  is(y, graph::Comparison::LT)));
    rest = emit.select(differs, emit.binary<graph::AddOp>(rest, y), rest);
  }
  return rest;
}

Imported bitOrOf(Emitter &emit, const Imported &x, const Imported &y,
                 bool isXor) {
  Imported both = emit.binary<graph::BitAndOp>(x, y);
  if (isXor)
    both = emit.binary<graph::AddOp>(both, both);
  return emit.binary<graph::SubOp>(emit.binary<graph::AddOp>(x, y), both);
}

/// Returns true if `value` is computed from constants alone.
static bool isKnown(Value value) {
  Operation *op = value.getDefiningOp();
  return op &&
         (isa<graph::ConstantOp>(op) ||
          (isa<graph::BroadcastOp, graph::ReshapeOp, graph::ConvertOp>(op) &&
           isKnown(op->getOperand(0))));
}

static bool isSquare(Value value) {
  if (auto product = value.getDefiningOp<graph::MulOp>())
    return product.getLhs() == product.getRhs();
  auto power = value.getDefiningOp<graph::PowOp>();
  return power && isKnown(power.getRhs());
}

bool isSumOfSquares(Value value) {
  if (Operation *op = value.getDefiningOp();
      isa_and_present<graph::ReshapeOp, graph::BroadcastOp, graph::TransposeOp>(
          op))
    return isSumOfSquares(op->getOperand(0));
  if (auto sum = value.getDefiningOp<graph::ReduceOp>())
    return sum.getKind() == ReductionKind::Sum && isSquare(sum.getInput());
  if (auto quotient = value.getDefiningOp<graph::DivOp>())
    return isKnown(quotient.getRhs()) && isSumOfSquares(quotient.getLhs());
  // The product of a mean, or that of two norms.
  auto product = value.getDefiningOp<graph::MulOp>();
  if (!product)
    return false;
  auto isFactor = [](Value factor) {
    return isKnown(factor) || isSumOfSquares(factor);
  };
  return isFactor(product.getLhs()) && isFactor(product.getRhs());
}

Imported rootOf(Emitter &emit, const Imported &x) {
  auto constant = [&](double value) {
    return emit.broadcast(emit.scalar(x.getElementType(), value), x.getShape(),
                          !x.isConstant());
  };
  Imported isZero =
      emit.binary<graph::CompareOp>(x, constant(0), graph::Comparison::EQ);
  Imported root =
      emit.unary<graph::SqrtOp>(emit.select(isZero, constant(1), x));
  return emit.select(isZero, constant(0), root);
}

Imported normOf(Emitter &emit, const Imported &x, double p,
                ArrayRef<int64_t> dims) {
  auto sumOf = [&](const Imported &y) {
    return emit.reduce(ReductionKind::Sum, y, dims);
  };
  auto scalar = [&](double value) {
    return emit.scalar(x.getElementType(), value);
  };
  Imported magnitude = emit.unary<graph::AbsOp>(x);
  if (p == 2)
    return rootOf(emit, sumOf(emit.binary<graph::MulOp>(x, x)));
  if (p == 1)
    return sumOf(magnitude);
  if (std::isinf(p))
    return emit.reduce(p > 0 ? ReductionKind::Max : ReductionKind::Min,
                       magnitude, dims);
  if (p == 0)
    return sumOf(emit.convert(
        emit.binaryOver<graph::CompareOp>(x, scalar(0), graph::Comparison::NE),
        x.getElementType()));
  return emit.binaryOver<graph::PowOp>(
      sumOf(emit.binaryOver<graph::PowOp>(magnitude, scalar(p))),
      scalar(1 / p));
}

Imported productOver(Emitter &emit, Imported x, ArrayRef<int64_t> dims) {
  for (int64_t dim : dims) {
    while (true) {
      int64_t size = x.getShape()[dim];
      if (size <= 1)
        break;
      int64_t half = size / 2;
      Imported product = emit.binary<graph::MulOp>(
          emit.slice(x, dim, 0, half), emit.slice(x, dim, half, 2 * half));
      x = size % 2
              ? emit.concat({product, emit.slice(x, dim, 2 * half, size)}, dim)
              : product;
    }
  }
  Shape shape = x.getShape();
  if (llvm::any_of(dims, [&](int64_t dim) { return shape[dim] == 0; })) {
    // The product of no elements is 1.
    for (int64_t dim : dims)
      shape[dim] = 1;
    x = emit.broadcast(emit.scalar(x.getElementType(), 1), shape, false);
  }
  Shape left;
  for (auto [d, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(dims, static_cast<int64_t>(d)))
      left.push_back(size);
  return emit.reshape(x, left);
}

Imported logSumExpOf(Emitter &emit, const Imported &x, ArrayRef<int64_t> dims) {
  Shape shape = x.getShape();
  // An infinite maximum is not subtracted: infinity minus itself is NaN.
  Imported max = emit.reduce(ReductionKind::Max, x, dims);
  Type type = x.getElementType();
  if (isa<FloatType>(type))
    max = emit.select(
        emit.binaryOver<graph::CompareOp>(
            emit.unary<graph::AbsOp>(max),
            emit.scalar(type, std::numeric_limits<double>::infinity()),
            graph::Comparison::LT),
        max,
        emit.broadcast(emit.scalar(type, 0), max.getShape(),
                       !max.isConstant()));
  Imported shifted =
      emit.binaryOver<graph::SubOp>(x, emit.keepDims(max, shape, dims));
  Imported sum =
      emit.reduce(ReductionKind::Sum, emit.unary<graph::ExpOp>(shifted), dims);
  return emit.binary<graph::AddOp>(emit.unary<graph::LogOp>(sum), max);
}

Imported logOfSum(Emitter &emit, const Imported &x, const Imported &y) {
  Arithmetic a{emit};
  Imported larger = emit.binary<graph::MaxOp>(x, y),
           smaller = emit.binary<graph::MinOp>(x, y);
  // The difference of two infinities would be NaN.
  Imported isFinite =
      a.is(emit.unary<graph::AbsOp>(larger), graph::Comparison::LT,
           std::numeric_limits<double>::infinity());
  Imported distance = a.where(isFinite, a.sub(smaller, larger), 0);
  Imported more =
      emit.unary<graph::LogOp>(a.add(emit.unary<graph::ExpOp>(distance), 1));
  return emit.select(isFinite, a.add(larger, more), larger);
}

Imported logSoftmaxOf(Emitter &emit, const Imported &x, int64_t dim) {
  Shape shape = x.getShape();
  Imported max =
      emit.keepDims(emit.reduce(ReductionKind::Max, x, dim), shape, dim);
  Imported shifted = emit.binaryOver<graph::SubOp>(x, max);
  Imported sum =
      emit.reduce(ReductionKind::Sum, emit.unary<graph::ExpOp>(shifted), dim);
  return emit.binaryOver<graph::SubOp>(
      shifted, emit.keepDims(emit.unary<graph::LogOp>(sum), shape, dim));
}

} // namespace polyrank::frontends
