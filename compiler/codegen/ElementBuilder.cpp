// Builds elementwise ops and reductions as scalar ops.

#include "compiler/codegen/ElementBuilder.h"

#include "dialects/graph/ElementTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;
using graph::Comparison;
using graph::getStrides;
using graph::Scalar;

static void appendKey(std::vector<int64_t> &key, const Affine &affine) {
  key.push_back(affine.constant);
  key.insert(key.end(), affine.coefficients.begin(), affine.coefficients.end());
}

static int64_t keyOf(Value value) {
  return reinterpret_cast<int64_t>(value.getAsOpaquePointer());
}

Value ElementBuilder::sum(Value x, Value y) {
  return scalars.create<arith::AddIOp>(x, y);
}

Value ElementBuilder::product(Value x, int64_t factor) {
  return factor == 1 ? x : scalars.create<arith::MulIOp>(x, integer(factor));
}

Value ElementBuilder::choose(Value condition, Value x, Value y) {
  return scalars.create<arith::SelectOp>(condition, x, y);
}

Value ElementBuilder::convert(Value x, Type type) {
  return graph::convert(Scalar(scalars, x), type).get();
}

Value ElementBuilder::inAccumulator(Value x) {
  return x ? convert(x, graph::accumulatorOf(x.getType())) : x;
}

Value ElementBuilder::widen(Value x) { return convert(x, i64); }

Value ElementBuilder::valueOf(const Index &index) {
  if (index.value)
    return index.value;
  if (index.affine.isConstant())
    return integer(index.affine.constant);
  return scalars.create<kernel::IndexOp>(i64, index.affine);
}

Value ElementBuilder::inRange(const Index &index, int64_t lower,
                              int64_t upper) {
  if (!index.value)
    return scalars.create<kernel::InRangeOp>(i1, index.affine, lower, upper);
  Scalar x(scalars, index.value);
  auto bound = [&](int64_t value) { return Scalar(scalars, integer(value)); };
  return both(graph::compare(Comparison::GE, x, bound(lower)).get(),
              graph::compare(Comparison::LT, x, bound(upper)).get());
}

/// The conjunction of two conditions, where null is true.
Value ElementBuilder::both(Value x, Value y) {
  if (!x || x == y)
    return y;
  return y ? scalars.create<arith::AndIOp>(x, y) : x;
}

Value ElementBuilder::load(Value argument, const Indices &indices,
                           Value predicate) {
  Affine offset = constantIndex(0);
  SmallVector<Value> computed;
  SmallVector<int64_t> strides;
  for (auto [index, stride] :
       llvm::zip_equal(indices, getStrides(shapeOf(argument)))) {
    if (!index.value) {
      offset += index.affine * stride;
      continue;
    }
    computed.push_back(index.value);
    strides.push_back(stride);
  }
  return scalars.create<kernel::LoadOp>(argument, offset, computed, strides,
                                        predicate);
}

Value ElementBuilder::build(Value value, const Indices &indices,
                            Value predicate) {
  std::vector<int64_t> key = {keyOf(value), keyOf(predicate)};
  for (const Index &index : indices) {
    key.push_back(keyOf(index.value));
    if (!index.value)
      appendKey(key, index.affine);
  }
  if (auto found = built.find(key); found != built.end())
    return found->second;
  Value element = arguments.contains(value)
                      ? load(value, indices, predicate)
                      : buildOp(value.getDefiningOp(), indices, predicate);
  if (element)
    built[key] = element;
  return element;
}

