// Adjusts the arguments of an operator to hidden dims.

#include "frontends/aten/BatchedCall.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace polyrank::frontends::aten {

BatchedCall::BatchedCall(Context &context, StringRef name, const Schema &schema,
                         std::vector<Value> given)
    : context(context), name(name), schema(schema),
      arguments(std::move(given)) {
  forEachOperand([&](Value &operand) {
    auto batched = asBatched(operand);
    rank = std::max(rank, batched ? batched->getRank()
                                  : operand.getTensor()->getRank());
    if (!batched)
      return;
    for (auto [level, size] :
         llvm::zip(batched->levels, batched->tensor->getShape()))
      if (auto [at, isNew] = sizes.try_emplace(level, size);
          !isNew && at->second != size)
        error = "it has tensors of " + std::to_string(size) + " and of " +
                std::to_string(at->second) + " samples";
  });
  for (const auto &[level, size] : sizes)
    levels.push_back(level);
}

Value BatchedCall::run() {
  if (!error.empty())
    return fail(error);
  StringRef key = name;
  if (!key.consume_front("aten::"))
    return refuse();
  auto found = rules().find(key);
  bool writes = llvm::any_of(schema.parameters, [](const auto &parameter) {
    return parameter.type.isWritten;
  });
  if (found == rules().end() && key.consume_back("_"))
    found = rules().find(key);
  if (found == rules().end() || (writes && !found->second.mayWrite))
    return refuse();
  return (this->*found->second.rule)();
}

//===-- arguments --------------------------------------------------------===//

const Value &BatchedCall::operator[](StringRef parameter) const {
  static const Value none;
  for (auto [each, value] : llvm::zip_equal(schema.parameters, arguments))
    if (each.name == parameter)
      return value;
  return none;
}

void BatchedCall::set(StringRef parameter, Value value) {
  for (auto [each, argument] : llvm::zip_equal(schema.parameters, arguments))
    if (each.name == parameter)
      argument = std::move(value);
}

bool BatchedCall::isFirstOnly() const {
  return llvm::none_of(llvm::drop_begin(arguments), hasBatched);
}

void BatchedCall::forEachOperand(
    llvm::function_ref<void(Value &)> visit,
    llvm::function_ref<bool(const SchemaParameter &)> accepts) {
  for (auto [parameter, argument] :
       llvm::zip_equal(schema.parameters, arguments)) {
    if (!accepts(parameter))
      continue;
    if (heldTensor(argument))
      visit(argument);
    else if (argument.isList())
      for (Value &each : argument.getList())
        if (heldTensor(each))
          visit(each);
  }
}

//===-- calls ------------------------------------------------------------===//

Value BatchedCall::fail(const std::string &reason) const {
  context.failures.add(name.str() + " in torch.vmap: " + reason +
                           explainRegion().str(),
                       context.place);
  return Value::unknown();
}

Value BatchedCall::refuse() const {
  context.failures.addUnsupported(
      name.str() +
          " is not supported inside of torch.vmap, which it is "
          "called in" +
          explainRegion().str(),
      context.place);
  return Value::unknown();
}

Value BatchedCall::callHeld() const {
  Keywords given;
  for (auto [parameter, argument] :
       llvm::zip_equal(schema.parameters, arguments))
    given.emplace_back(parameter.name, argument);
  return call(context, name, StringRef(schema.overload), {}, given);
}

Value BatchedCall::wrap(const Value &result) const {
  if (result.isTensor())
    return Batched::of(result.getTensor(), levels);
  if (!result.isList() && !result.isTuple())
    return result;
  List elements;
  for (const Value &each : result.getElements())
    elements.push_back(wrap(each));
  return result.isList() ? Value::list(std::move(elements))
                         : Value::tuple(std::move(elements));
}

Value BatchedCall::viewed(const Value &tensor, ArrayRef<int64_t> shape) const {
  if (tensor.getTensor()->getShape() == shape)
    return tensor;
  return Tensor::viewOf(context.emit, tensor.getTensor(),
                        {View::Kind::Reshape, Shape(shape)});
}

