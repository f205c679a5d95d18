// Random programs: values, arguments, losses. The ops are in Ops.cpp.

#include "test/random/Program.h"

#include <cmath>

#include "compiler/evaluate/Evaluator.h"
#include "dialects/graph/Boundary.h"
#include "test/random/Narrow.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::test;
using graph::Tensor;

/// Exact values have no more bits, so that kernels in f32 compute them exactly.
constexpr int exactBits = 22;
constexpr int64_t smallDims[] = {1, 2, 2, 3, 4, 4, 5, 6, 8};
constexpr int64_t smallBatches[] = {2, 3, 4};
const Sizes polyrank::test::smallSizes{smallDims, smallBatches, 120, 4096};
/// Arguments are multiples of 1/2 up to this.
constexpr double argumentBound = 2;

ProgramBuilder::ProgramBuilder(MLIRContext &context, Random &random,
                               bool isTraining, const Sizes &sizes)
    : random(random), builder(&context),
      parts(builder, builder.getUnknownLoc()),
      batch(random.pick(sizes.batches)), sizes(sizes), training(isTraining) {
  module = ModuleOp::create(parts.location);
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, parts.location, "forward",
                                  builder.getFunctionType({}, {}));
  function.addEntryBlock();
  builder.setInsertionPointToEnd(&function.getBody().front());
  for (int64_t i = random.between(1, 2); i > 0; --i) {
    SmallVector<int64_t> shape{batch};
    llvm::append_range(shape, drawShape(random.between(0, 2)));
    addInput(shape, builder.getF32Type());
  }
}

bool ProgramBuilder::put(Value value, double bound, int bits) {
  if (!(bound <= sizes.largest))
    return false;
  if (bits >= 0 && bits + std::log2(bound + 1) > exactBits)
    bits = -1;
  pool.push_back(value);
  facts[value] = {bound, bits};
  return true;
}

bool ProgramBuilder::fits(ArrayRef<int64_t> shape) const {
  return shape.size() <= 5 && graph::numElements(shape) <= sizes.mostElements;
}

SmallVector<int64_t> ProgramBuilder::drawShape(int64_t rank) {
  while (true) {
    SmallVector<int64_t> shape;
    for (int64_t d = 0; d < rank; ++d)
      shape.push_back(random.pick(sizes.dims));
    if (graph::numElements(shape) * batch <= sizes.mostElements)
      return shape;
  }
}

Value ProgramBuilder::addArgument(Type type, StringRef name, Attribute role) {
  return graph::Boundary(function).insertArgument(
      function.getNumArguments(), type, role,
      NameLoc::get(builder.getStringAttr(name)));
}

Value ProgramBuilder::addParameter(ArrayRef<int64_t> shape, bool trainable) {
  std::string name = (trainable ? "w" : "s") + std::to_string(numParameters++);
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(function);
  auto parameter = graph::ParameterOp::create(
      builder, parts.location, name, type, "weights.bin", 0,
      4 * type.getNumElements(), trainable, ArrayAttr(),
      /*transposed=*/false, ElementsAttr(), /*complex=*/false);
  parameter->setLoc(NameLoc::get(builder.getStringAttr(name)));
  Value value = addArgument(type, name,
                            graph::ParameterAttr::get(FlatSymbolRefAttr::get(
                                builder.getContext(), name)));
  put(value, argumentBound, 1);
  return value;
}

Value ProgramBuilder::addInput(ArrayRef<int64_t> shape, Type element) {
  std::string name = "x" + std::to_string(numInputs++);
  Value value = addArgument(RankedTensorType::get(shape, element), name,
                            graph::InputAttr::get(builder.getStringAttr(name)));
  put(value, isa<FloatType>(element) ? argumentBound : 5,
      isa<FloatType>(element) ? 1 : 0);
  return value;
}

Value ProgramBuilder::addLabels(ArrayRef<int64_t> shape, int64_t classes,
                                int64_t ignored) {
  Value labels = addInput(shape, builder.getI64Type());
  unsigned number = cast<BlockArgument>(labels).getArgNumber();
  graph::Boundary boundary(function);
  boundary.setArgument(number,
                       boundary.getArgument<graph::InputAttr>(number).withRange(
                           classes, ignored));
  return labels;
}

Value ProgramBuilder::getCounter(graph::RandomCounter counter) {
  auto role = graph::CounterAttr::get(builder.getContext(), counter);
  graph::Boundary boundary(function);
  for (BlockArgument argument : function.getArguments())
    if (boundary.getArgument(argument.getArgNumber()) == role)
      return argument;
  return addArgument(RankedTensorType::get({}, builder.getI64Type()),
                     graph::stringifyRandomCounter(counter), role);
}