Value ElementBuilder::buildOp(Operation *op, const Indices &indices,
                              Value predicate) {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](graph::ConstantOp constant) {
        auto elements = dyn_cast<SplatElementsAttr>(constant.getValue());
        if (!elements)
          return fail(op, "a constant that is not a splat is an argument");
        return scalars.create<arith::ConstantOp>(
            elements.getSplatValue<TypedAttr>());
      })
      .Case([&](graph::SeedOp seed) {
        return scalars.constant(elementTypeOf(seed.getResult()),
                                seed.getValue().convertToDouble());
      })
      .Case([&](graph::IotaOp iota) {
        Scalar index(scalars, valueOf(indices[iota.getDim()]));
        return graph::convert(index, elementTypeOf(iota.getResult())).get();
      })
      .Case(
          [&](graph::ReshapeOp op) { return reshape(op, indices, predicate); })
      .Case([&](graph::TransposeOp op) {
        Indices operand(indices.size());
        for (auto [d, from] : llvm::enumerate(op.getPermutation()))
          operand[from] = indices[d];
        return build(op.getInput(), operand, predicate);
      })
      .Case([&](graph::BroadcastOp op) {
        Indices operand;
        for (int64_t dim : op.getDims())
          operand.push_back(indices[dim]);
        return build(op.getInput(), operand, predicate);
      })
      .Case([&](graph::SliceOp op) { return slice(op, indices, predicate); })
      .Case([&](graph::UnfoldOp op) { return unfold(op, indices, predicate); })
      .Case([&](graph::FoldOp op) { return fold(op, indices, predicate); })
      .Case([&](graph::PadOp op) { return pad(op, indices, predicate); })
      .Case([&](graph::ConcatOp op) { return concat(op, indices, predicate); })
      .Case([&](graph::GatherOp op) { return gather(op, indices, predicate); })
      .Case([&](graph::ReduceOp op) { return reduce(op, indices); })
      .Case(
          [&](graph::DropoutOp op) { return dropout(op, indices, predicate); })
      .Case(
          [&](graph::UniformOp op) { return uniform(op, indices, predicate); })
      .Default(
          [&](Operation *op) { return elementwise(op, indices, predicate); });
}

/// A reduction exists at one index map only: that at which the loops compute
/// it.
Value ElementBuilder::reduce(graph::ReduceOp op, const Indices &indices) {
  const IndexMap *input = domain.getMap(op.getInput());
  if (!input)
    return fail(op, "its operand is no function of the loop variables");
  size_t numVariables = domain.sizes.size();
  Affine reduced(numVariables), kept(numVariables);
  int64_t count = 1, keptCount = 1;
  size_t next = 0;
  for (int64_t d = static_cast<int64_t>(input->size()) - 1; d >= 0; --d) {
    int64_t size = shapeOf(op.getInput())[d];
    bool isReduced = llvm::is_contained(op.getDims(), d);
    Affine &offset = isReduced ? reduced : kept;
    int64_t &stride = isReduced ? count : keptCount;
    offset += (*input)[d] * stride;
    stride *= size;
  }
  for (auto [d, index] : llvm::enumerate(*input)) {
    if (llvm::is_contained(op.getDims(), static_cast<int64_t>(d)))
      continue;
    const Index &asked = indices[next++];
    if (asked.value || asked.affine != index)
      return fail(op, "is used at another place than it is computed");
  }
  for (auto [v, variable] : llvm::enumerate(domain.variables)) {
    const Affine &other = variable.isReduced ? kept : reduced;
    if (other.coefficients[v] != 0)
      return fail(op, "reduces other variables than the rest of the kernel");
  }
  if (count != loops.getNumPoints(/*ofReduced=*/true) ||
      keptCount != loops.getNumPoints(/*ofReduced=*/false) ||
      !isDense(reduced, domain.sizes, count) ||
      !isDense(kept, domain.sizes, keptCount))
    return fail(op, "reduces other variables than the rest of the kernel");
  Value operand =
      build(op.getInput(), Indices(input->begin(), input->end()), Value());
  if (!operand || count == 1)
    return operand;
  Type type = operand.getType();
  Value total = scalars.create<kernel::ReduceOp>(graph::accumulatorOf(type),
                                                 op.getKind(), operand);
  return convert(total, type);
}

