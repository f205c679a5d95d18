// Evaluates scheduled loops: one value at all points, then the next value.

#include "test/compiler/target/schedule/EvaluateSchedule.h"

#include <cstring>

#include "compiler/target/math/ExpandMath.h"
#include "dialects/graph/Random.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "test/compiler/target/schedule/Denormals.h"
#include "test/compiler/target/schedule/EvaluateElement.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::kernel;
using namespace polyrank::target;

void target::expandFunctions(LoopsOp loops) {
  RewritePatternSet patterns(loops.getContext());
  populateMathExpansions(patterns);
  walkAndApplyPatterns(loops, FrozenRewritePatternSet(std::move(patterns)));
}

static uint64_t readElement(Type type, const Bytes &bytes, int64_t element) {
  uint64_t bits = 0;
  unsigned size = getElementBytes(type);
  std::memcpy(&bits, bytes.data() + element * size, size);
  if (type.isInteger(1))
    return bits != 0;
  return isa<FloatType>(type) ? bits : wrap(type, bits);
}

static void writeElement(Type type, Bytes &bytes, int64_t element,
                         uint64_t bits) {
  unsigned size = getElementBytes(type);
  std::memcpy(bytes.data() + element * size, &bits, size);
}

namespace {
/// Evaluates some points of the parallel variables, each with all points of the
/// reduced ones, which are adjacent and in the order of the schedule.
class Evaluation {
public:
  Evaluation(LoopsOp loops, const ReductionOrder &order, bool flushesDenormals,
             ArrayRef<Bytes> arguments, MutableArrayRef<Bytes> results)
      : loops(loops), order(order), flushesDenormals(flushesDenormals),
        arguments(arguments), results(results),
        numReduced(loops.getNumPoints(/*ofReduced=*/true)) {}

  LogicalResult run(int64_t firstPoint, int64_t numParallel);

private:
  void enumerate(int64_t firstPoint);
  std::vector<int64_t> valueOf(const Affine &affine) const;
  LogicalResult compute(Operation &op, Column &result);
  LogicalResult load(LoadOp op, Column &result);
  void reduce(ReduceOp op, Column &result) const;
  /// Reduces the values of one parallel point.
  uint64_t reduceOne(ReduceOp op, const uint64_t *values) const;
  LogicalResult store(StoreOp op);
  LogicalResult scatter(ScatterAddOp op);
  const Column &get(Value value) const { return columns.find(value)->second; }

  LoopsOp loops;
  const ReductionOrder &order;
  bool flushesDenormals;
  ArrayRef<Bytes> arguments;
  MutableArrayRef<Bytes> results;
  int64_t numReduced, count = 0;
  std::vector<std::vector<int64_t>> variables;
  llvm::DenseMap<Value, Column> columns;
};
} // namespace

/// Computes the variables at each point: of the parallel ones the last is the
/// most minor, of the reduced ones the schedule says which.
void Evaluation::enumerate(int64_t firstPoint) {
  ArrayRef<Variable> all = loops.getVariables();
  variables.assign(all.size(), std::vector<int64_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t parallel = firstPoint + i / numReduced, reduced = i % numReduced;
    for (size_t v = all.size(); v-- > 0;)
      if (!all[v].isReduced) {
        variables[v][i] = parallel % all[v].size;
        parallel /= all[v].size;
      }
    for (int64_t v : llvm::reverse(order.variables)) {
      variables[v][i] = reduced % all[v].size;
      reduced /= all[v].size;
    }
  }
}

std::vector<int64_t> Evaluation::valueOf(const Affine &affine) const {
  std::vector<int64_t> values(count, affine.constant);
  for (auto [c, variable] : llvm::zip_equal(affine.coefficients, variables))
    for (int64_t i = 0; c != 0 && i < count; ++i)
      values[i] += c * variable[i];
  return values;
}

