// Executes TorchScript's code: expressions without calls.

#include "frontends/torchscript/Interpreter.h"
#include "frontends/torchscript/PythonValues.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

std::optional<Value> Interpreter::evaluate(const Expression &expression,
                                           Frame &frame) {
  Level level(depth);
  if (isTooDeep(frame, expression.offset))
    return std::nullopt;
  auto value = evaluateKind(expression, frame);
  // Each use copies the string.
  if (value && value->isString() && !charge(*value, frame, expression.offset))
    return std::nullopt;
  return value;
}

std::optional<Value> Interpreter::evaluateKind(const Expression &expression,
                                               Frame &frame) {
  switch (expression.kind) {
  case Kind::None:
    return Value();
  case Kind::Bool:
    return Value(expression.integer != 0);
  case Kind::Int:
    return Value(expression.integer);
  case Kind::Float:
    return Value(expression.number);
  case Kind::String:
    return Value(expression.text);
  case Kind::Name:
    return evaluateName(expression, frame);
  case Kind::Attribute:
    return evaluateAttribute(expression, frame);
  case Kind::Call:
    return evaluateCall(expression, frame);
  case Kind::Subscript:
    return evaluateSubscript(expression, frame);
  case Kind::Slice:
    return stop(frame, expression.offset, "a slice stands outside of brackets");
  case Kind::List:
  case Kind::Tuple: {
    if (!countStep(frame, expression.offset))
      return std::nullopt;
    auto elements = evaluateAll(expression.operands, frame);
    if (!elements)
      return std::nullopt;
    Value made = expression.is(Kind::List) ? Value::list(std::move(*elements))
                                           : Value::tuple(std::move(*elements));
    keepNested(made);
    return made;
  }
  case Kind::Dict: {
    if (!countStep(frame, expression.offset))
      return std::nullopt;
    auto entries = evaluateAll(expression.operands, frame);
    if (!entries)
      return std::nullopt;
    aten::Dict dict;
    for (size_t i = 0; i + 1 < entries->size(); i += 2)
      dict.emplace_back((*entries)[i], (*entries)[i + 1]);
    Value made = Value::dict(std::move(dict));
    keepNested(made);
    return made;
  }
  case Kind::Negate: {
    auto value = evaluate(*expression.operands[0], frame);
    if (!value)
      return std::nullopt;
    if (value->isFloat())
      return Value(-value->getFloat());
    return callTable("aten::neg", {*value}, {}, expression.offset, frame);
  }
  }
  llvm_unreachable("covered switch");
}

std::optional<aten::List>
Interpreter::evaluateAll(ArrayRef<const Expression *> expressions,
                         Frame &frame) {
  if (!expressions.empty() &&
      !countStep(frame, expressions[0]->offset,
                 static_cast<int64_t>(expressions.size()) / elementsPerStep))
    return std::nullopt;
  aten::List values;
  for (const Expression *expression : expressions) {
    auto value = evaluate(*expression, frame);
    if (!value)
      return std::nullopt;
    values.push_back(std::move(*value));
  }
  return values;
}

std::optional<Value> Interpreter::evaluateName(const Expression &expression,
                                               const Frame &frame) {
  if (auto found = frame.locals.find(expression.text);
      found != frame.locals.end())
    return found->second;
  if (expression.text == "inf")
    return Value(std::numeric_limits<double>::infinity());
  if (expression.text == "nan")
    return Value(std::numeric_limits<double>::quiet_NaN());
  return stop(frame, expression.offset,
              "the name `" + Twine(expression.text) +
                  "` stands for nothing here");
}

/// Evaluates CONSTANTS.c0, a function `__torch__.f`, or a member
/// `__torch__.Color.RED`.
std::optional<Value> Interpreter::evaluateGlobal(const std::string &name,
                                                 const Expression &expression,
                                                 const Frame &frame) {
  StringRef rest(name);
  if (rest.consume_front("CONSTANTS.c")) {
    size_t number = 0;
    if (rest.getAsInteger(10, number) || number >= state.getConstants().size())
      return stop(frame, expression.offset,
                  "the file has no constant `" + Twine(name) + "`");
    return state.getConstants()[number];
  }
  auto function = archive.findFunction(name);
  if (!function)
    return stop(frame, expression.offset, function.error().message);
  if (function->definition) {
    auto value = std::make_shared<FunctionValue>();
    value->name = name;
    value->function = *function;
    return Value(std::shared_ptr<aten::Object>(value));
  }
  auto [className, member] = StringRef(name).rsplit('.');
  auto type = archive.findClass(className.str());
  if (!type)
    return stop(frame, expression.offset, type.error().message);
  if (type->definition && type->definition->base == "Enum")
    if (const Class::Field *field = type->definition->findField(member.str());
        field && field->value) {
      auto value = std::make_shared<EnumMember>();
      value->className = className.str();
      value->name = member.str();
      Frame inside{*type->file, type->module, ""};
      auto number = evaluate(*field->value, inside);
      if (!number)
        return std::nullopt;
      value->value = *number;
      return Value(std::shared_ptr<aten::Object>(value));
    }
  return stop(frame, expression.offset,
              "the file defines no `" + Twine(name) + "`");
}