Value ProgramBuilder::addConstant(ArrayRef<int64_t> shape, Type element) {
  Tensor tensor(element, shape);
  bool isSplat = random.chance(40);
  double value = 0;
  for (int64_t i = 0, n = tensor.size(); i < n; ++i) {
    if (i == 0 || !isSplat)
      value = element.isInteger(1)        ? random.below(2)
              : isa<IntegerType>(element) ? random.between(-1, 4)
                                          : 0.5 * random.between(-4, 4);
    tensor.set(i, value);
  }
  Value constant =
      graph::ConstantOp::create(builder, parts.location, tensor.toAttribute());
  put(constant, 4, 1);
  return constant;
}

void ProgramBuilder::addState(Value value) {
  Value old = addParameter(shapeOf(value), false);
  updates.push_back({cast<BlockArgument>(old).getArgNumber(),
                     parts.add(parts.mul(old, 0.5), parts.mul(value, 0.5))});
}

Value ProgramBuilder::pickFloat(int64_t minRank, int64_t maxRank) {
  SmallVector<Value> found;
  for (Value value : pool) {
    int64_t rank = shapeOf(value).size();
    if (graph::getGlobalType(value).getElementType().isF32() &&
        rank >= minRank && rank <= maxRank)
      found.push_back(value);
  }
  if (!found.empty() && random.chance(85)) {
    // The newest value is chosen as often as all others, so that programs are
    // deep, not only wide.
    return random.chance(40) ? found.back() : random.pick(found);
  }
  SmallVector<int64_t> shape{batch};
  int64_t rank = random.between(std::max<int64_t>(minRank, 1), maxRank);
  llvm::append_range(shape, drawShape(rank - 1));
  return random.chance(50) ? addInput(shape, builder.getF32Type())
                           : addParameter(shape, random.chance(75));
}

Value ProgramBuilder::pickExact(int64_t minRank, int64_t maxRank) {
  for (int i = 0; i < 4; ++i)
    if (Value value = pickFloat(minRank, maxRank); isExact(value))
      return value;
  SmallVector<int64_t> shape{batch};
  llvm::append_range(
      shape,
      drawShape(random.between(std::max<int64_t>(minRank, 1), maxRank) - 1));
  return addParameter(shape, random.chance(75));
}

Value ProgramBuilder::pickInteger(int64_t minRank, int64_t maxRank) {
  SmallVector<Value> found;
  for (Value value : pool) {
    int64_t rank = shapeOf(value).size();
    if (graph::getGlobalType(value).getElementType().isInteger(64) &&
        rank >= minRank && rank <= maxRank)
      found.push_back(value);
  }
  if (!found.empty() && random.chance(70))
    return random.pick(found);
  SmallVector<int64_t> shape{batch};
  llvm::append_range(
      shape,
      drawShape(random.between(std::max<int64_t>(minRank, 1), maxRank) - 1));
  return addInput(shape, builder.getI64Type());
}

Value ProgramBuilder::integersOf(ArrayRef<int64_t> shape) {
  for (Value value : pool)
    if (graph::getGlobalType(value).getElementType().isInteger(64) &&
        shapeOf(value) == shape && random.chance(50))
      return value;
  if (!shape.empty() && shape[0] == batch && random.chance(60))
    return addInput(shape, builder.getI64Type());
  return addConstant(shape, builder.getI64Type());
}

Value ProgramBuilder::pickBool(ArrayRef<int64_t> shape) {
  for (Value value : pool)
    if (graph::getGlobalType(value).getElementType().isInteger(1) &&
        shapeOf(value) == shape && random.chance(60))
      return value;
  if (random.chance(30))
    return addConstant(shape, builder.getI1Type());
  Value left = floatOf(shape, true), right = floatOf(shape, true);
  Value result = parts.compare(
      left, static_cast<graph::Comparison>(random.below(6)), right);
  put(result, 1, 0);
  return result;
}

Value ProgramBuilder::floatOf(ArrayRef<int64_t> shape, bool exact) {
  SmallVector<Value> found;
  for (Value value : pool)
    if (graph::getGlobalType(value).getElementType().isF32() &&
        shapeOf(value) == shape && (!exact || isExact(value)))
      found.push_back(value);
  if (!found.empty() && random.chance(60))
    return random.pick(found);
  if (random.chance(15))
    return addConstant(shape, builder.getF32Type());
  if (!shape.empty() && random.chance(20)) {
    // A smaller one, repeated.
    SmallVector<int64_t> dims, small;
    for (auto [d, size] : llvm::enumerate(shape))
      if (random.chance(50))
        dims.push_back(d);
      else
        small.push_back(size);
    Value source = addParameter(small, random.chance(75));
    Value result = parts.broadcast(source, shape, dims);
    put(result, bound(source), known(source).bits);
    return result;
  }
  if (!shape.empty() && shape[0] == batch && random.chance(30))
    return addInput(shape, builder.getF32Type());
  return addParameter(shape, random.chance(75));
}