static LogicalResult checkInside(Operation *op, int64_t element,
                                 const Bytes &bytes, Type type) {
  int64_t size = bytes.size() / getElementBytes(type);
  if (element >= 0 && element < size)
    return success();
  return op->emitOpError("is of element ") << element << " of " << size;
}

LogicalResult Evaluation::load(LoadOp op, Column &result) {
  const Bytes &source = arguments[loops.getArgumentNumber(op.getSource())];
  std::vector<int64_t> element = valueOf(op.getOffset());
  for (auto [index, stride] : llvm::zip_equal(op.getIndices(), op.getStrides()))
    for (int64_t i = 0; i < count; ++i)
      element[i] += static_cast<int64_t>(get(index)[i]) * stride;
  for (int64_t i = 0; i < count; ++i) {
    if (op.getPredicate() && !get(op.getPredicate())[i])
      continue;
    if (failed(checkInside(op, element[i], source, op.getType())))
      return failure();
    result[i] = readElement(op.getType(), source, element[i]);
  }
  return success();
}

uint64_t Evaluation::reduceOne(ReduceOp op, const uint64_t *values) const {
  Type from = op.getInput().getType(), type = op.getType();
  uint64_t identity = getIdentity(op.getKind(), type);
  auto add = [&](uint64_t &to, uint64_t value) {
    to = combine(op.getKind(), type, to, value);
  };
  int64_t run = order.run ? order.run : numReduced;
  int64_t most = order.part ? order.part : numReduced;
  std::vector<uint64_t> partial(order.slots, identity), part(partial);
  std::vector<int64_t> sizes(order.slots);
  auto endPart = [&](int64_t slot) {
    if (order.part)
      add(partial[slot], part[slot]);
    else
      partial[slot] = part[slot];
    part[slot] = identity;
    sizes[slot] = 0;
  };
  for (int64_t i = 0; i < numReduced; ++i) {
    int64_t slot = i % run % order.slots;
    add(part[slot], widen(from, type, values[i]));
    if (++sizes[slot] == most)
      endPart(slot);
  }
  for (int64_t slot = 0; slot < order.slots; ++slot)
    if (sizes[slot])
      endPart(slot);
  for (int64_t distance : order.distances)
    for (int64_t i = 0; i + distance < order.slots; ++i)
      if ((i & distance) == 0)
        add(partial[i], partial[i + distance]);
  return partial[0];
}

void Evaluation::reduce(ReduceOp op, Column &result) const {
  const Column &input = get(op.getInput());
  for (int64_t start = 0; start < count; start += numReduced)
    std::fill_n(result.begin() + start, numReduced,
                reduceOne(op, input.data() + start));
}

LogicalResult Evaluation::compute(Operation &op, Column &result) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](LoadOp op) { return load(op, result); })
      .Case([&](ReduceOp op) {
        reduce(op, result);
        return success();
      })
      .Case([&](IndexOp op) {
        llvm::copy(valueOf(op.getValue()), result.begin());
        return success();
      })
      .Case([&](InRangeOp op) {
        for (auto [y, x] : llvm::zip_equal(result, valueOf(op.getValue())))
          y = op.getLower() <= x && x < op.getUpper();
        return success();
      })
      .Case([&](PhiloxOp op) {
        for (int64_t i = 0; i < count; ++i)
          result[i] =
              wrap(op.getType(),
                   graph::getRandomWord(
                       op.getId(), get(op.getIndex())[i], get(op.getSeed())[i],
                       get(op.getStep())[i], get(op.getMicrobatch())[i]));
        return success();
      })
      .Default([&](Operation *op) {
        SmallVector<const Column *> operands;
        for (Value operand : op->getOperands())
          operands.push_back(&get(operand));
        return evaluateElements(op, operands, result);
      });
}

LogicalResult Evaluation::store(StoreOp op) {
  const Column &value = get(op.getValue());
  Bytes &result = results[op.getNumber()];
  Type type = op.getValue().getType();
  for (auto [i, element] : llvm::enumerate(valueOf(op.getOffset()))) {
    if (failed(checkInside(op, element, result, type)))
      return failure();
    writeElement(type, result, element, value[i]);
  }
  return success();
}

