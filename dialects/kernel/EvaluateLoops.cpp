// Evaluates loops: one value at all points, then the next value.

#include <cmath>

#include "dialects/graph/Random.h"
#include "dialects/graph/Scalar.h"
#include "dialects/kernel/Kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using graph::Tensor;

namespace {

/// A value at each point: of floats, or of integers (booleans as 0 and 1).
using Column = Tensor;

/// Evaluates some of the parallel points, each with all its reduced points,
/// which are adjacent.
class Evaluation {
public:
  Evaluation(LoopsOp loops, ArrayRef<Tensor> operands,
             MutableArrayRef<Tensor> results, graph::Rounding rounding)
      : loops(loops), operands(operands), results(results), rounding(rounding),
        numReduced(loops.getNumPoints(/*ofReduced=*/true)) {}

  LogicalResult run(int64_t firstPoint, int64_t numParallel);

private:
  void enumerate(int64_t firstPoint);
  SmallVector<int64_t> valueOf(const Affine &affine);
  LogicalResult compute(Operation &op, Column &result);
  LogicalResult load(LoadOp op, Column &result);
  void reduce(ReduceOp op, Column &result);
  LogicalResult arithmetic(Operation &op, Column &result);
  void store(StoreOp op);
  void scatter(ScatterAddOp op);
  const Column &get(Value value) { return columns[value]; }

  LoopsOp loops;
  ArrayRef<Tensor> operands;
  MutableArrayRef<Tensor> results;
  graph::Rounding rounding;
  int64_t numReduced, count = 0;
  std::vector<SmallVector<int64_t>> variables;
  llvm::DenseMap<Value, Column> columns;
};

} // namespace

/// Computes the variables at each point: a mixed-radix number, the last
/// variable the most minor.
void Evaluation::enumerate(int64_t firstPoint) {
  variables.assign(loops.getVariables().size(), SmallVector<int64_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t parallel = firstPoint + i / numReduced, reduced = i % numReduced;
    for (size_t v = variables.size(); v-- > 0;) {
      Variable variable = loops.getVariables()[v];
      int64_t &rest = variable.isReduced ? reduced : parallel;
      variables[v][i] = rest % variable.size;
      rest /= variable.size;
    }
  }
}

SmallVector<int64_t> Evaluation::valueOf(const Affine &affine) {
  SmallVector<int64_t> values(count, affine.constant);
  for (auto [c, variable] : llvm::zip_equal(affine.coefficients, variables))
    if (c != 0)
      for (auto [value, at] : llvm::zip_equal(values, variable))
        value += c * at;
  return values;
}

LogicalResult Evaluation::load(LoadOp op, Column &result) {
  const Tensor &source = operands[loops.getArgumentNumber(op.getSource())];
  SmallVector<int64_t> element = valueOf(op.getOffset());
  for (auto [index, stride] : llvm::zip_equal(op.getIndices(), op.getStrides()))
    for (int64_t i = 0; i < count; ++i)
      element[i] += get(index).integers[i] * stride;
  for (int64_t i = 0; i < count; ++i) {
    if (op.getPredicate() && !get(op.getPredicate()).integers[i])
      continue;
    if (element[i] < 0 || element[i] >= source.size())
      return op.emitOpError("reads element ")
             << element[i] << " of " << source.size();
    result.copy(i, source, element[i]);
  }
  return success();
}

void Evaluation::reduce(ReduceOp op, Column &result) {
  const Column &input = get(op.getInput());
  auto combine = [&](auto x, auto y) {
    switch (op.getKind()) {
    case sharding::ReductionKind::Sum:
      return x + y;
    case sharding::ReductionKind::Max:
      return graph::maximum(x, y);
    case sharding::ReductionKind::Min:
      return graph::minimum(x, y);
    }
    llvm_unreachable("covered switch");
  };
  auto run = [&](auto &from, auto &to) {
    for (int64_t start = 0; start < count; start += numReduced) {
      auto total = from[start];
      for (int64_t i = 1; i < numReduced; ++i)
        total = combine(total, from[start + i]);
      std::fill_n(to.begin() + start, numReduced, total);
    }
  };
  if (result.isFloat())
    run(input.floats, result.floats);
  else
    run(input.integers, result.integers);
}

static bool compareFloats(arith::CmpFPredicate predicate, double x, double y) {
  return arith::applyCmpPredicate(predicate, APFloat(x), APFloat(y));
}