template <typename Op>
Value ElementBuilder::randomWord(Op op, ArrayRef<int64_t> shape,
                                 const Indices &indices, Value predicate) {
  Value seed = build(op.getSeed(), {}, predicate);
  Value step = build(op.getStep(), {}, predicate);
  Value microbatch = build(op.getMicrobatch(), {}, predicate);
  if (!seed || !step || !microbatch)
    return Value();
  ArrayRef<int64_t> globalShape =
      op.getGlobalShape() ? *op.getGlobalShape() : shape;
  SmallVector<int64_t> strides = getStrides(globalShape);
  Affine linear = constantIndex(0);
  Value position;
  auto addTerm = [&](Value index, int64_t stride) {
    index = product(index, stride);
    position = position ? sum(position, index) : index;
  };
  for (auto [index, stride] : llvm::zip_equal(indices, strides)) {
    if (!index.value)
      linear += index.affine * stride;
    else
      addTerm(index.value, stride);
  }
  for (auto [offset, stride] : llvm::zip(op.getOffsets(), strides)) {
    Value start = build(offset, {}, predicate);
    if (!start)
      return Value();
    addTerm(widen(start), stride);
  }
  Value element = valueOf(Index(linear));
  if (position)
    element = sum(position, element);
  Value word = scalars.create<kernel::PhiloxOp>(
      IntegerType::get(op.getContext(), 32), op.getRngId(), element,
      widen(seed), widen(step), widen(microbatch));
  return scalars.create<arith::AndIOp>(widen(word), integer(0xFFFFFFFF));
}

Value ElementBuilder::dropout(graph::DropoutOp op, const Indices &indices,
                              Value predicate) {
  Value input = inAccumulator(build(op.getInput(), indices, predicate));
  Value word = randomWord(op, shapeOf(op.getInput()), indices, predicate);
  if (!input || !word)
    return Value();
  double rate = op.getRate().convertToDouble();
  // word >= rate * 2^32.
  Value limit = integer(static_cast<int64_t>(std::ceil(rate * 0x1p32)));
  Scalar x(scalars, input);
  Scalar kept =
      graph::select(graph::compare(Comparison::GE, Scalar(scalars, word),
                                   Scalar(scalars, limit)),
                    x / x.like(1 - rate), x.like(0));
  return graph::convert(kept, elementTypeOf(op.getResult())).get();
}

Value ElementBuilder::uniform(graph::UniformOp op, const Indices &indices,
                              Value predicate) {
  Value word = randomWord(op, shapeOf(op.getResult()), indices, predicate);
  if (!word)
    return Value();
  Scalar upper(scalars,
               scalars.create<arith::AndIOp>(word, integer(0xFFFFFF00)));
  Type type = elementTypeOf(op.getResult());
  Scalar number = graph::convert(upper, graph::accumulatorOf(type));
  return graph::convert(number * number.like(0x1p-32), type).get();
}

/// The op's formula computes in the accumulator's type, so that its result is
/// rounded once. A selection only moves its operands, and a conversion knows by
/// which types it goes.
Value ElementBuilder::elementwise(Operation *op, const Indices &indices,
                                  Value predicate) {
  auto scalar = dyn_cast<graph::ScalarOp>(op);
  if (!scalar)
    return fail(op, "is not computed by kernels");
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value element = build(operand, indices, predicate);
    if (!element)
      return Value();
    operands.push_back(isa<graph::SelectOp, graph::ConvertOp>(op)
                           ? element
                           : inAccumulator(element));
  }
  Block &block = loops.getBlock();
  Operation *last = block.empty() ? nullptr : &block.back();
  Value result = scalar.buildScalar(scalars, operands);
  if (!result)
    return fail(op, scalars.reason);
  for (Operation *added = last ? last->getNextNode() : &block.front(); added;
       added = added->getNextNode())
    if (!hasCode(added))
      return fail(op, "there is no code for " +
                          added->getName().getStringRef() +
                          " on this element type");
  return result;
}