LogicalResult Evaluation::scatter(ScatterAddOp op) {
  const Column &update = get(op.getUpdate()), &index = get(op.getIndex());
  Bytes &result = results[0];
  Type type = op.getUpdate().getType();
  for (auto [i, element] : llvm::enumerate(valueOf(op.getOffset()))) {
    int64_t at = static_cast<int64_t>(index[i]);
    if (at < 0 || at >= op.getLimit())
      continue;
    at = at * op.getStride() + element;
    if (failed(checkInside(op, at, result, type)))
      return failure();
    writeElement(type, result, at,
                 combine(sharding::ReductionKind::Sum, type,
                         readElement(type, result, at), update[i]));
  }
  return success();
}

LogicalResult Evaluation::run(int64_t firstPoint, int64_t numParallel) {
  count = numParallel * numReduced;
  columns.clear();
  enumerate(firstPoint);
  auto isSingle = [](Type type) { return type.isF32(); };
  for (Operation &op : loops.getBlock()) {
    Denormals denormals(flushesDenormals &&
                        (llvm::any_of(op.getOperandTypes(), isSingle) ||
                         llvm::any_of(op.getResultTypes(), isSingle)));
    if (auto storeOp = dyn_cast<StoreOp>(op)) {
      if (failed(store(storeOp)))
        return failure();
    } else if (auto scatterOp = dyn_cast<ScatterAddOp>(op)) {
      if (failed(scatter(scatterOp)))
        return failure();
    } else {
      Column result(count);
      if (failed(compute(op, result)))
        return failure();
      columns[op.getResult(0)] = std::move(result);
    }
  }
  return success();
}

LogicalResult target::evaluateSchedule(LoopsOp loops,
                                       const ReductionOrder &order,
                                       bool flushesDenormals,
                                       ArrayRef<Bytes> arguments,
                                       MutableArrayRef<Bytes> results) {
  if (failed(order.verify(loops)))
    return failure();
  if (ScatterAddOp scatter = loops.getScatter()) {
    if (scatter.getInit())
      results[0] = arguments[loops.getArgumentNumber(scatter.getInit())];
    else
      llvm::fill(results[0], 0);
  }
  // Evaluating this many points at once takes little memory.
  constexpr int64_t pointsAtOnce = 1 << 12;
  int64_t points = loops.getNumPoints(/*ofReduced=*/false);
  int64_t step = std::max<int64_t>(
      1, pointsAtOnce / loops.getNumPoints(/*ofReduced=*/true));
  Evaluation evaluation(loops, order, flushesDenormals, arguments, results);
  for (int64_t first = 0; first < points; first += step)
    if (failed(evaluation.run(first, std::min(step, points - first))))
      return failure();
  return success();
}

std::string target::findDifference(Type type, const Bytes &found,
                                   const Bytes &expected) {
  auto number = dyn_cast<FloatType>(type);
  auto isNan = [&](uint64_t bits) {
    return number &&
           llvm::APFloat(number.getFloatSemantics(),
                         llvm::APInt(type.getIntOrFloatBitWidth(), bits))
               .isNaN();
  };
  auto text = [](uint64_t bits) { return "0x" + llvm::utohexstr(bits); };
  if (found.size() != expected.size())
    return std::to_string(found.size()) + " bytes instead of " +
           std::to_string(expected.size());
  int64_t size = found.size() / getElementBytes(type);
  for (int64_t i = 0; i < size; ++i) {
    uint64_t x = readElement(type, found, i),
             y = readElement(type, expected, i);
    if (x != y && !(isNan(x) && isNan(y)))
      return "element " + std::to_string(i) + " of " + std::to_string(size) +
             " is " + text(x) + " instead of " + text(y);
  }
  return "";
}