Value BatchedCall::reshaped(const Value &result,
                            llvm::function_ref<Shape(Shape)> shapeOf) const {
  if (result.isTensor())
    return viewed(result, shapeOf(result.getTensor()->getShape()));
  if (!result.isList() && !result.isTuple())
    return result;
  List elements;
  for (const Value &each : result.getElements())
    elements.push_back(reshaped(each, shapeOf));
  return result.isList() ? Value::list(std::move(elements))
                         : Value::tuple(std::move(elements));
}

//===-- operands ---------------------------------------------------------===//

Shape BatchedCall::hidden() const {
  Shape shape;
  for (const auto &[level, size] : sizes)
    shape.push_back(size);
  return shape;
}

Shape BatchedCall::withHidden(ArrayRef<int64_t> shape) const {
  Shape whole = hidden();
  whole.append(shape.begin(), shape.end());
  return whole;
}

int64_t BatchedCall::rankOf(const Value &operand) {
  auto batched = asBatched(operand);
  return batched ? batched->getRank() : operand.getTensor()->getRank();
}

Shape BatchedCall::shapeOf(const Value &operand) {
  auto batched = asBatched(operand);
  return batched ? batched->getShape() : operand.getTensor()->getShape();
}

Value BatchedCall::align(const Value &operand, int64_t toRank,
                         bool isWhole) const {
  auto batched = asBatched(operand);
  if (!batched && !isWhole)
    return operand;
  TensorRef held = heldTensor(operand);
  Shape seen = shapeOf(operand), shape;
  for (int64_t level : levels)
    shape.push_back(batched && llvm::is_contained(batched->levels, level)
                        ? sizes.at(level)
                        : 1);
  shape.append(std::max<int64_t>(0, toRank - rankOf(operand)), 1);
  shape.append(seen.begin(), seen.end());
  Value aligned = viewed(held, shape);
  if (!isWhole)
    return aligned;
  llvm::copy(hidden(), shape.begin());
  return op("expand", {aligned, Value::ints(shape)});
}

bool BatchedCall::mayWrite() const {
  for (auto [parameter, argument] :
       llvm::zip_equal(schema.parameters, arguments)) {
    if (!parameter.type.isWritten)
      continue;
    auto batched = asBatched(argument);
    if (!batched || batched->numHidden() != numHidden() ||
        batched->getRank() != rank)
      return false;
  }
  return true;
}

/// Returns true for parameters that name dims, in all adjusted operators.
static bool namesDim(const SchemaParameter &parameter) {
  constexpr StringRef names[] = {"dim",    "dims",      "dim0",       "dim1",
                                 "axis0",  "axis1",     "start_dim",  "end_dim",
                                 "source", "dimension", "destination"};
  return parameter.type.base == SchemaType::Base::Int &&
         llvm::is_contained(names, parameter.name);
}

bool BatchedCall::shiftDims(int64_t ofRank) {
  auto shift = [&](Value &value) {
    int64_t dim = value.getInt();
    if (dim < -ofRank || dim >= ofRank)
      return false;
    value = Value((dim < 0 ? dim + ofRank : dim) + numHidden());
    return true;
  };
  for (auto [parameter, argument] :
       llvm::zip_equal(schema.parameters, arguments)) {
    if (!namesDim(parameter))
      continue;
    bool fits = true;
    if (argument.isInt())
      fits = shift(argument);
    else if (argument.isList())
      for (Value &each : argument.getList())
        fits = fits && shift(each);
    if (!fits) {
      fail("a dim that a tensor of " + std::to_string(ofRank) +
           " dims does not have");
      return false;
    }
  }
  return true;
}

//===-- operators that are adjusted --------------------------------------===//