std::optional<Value>
Interpreter::evaluateAttribute(const Expression &expression, Frame &frame) {
  std::string name = expression.dotted();
  if (!countStep(frame, expression.offset,
                 static_cast<int64_t>(name.size()) / charactersPerStep /
                     charactersPerStep))
    return std::nullopt;
  StringRef root = StringRef(name).split('.').first;
  if ((root == "CONSTANTS" || root == "__torch__") &&
      !frame.locals.count(root.str()))
    return evaluateGlobal(name, expression, frame);
  if (name == "math.inf" || name == "torch.inf")
    return Value(std::numeric_limits<double>::infinity());
  if (name == "math.nan" || name == "torch.nan")
    return Value(std::numeric_limits<double>::quiet_NaN());
  auto value = evaluate(*expression.operands[0], frame);
  if (!value)
    return std::nullopt;
  return attributeOf(*value, expression.text, expression, frame);
}

std::optional<Value> Interpreter::attributeOf(const Value &value,
                                              StringRef name,
                                              const Expression &expression,
                                              Frame &frame) {
  if (value.isUnknown())
    return value;
  if (auto instance = as<Instance>(value)) {
    if (training && name == "training" && instance->isModule())
      return Value(*training);
    auto found = instance->attributes.find(name);
    if (found != instance->attributes.end())
      return found->second;
    const Class::Field *field =
        instance->type.definition->findField(name.str());
    if (field && field->value) {
      Frame inside{*instance->type.file, instance->type.module, ""};
      return evaluate(*field->value, inside);
    }
    return stop(frame, expression.offset,
                "an object of class `" + Twine(instance->className) +
                    "` has no attribute `" + name + "`");
  }
  if (auto member = as<EnumMember>(value)) {
    if (name == "value")
      return member->value;
    if (name == "name")
      return Value(member->name);
  }
  return stop(frame, expression.offset,
              "attribute `" + Twine(name) + "` of " + value.describe() +
                  " is asked for");
}

std::optional<Value>
Interpreter::evaluateSubscript(const Expression &expression, Frame &frame) {
  auto container = evaluate(*expression.operands[0], frame);
  if (!container)
    return std::nullopt;
  const Expression &index = *expression.operands[1];
  auto bounds = index.is(Kind::Slice)
                    ? evaluateAll(index.operands, frame)
                    : evaluateAll({expression.operands[1]}, frame);
  if (!bounds)
    return std::nullopt;
  if (container->isUnknown() || llvm::any_of(*bounds, [](const Value &bound) {
        return bound.isUnknown();
      }))
    return Value::unknown();
  if (index.is(Kind::Slice) && !charge(*container, frame, expression.offset))
    return std::nullopt;
  if (index.is(Kind::Slice)) {
    if (!container->isTuple())
      return stop(frame, expression.offset,
                  "a slice is taken of " + container->describe());
    Value part = Value::tuple(
        sliceOf(container->getTuple(), (*bounds)[0], (*bounds)[1]));
    keepNested(part);
    return part;
  }
  if (auto instance = as<Instance>(*container);
      instance && (*bounds)[0].isString())
    return attributeOf(*container, (*bounds)[0].getString(), expression, frame);
  if (container->isTensor())
    return callTable("aten::__getitem__", {*container, (*bounds)[0]}, {},
                     expression.offset, frame);
  int64_t before = comparisonsLeft(), left = before;
  auto element = elementOf(*container, (*bounds)[0], left);
  if (!chargeComparisons(before, left, frame, expression.offset))
    return std::nullopt;
  if (!element)
    return stop(frame, expression.offset,
                "the code " + element.error().message);
  return std::move(*element);
}

} // namespace polyrank::frontends::torchscript