/// Evaluates ops of `arith` and `math`.
LogicalResult Evaluation::arithmetic(Operation &op, Column &result) {
  auto floats = [&](unsigned operand) -> ArrayRef<double> {
    return get(op.getOperand(operand)).floats;
  };
  auto integers = [&](unsigned operand) -> ArrayRef<int64_t> {
    return get(op.getOperand(operand)).integers;
  };
  auto unary = [&](auto function) {
    for (auto [y, x] : llvm::zip_equal(result.floats, floats(0)))
      y = function(x);
    return success();
  };
  auto binary = [&](auto function) {
    for (auto [z, x, y] : llvm::zip_equal(result.floats, floats(0), floats(1)))
      z = function(x, y);
    return success();
  };
  // Integers wrap around in the width of their type; booleans are 0 and 1.
  auto wrap = [&](uint64_t value) -> int64_t {
    unsigned width = result.elementType.getIntOrFloatBitWidth();
    return width == 1 ? value & 1 : llvm::SignExtend64(value, width);
  };
  auto integral = [&](auto function) {
    for (auto [z, x, y] :
         llvm::zip_equal(result.integers, integers(0), integers(1)))
      z = wrap(function(x, y));
    return success();
  };
  auto fromInteger = [&](auto function) {
    for (auto [y, x] : llvm::zip_equal(result.integers, integers(0)))
      y = wrap(function(x));
    return success();
  };
  using U = uint64_t;
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](arith::ConstantOp op) {
        if (auto number = dyn_cast<FloatAttr>(op.getValue()))
          llvm::fill(result.floats, number.getValueAsDouble());
        else
          llvm::fill(
              result.integers,
              wrap(cast<IntegerAttr>(op.getValue()).getValue().getSExtValue()));
        return success();
      })
      .Case([&](arith::NegFOp) { return unary([](double x) { return -x; }); })
      .Case([&](math::AbsFOp) {
        return unary([](double x) { return std::fabs(x); });
      })
      .Case([&](math::ExpOp) {
        return unary([](double x) { return std::exp(x); });
      })
      .Case([&](math::LogOp) {
        return unary([](double x) { return std::log(x); });
      })
      .Case([&](math::SqrtOp) {
        return unary([](double x) { return std::sqrt(x); });
      })
      .Case([&](math::TanhOp) {
        return unary([](double x) { return std::tanh(x); });
      })
      .Case([&](math::ErfOp) {
        return unary([](double x) { return std::erf(x); });
      })
      .Case([&](math::SinOp) {
        return unary([](double x) { return std::sin(x); });
      })
      .Case([&](math::CosOp) {
        return unary([](double x) { return std::cos(x); });
      })
      .Case([&](math::AtanOp) {
        return unary([](double x) { return std::atan(x); });
      })
      .Case([&](math::AsinOp) {
        return unary([](double x) { return std::asin(x); });
      })
      .Case([&](math::AcosOp) {
        return unary([](double x) { return std::acos(x); });
      })
      .Case([&](math::AsinhOp) {
        return unary([](double x) { return std::asinh(x); });
      })
      .Case([&](math::AcoshOp) {
        return unary([](double x) { return std::acosh(x); });
      })
      .Case([&](math::AtanhOp) {
        return unary([](double x) { return std::atanh(x); });
      })
      .Case([&](math::FloorOp) {
        return unary([](double x) { return std::floor(x); });
      })
      // The reference keeps floats of all widths in double precision.
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](auto) { return unary([](double x) { return x; }); })
      .Case([&](arith::AddFOp) { return binary(std::plus<double>()); })
      .Case([&](arith::SubFOp) { return binary(std::minus<double>()); })
      .Case([&](arith::MulFOp) { return binary(std::multiplies<double>()); })
      .Case([&](arith::DivFOp) { return binary(std::divides<double>()); })
      .Case([&](arith::MaximumFOp) {
        return binary([](double x, double y) { return graph::maximum(x, y); });
      })
      .Case([&](arith::MinimumFOp) {
        return binary([](double x, double y) { return graph::minimum(x, y); });
      })
      .Case([&](math::PowFOp) {
        return binary([](double x, double y) { return graph::power(x, y); });
      })
      .Case([&](arith::AddIOp) { return integral(std::plus<U>()); })
      .Case([&](arith::SubIOp) { return integral(std::minus<U>()); })
      .Case([&](arith::MulIOp) { return integral(std::multiplies<U>()); })
      .Case([&](arith::DivSIOp) {
        return integral(
            [](int64_t x, int64_t y) { return graph::divide(x, y); });
      })
      .Case([&](arith::RemSIOp) {
        return integral(
            [](int64_t x, int64_t y) { return x - graph::divide(x, y) * y; });
      })
      .Case([&](arith::AndIOp) { return integral(std::bit_and<U>()); })
      .Case([&](arith::OrIOp) { return integral(std::bit_or<U>()); })
      .Case([&](arith::MaxSIOp) {
        return integral(
            [](int64_t x, int64_t y) { return graph::maximum(x, y); });
      })
      .Case([&](arith::MinSIOp) {
        return integral(
            [](int64_t x, int64_t y) { return graph::minimum(x, y); });
      })
      .Case([&](math::IPowIOp) {
        return integral(
            [](int64_t x, int64_t y) { return graph::power(x, y); });
      })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          [&](auto) { return fromInteger([](int64_t x) { return x; }); })
      .Case<arith::SIToFPOp, arith::UIToFPOp>([&](auto) {
        for (auto [y, x] : llvm::zip_equal(result.floats, integers(0)))
          y = static_cast<double>(x);
        return success();
      })
      .Case([&](arith::FPToSIOp) {
        for (auto [y, x] : llvm::zip_equal(result.integers, floats(0)))
          y = graph::toInteger(result.elementType, x);
        return success();
      })
      .Case([&](arith::CmpFOp op) {
        for (auto [z, x, y] :
             llvm::zip_equal(result.integers, floats(0), floats(1)))
          z = compareFloats(op.getPredicate(), x, y);
        return success();
      })
      .Case([&](arith::CmpIOp op) {
        // Booleans, the only integers that are compared as unsigned, are not
        // negative here.
        for (auto [z, x, y] :
             llvm::zip_equal(result.integers, integers(0), integers(1)))
          z = arith::applyCmpPredicate(op.getPredicate(),
                                       APInt(64, x, /*isSigned=*/true),
                                       APInt(64, y, /*isSigned=*/true));
        return success();
      })
      .Case([&](arith::SelectOp op) {
        const Column &x = get(op.getTrueValue()), &y = get(op.getFalseValue());
        for (int64_t i = 0; i < count; ++i)
          result.copy(i, integers(0)[i] ? x : y, i);
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("is not evaluated in kernel.loops");
      });
}