Value ProgramBuilder::bounded(Value value, double limit) {
  if (bound(value) <= limit)
    return value;
  Value result = parts.apply<graph::TanhOp>(value);
  put(result, 1);
  return result;
}

Value ProgramBuilder::positive(Value value) {
  if (bound(value) <= 32) {
    Known from = known(value);
    Value result = parts.add(parts.mul(value, value), 1);
    put(result, from.bound * from.bound + 1,
        from.bits < 0 ? -1 : 2 * from.bits);
    return result;
  }
  Value result = parts.add(parts.apply<graph::SigmoidOp>(value), 0.5);
  put(result, 1.5);
  return result;
}

SmallVector<Value> ProgramBuilder::leaves() {
  SmallVector<Value> found;
  for (Value value : SmallVector<Value>(pool))
    if (value.use_empty() && !isa<BlockArgument>(value))
      found.push_back(graph::getGlobalType(value).getElementType().isF32()
                          ? value
                          : parts.convert(value, builder.getF32Type()));
  return found;
}

Program ProgramBuilder::finish() {
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  auto text = [&](const Twine &value) { return builder.getStringAttr(value); };
  auto addResult = [&](Value value, Attribute role) {
    results.push_back(value);
    attributes.push_back(graph::Boundary::asDictionary(role));
  };
  SmallVector<Value> ends = leaves();
  if (ends.empty())
    ends.push_back(pickFloat());
  if (training) {
    // Something depends on a trainable parameter.
    Value first = ends.front();
    ends.front() =
        parts.mul(bounded(first, 64), addParameter(shapeOf(first), true));
    SmallVector<Value> sums;
    for (Value end : ends) {
      if (random.chance(30) && bound(end) <= 64)
        end = parts.mul(end, floatOf(shapeOf(end)));
      sums.push_back(parts.sum(
          end, llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(end).size()))));
    }
    Value most = parts.splat(sums[0], static_cast<double>(batch)), count = most;
    if (random.chance(40)) {
      // Counted: labels that are not negative.
      Value labels = addInput({batch}, builder.getI64Type());
      Value counted = parts.convert(
          parts.compare(labels, graph::Comparison::GE, parts.splat(labels, 0)),
          builder.getF32Type());
      count = parts.add(parts.sum(counted, {0}), 1);
    }
    auto addMean = [&](Value sum, Value over, StringRef name, double weight) {
      addResult(sum, graph::MeanAttr::get(builder.getContext(), text(name),
                                          weight != 0
                                              ? builder.getF64FloatAttr(weight)
                                              : FloatAttr(),
                                          graph::MeanKind::Arithmetic,
                                          /*further=*/false));
      addResult(over, graph::CountAttr::get(builder.getContext(), batch,
                                            /*least=*/FloatAttr()));
    };
    // With several sums the last is a term of its own if targets are counted,
    // and is logged.
    Value last = sums.back();
    bool isTerm = sums.size() > 1 && count != most;
    if (isTerm)
      sums.pop_back();
    Value loss = sums[0];
    for (Value sum : ArrayRef(sums).drop_front())
      loss = parts.add(loss, sum);
    addMean(loss, count, "first", 1);
    if (isTerm)
      addMean(last, most, "second", 0.5);
    addMean(last, count, "last", 0);
  } else {
    for (auto [i, leaf] : llvm::enumerate(ArrayRef(ends).take_front(4))) {
      Value end = leaf;
      // The runtime writes outputs by sample: what has no batch is a number,
      // and the first output is added to something that has one.
      ArrayRef<int64_t> shape = shapeOf(end);
      if (shape.empty() || shape[0] != batch) {
        end = parts.sum(end,
                        llvm::to_vector(llvm::seq<int64_t>(0, shape.size())));
        if (i == 0)
          end = parts.add(floatOf({batch}), parts.broadcast(end, {batch}, {0}));
      }
      addResult(end, graph::OutputAttr::get(text("y" + Twine(i))));
    }
  }
  for (auto &[argument, value] : updates)
    addResult(value, graph::NextAttr::get(builder.getContext(), argument));
  func::ReturnOp::create(builder, parts.location, results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(),
                                           ValueRange(results).getTypes()));
  function.setAllResultAttrs(attributes);

  Program program;
  program.module = std::move(module);
  program.mode = training ? "train" : "forward";
  program.microbatches = training ? random.pick({1, 1, 2, 3}) : 1;
  // Adam divides by a root that may be zero: with a small epsilon it would
  // scale a gradient of rounding errors up to full size.
  program.optimizer =
      random.pick({"sgd(lr=0.5)", "sgd(lr=0.5,momentum=0.5)",
                   "sgd(lr=0.25,momentum=0.5,nesterov=true,weight_decay=0.125)",
                   "adam(lr=0.125,eps=0.0625)", "adamw(lr=0.125,eps=0.0625)",
                   "lamb(lr=0.125,eps=0.0625,weight_decay=0.5,max_coeff=2)",
                   "adafactor(lr=0.125,eps=(0.25,0.5))",
                   "muon(lr=0.125,eps=1,ns_steps=2,adamw_eps=0.0625)"});
  return program;
}