/// Converts operands to the type that the operator computes in outside of vmap.
/// That depends on which operands have visible dims: those without take the
/// type of the others.
void BatchedCall::convertAligned(ElementType seen) {
  std::vector<Value> operands;
  forEachOperand([&](Value &operand) { operands.push_back(operand); });
  if (promoteTypes(operands) == seen)
    return;
  forEachOperand(
      [&](Value &operand) {
        ElementType type = operand.getTensor()->getType();
        if (type != seen && type != ElementType::BOOL &&
            isFloat(type) == isFloat(seen))
          operand =
              call(context, "aten::to", StringRef("dtype"),
                   {operand, Value(static_cast<int64_t>(rowOf(seen).torch))});
      },
      [](const auto &parameter) { return !parameter.type.isWritten; });
}

Value BatchedCall::adjustTo(bool isWhole) {
  if (!mayWrite())
    return fail("it writes what differs from sample to sample into a tensor "
                "that does not; make that of one that does (zeros_like)");
  bool inserts = name == "aten::unsqueeze" || name == "aten::stack";
  // For arguments that name dims, a tensor without dims counts as having one.
  bool isPoint =
      rank == 0 && !inserts &&
      llvm::any_of(
          llvm::zip_equal(schema.parameters, arguments), [](const auto &each) {
            const auto &[parameter, argument] = each;
            return namesDim(parameter) &&
                   (argument.isInt() ||
                    (argument.isList() && !argument.getList().empty()));
          });
  std::vector<Value> operands;
  forEachOperand([&](Value &operand) {
    operands.push_back(operand);
    operand =
        align(operand, (isWhole ? rankOf(operand) : rank) + (isPoint ? 1 : 0),
              isWhole);
  });
  if (operands.size() > 1 && !isWhole)
    convertAligned(promoteTypes(operands));
  if (!shiftDims(rank + (inserts || isPoint ? 1 : 0)))
    return Value::unknown();
  Value result = callHeld();
  if (isPoint)
    result = reshaped(result, [&](Shape shape) {
      while (static_cast<int64_t>(shape.size()) > numHidden() &&
             shape.back() == 1)
        shape.pop_back();
      return shape;
    });
  return wrap(result);
}

/// `index` is shared by all samples.
Value BatchedCall::wholeAlongIndex() {
  if (isBatched("index") || isBatched("value"))
    return fail("an index or a value that differs from sample to sample");
  if (!mayWrite())
    return adjustTo(/*isWhole=*/true);
  forEachOperand(
      [&](Value &operand) {
        operand = align(operand, rankOf(operand), /*isWhole=*/true);
      },
      [](const auto &parameter) {
        return parameter.name != "index" && parameter.name != "value";
      });
  return shiftDims(rank) ? wrap(callHeld()) : Value::unknown();
}

/// For operators that only use the type or shape of their other operands, such
/// as a conversion to their type.
Value BatchedCall::likeFirst() {
  auto first = asBatched(arguments[0]);
  levels.clear();
  if (first)
    levels = first->levels;
  forEachOperand([](Value &operand) { operand = heldTensor(operand); });
  return wrap(callHeld());
}

/// For layers whose first operand has, or may have, a batch dim of its own: the
/// hidden dims are merged into that batch.
Value BatchedCall::folded() {
  if (!isFirstOnly())
    return fail("a weight that differs from sample to sample");
  StringRef key = name;
  int64_t withoutBatch = 1; // number of dims without a batch
  for (int64_t spatial : {1, 2, 3})
    if (key.contains(std::to_string(spatial) + "d"))
      withoutBatch = spatial + 1;
  int64_t dims = rankOf(arguments[0]);
  if (dims < withoutBatch)
    return fail("a tensor of " + std::to_string(dims) + " dims");
  bool hasBatch = dims > withoutBatch;
  Shape shape = heldTensor(arguments[0])->getShape();
  auto end = shape.begin() + numHidden() + (hasBatch ? 1 : 0);
  Shape batch(shape.begin(), end), merged = {countElements(batch)};
  merged.append(end, shape.end());
  arguments[0] =
      op("reshape", {Value(heldTensor(arguments[0])), Value::ints(merged)});
  return wrap(reshaped(callHeld(), [&](Shape result) {
    Shape unfolded = batch;
    llvm::append_range(unfolded, ArrayRef<int64_t>(result).drop_front());
    return unfolded;
  }));
}

} // namespace polyrank::frontends::aten