LogicalResult Evaluation::compute(Operation &op, Column &result) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](LoadOp op) { return load(op, result); })
      .Case([&](ReduceOp op) {
        reduce(op, result);
        return success();
      })
      .Case([&](IndexOp op) {
        llvm::copy(valueOf(op.getValue()), result.integers.begin());
        return success();
      })
      .Case([&](InRangeOp op) {
        for (auto [y, x] :
             llvm::zip_equal(result.integers, valueOf(op.getValue())))
          y = op.getLower() <= x && x < op.getUpper();
        return success();
      })
      .Case([&](PhiloxOp op) {
        for (int64_t i = 0; i < count; ++i)
          result.integers[i] = static_cast<int32_t>(graph::getRandomWord(
              op.getId(), get(op.getIndex()).integers[i],
              get(op.getSeed()).integers[i], get(op.getStep()).integers[i],
              get(op.getMicrobatch()).integers[i]));
        return success();
      })
      .Default([&](Operation *op) { return arithmetic(*op, result); });
}

void Evaluation::store(StoreOp op) {
  const Column &value = get(op.getValue());
  Tensor &result = results[op.getNumber()];
  for (auto [i, element] : llvm::enumerate(valueOf(op.getOffset())))
    result.copy(element, value, i);
}

void Evaluation::scatter(ScatterAddOp op) {
  const Column &update = get(op.getUpdate()), &index = get(op.getIndex());
  Tensor &result = results[0];
  for (auto [i, element] : llvm::enumerate(valueOf(op.getOffset()))) {
    int64_t at = index.integers[i];
    if (at < 0 || at >= op.getLimit())
      continue;
    at = at * op.getStride() + element;
    if (result.isFloat())
      result.floats[at] += update.floats[i];
    else
      result.integers[at] += update.integers[i];
  }
}

LogicalResult Evaluation::run(int64_t firstPoint, int64_t numParallel) {
  count = numParallel * numReduced;
  columns.clear();
  enumerate(firstPoint);
  for (Operation &op : loops.getBlock()) {
    if (auto storeOp = dyn_cast<StoreOp>(op)) {
      store(storeOp);
    } else if (auto scatterOp = dyn_cast<ScatterAddOp>(op)) {
      scatter(scatterOp);
    } else {
      Column result(op.getResult(0).getType(), {count});
      if (failed(compute(op, result)))
        return failure();
      result.round(rounding);
      columns[op.getResult(0)] = std::move(result);
    }
  }
  return success();
}

LogicalResult LoopsOp::evaluate(ArrayRef<Tensor> operands,
                                MutableArrayRef<Tensor> results,
                                graph::Rounding rounding) {
  if (ScatterAddOp scatter = getScatter(); scatter && scatter.getInit())
    results[0] = operands[getArgumentNumber(scatter.getInit())];
  // Evaluating this many points at once takes little memory.
  constexpr int64_t pointsAtOnce = 1 << 14;
  int64_t points = getNumPoints(/*ofReduced=*/false);
  int64_t step =
      std::max<int64_t>(1, pointsAtOnce / getNumPoints(/*ofReduced=*/true));
  Evaluation evaluation(*this, operands, results, rounding);
  for (int64_t first = 0; first < points; first += step)
    if (failed(evaluation.run(first, std::min(step, points - first))))
      return failure();
  for (Tensor &result : results)
    result.round(rounding);
  return success();
}