Program polyrank::test::drawProgram(MLIRContext &context, uint64_t seed,
                                    const Sizes &sizes,
                                    ArrayRef<StringRef> ops) {
  Random random(seed);
  bool isTraining = random.chance(75);
  ProgramBuilder program(context, random, isTraining, sizes);
  SmallVector<OpEntry> entries;
  for (const OpEntry &entry : opTable())
    if (entry.build && (ops.empty() || llvm::is_contained(ops, entry.op)))
      entries.push_back(entry);
  // Each op is the focus in turn, so that none is missed by chance.
  const OpEntry &focus = entries[seed % entries.size()];
  int64_t numOps = random.between(1, 7), position = random.below(numOps);
  for (int64_t i = 0; i < numOps; ++i) {
    const OpEntry &entry = i == position ? focus : random.pick(entries);
    for (int attempt = 0; attempt < 8; ++attempt)
      if (entry.build(program))
        break;
  }
  if (random.chance(30))
    if (Value value = program.pickFloat(1, 2); program.bound(value) <= 64)
      program.addState(value);
  Program drawn = program.finish();
  Random types(seed ^ 0xbf16);
  if (types.chance(30))
    narrowSomeOps(*drawn.module, types);
  return drawn;
}

static uint64_t keyOf(StringRef name, uint64_t seed) {
  return llvm::xxh3_64bits(name) ^ seed;
}

Tensor polyrank::test::drawStored(graph::ParameterOp parameter, uint64_t seed) {
  Random random(keyOf(parameter.getSymName(), seed));
  Tensor tensor(cast<RankedTensorType>(parameter.getType()));
  for (int64_t i = 0, n = tensor.size(); i < n; ++i)
    tensor.set(i, 0.5 * random.between(-4, 4));
  return tensor;
}

SmallVector<Tensor>
polyrank::test::drawArguments(const evaluate::JointFunction &joint,
                              uint64_t seed) {
  auto module = joint.getFunctions().front()->getParentOfType<ModuleOp>();
  SmallVector<Tensor> arguments;
  for (auto [function, i] : joint.getArguments()) {
    graph::Boundary boundary(function);
    bool isCounter = !!boundary.getArgument<graph::CounterAttr>(i);
    std::string name = isCounter ? "" : boundary.getName(i);
    RankedTensorType type = evaluate::getGlobalType(function, i, false);
    Tensor &tensor = arguments.emplace_back(type);
    if (auto parameter = module.lookupSymbol<graph::ParameterOp>(name)) {
      Tensor stored = drawStored(parameter, seed);
      DenseI64ArrayAttr view = boundary.getView(i);
      if (!view) {
        tensor = stored.reshaped(type.getShape());
        continue;
      }
      int64_t next = 0;
      graph::forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
        int64_t from = view[0];
        for (auto [d, position] : llvm::enumerate(index))
          from += position * view[d + 1];
        tensor.copy(next++, stored, from);
      });
      continue;
    }
    Random random(keyOf(name, seed));
    auto state = boundary.getArgument<graph::StateAttr>(i);
    FloatAttr init = state ? state.getInit() : FloatAttr();
    auto rate = boundary.getArgument<graph::LearningRateAttr>(i);
    auto input = boundary.getArgument<graph::InputAttr>(i);
    std::optional<int64_t> limit, ignored;
    if (input)
      limit = input.getRange(), ignored = input.getIgnored();
    for (int64_t e = 0, n = tensor.size(); e < n; ++e) {
      if (init)
        tensor.set(e, init.getValueAsDouble());
      else if (rate)
        tensor.set(e, rate.getRate(0)); // as the runtime computes it
      else if (tensor.isFloat())
        tensor.set(e, 0.5 * random.between(-4, 4));
      else if (name.empty())
        tensor.set(e, 0); // the seed and its like
      else if (ignored && random.chance(20))
        tensor.set(e, *ignored);
      else if (limit)
        tensor.set(e, random.below(*limit));
      else
        // Indices are below 8 where they are valid at all.
        tensor.set(e, random.between(-1, 5));
    }
  }
  return arguments;
}
