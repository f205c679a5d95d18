// Calls of the language itself: conversions, annotations, types.

#include "frontends/torchscript/Builtins.h"
#include "frontends/torchscript/Interpreter.h"
#include "frontends/torchscript/PythonValues.h"

#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

namespace {

/// The last part of a type's name: "int" for `int`, "Optional" for
/// `Optional[Tensor]`.
std::string typeName(const Expression &type) {
  if (type.is(Kind::Subscript))
    return type.operands[0]->dotted();
  if (type.is(Kind::None))
    return "NoneType";
  return type.dotted();
}

/// Returns true if `value` is of `type`; nullopt for a type that is not
/// supported, or if more than `left` values would have to be checked.
std::optional<bool> isOfType(const Value &value, const Expression &type,
                             size_t &left) {
  if (left == 0)
    return std::nullopt;
  --left;
  std::string name = typeName(type);
  if (name == "int")
    return value.isInt();
  if (name == "float")
    return value.isFloat();
  if (name == "bool")
    return value.isBool();
  if (name == "number" || name == "Scalar")
    return value.isNumber() && !value.isBool();
  if (name == "str" || name == "Device")
    return value.isString();
  if (name == "Tensor")
    return value.isTensor();
  if (name == "NoneType" || name == "None")
    return value.isNone();
  if (name == "Any")
    return true;
  if (name == "Dict" || name == "dict")
    return value.isDict();
  if (name == "list" || name == "tuple")
    return name == "list" ? value.isList() : value.isTuple();
  if (name.rfind("__torch__.", 0) == 0) {
    auto instance = as<Instance>(value);
    auto member = as<EnumMember>(value);
    return (instance && instance->className == name) ||
           (member && member->className == name);
  }
  if (!type.is(Kind::Subscript))
    return std::nullopt;
  const Expression &inner = *type.operands[1];
  if (name == "Optional")
    return value.isNone() ? std::optional<bool>(true)
                          : isOfType(value, inner, left);
  auto allOf = [&](const aten::List &elements) -> std::optional<bool> {
    for (const Value &element : elements) {
      auto is = isOfType(element, inner, left);
      if (!is || !*is)
        return is;
    }
    return true;
  };
  if (name == "List")
    return value.isList() ? allOf(value.getList()) : false;
  if (name == "Tuple") {
    SmallVector<const Expression *> parts = {&inner};
    if (inner.is(Kind::Tuple))
      parts.assign(inner.operands.begin(), inner.operands.end());
    if (!value.isTuple() || value.getTuple().size() != parts.size())
      return false;
    for (auto [element, part] : llvm::zip_equal(value.getTuple(), parts)) {
      auto is = isOfType(element, *part, left);
      if (!is || !*is)
        return is;
    }
    return true;
  }
  if (name == "Union" && inner.is(Kind::Tuple)) {
    for (const Expression *part : inner.operands) {
      auto is = isOfType(value, *part, left);
      if (!is || *is)
        return is;
    }
    return false;
  }
  return std::nullopt;
}

} // namespace

/// Converts a known tensor to nested lists of its elements.
bool Interpreter::toList(const Value &tensor, Value &result, Frame &frame) {
  if (tensor.getTensor()->getRank() == 0) {
    Imported read = tensor.getTensor()->read(context.emit);
    if (!read.isConstant())
      return false;
    bool isBool = tensor.getTensor()->getType() == ElementType::BOOL;
    const graph::Tensor &known = *read.constant;
    if (isBool)
      result = Value(known.integers[0] != 0);
    else if (isFloat(tensor.getTensor()->getType()))
      result = Value(known.floats[0]);
    else
      result = Value(int64_t(known.integers[0]));
    return true;
  }
  int64_t count = tensor.getTensor()->getShape()[0];
  if (count > int64_t(maxListSize))
    return false;
  aten::List elements;
  for (int64_t i = 0; i < count; ++i) {
    Value part = aten::call(context, "aten::select", std::nullopt,
                            {tensor, Value(int64_t(0)), Value(i)});
    Value element;
    if (!part.isTensor() || !toList(part, element, frame))
      return false;
    elements.push_back(std::move(element));
  }
  result = Value::list(std::move(elements));
  return true;
}

std::optional<std::optional<Value>>
Interpreter::callLanguage(StringRef name, const Expression &call,
                          Frame &frame) {
  using Result = std::optional<Value>;
  size_t count = call.operands.size() - 1;
  if (name == "annotate" && count == 2)
    return annotated(call, frame);
  if (name == "unchecked_cast" && count == 2)
    return evaluate(*call.operands[2], frame);
  if (name == "uninitialized" && count == 1)
    return Result(Value::unknown()); // the value is never read
  if (name == "isinstance" && count == 2)
    return isInstance(call, frame);
  if ((name == "int" || name == "float" || name == "bool" || name == "str") &&
      count == 1)
    return converted(name, call, frame);
  if (name == "getattr" && count == 2) {
    auto values = evaluateAll(argumentsOf(call), frame);
    if (!values)
      return Result();
    if (!(*values)[1].isString())
      return Result(stop(frame, call.offset, "an attribute has no name"));
    return attributeOf((*values)[0], (*values)[1].getString(), call, frame);
  }
  if (name == "print") { // has no effect on the computation
    if (!evaluateAll(argumentsOf(call), frame))
      return Result();
    return Result(Value());
  }
  if (name == "sorted" && count == 1) {
    auto value = evaluate(*call.operands[1], frame);
    if (!value)
      return Result();
    if (!value->isList() || !llvm::all_of(value->getList(), [](const Value &e) {
          return e.isNumber();
        }))
      return Result(stop(frame, call.offset,
                         value->describe() + " is sorted, which is only "
                                             "supported of numbers"));
    if (!charge(*value, frame, call.offset))
      return Result();
    aten::List sorted = value->getList();
    // NaN compares as less to no number, and no number to it, so there is no
    // order.
    if (llvm::any_of(sorted,
                     [](const Value &e) { return std::isnan(e.getNumber()); }))
      return Result(stop(frame, call.offset, "a list with a NaN is sorted"));
    llvm::sort(sorted, [](const Value &a, const Value &b) {
      return a.getNumber() < b.getNumber();
    });
    return Result(Value::list(std::move(sorted)));
  }
  if (name == "fork")
    return Result(stop(frame, call.offset,
                       "torch.jit.fork is not supported; call the function "
                       "directly"));
  return std::nullopt;
}

/// Evaluates `annotate`; a trace writes `annotate(number, tensor)` to convert a
/// tensor to a number.
std::optional<Value> Interpreter::annotated(const Expression &call,
                                            Frame &frame) {
  auto value = evaluate(*call.operands[2], frame);
  if (!value || !value->isTensor())
    return value;
  std::string type = typeName(*call.operands[1]);
  StringRef op =
      llvm::StringSwitch<StringRef>(type)
          .Cases({"number", "Scalar", "Union"}, "aten::ScalarImplicit")
          .Case("int", "aten::IntImplicit")
          .Case("float", "aten::FloatImplicit")
          .Default("");
  if (op.empty())
    return value;
  return callTable(op, {*value}, {}, call.offset, frame);
}

std::optional<Value>
Interpreter::converted(StringRef name, const Expression &call, Frame &frame) {
  auto value = evaluate(*call.operands[1], frame);
  if (!value || value->isUnknown())
    return value;
  if (name == "str") {
    if (!charge(*value, frame, call.offset))
      return std::nullopt;
    if (auto text = toText(*value))
      return Value(std::move(*text));
    return stop(frame, call.offset,
                "`str` of " + value->describe() + ", which has more than " +
                    Twine(maxListSize) + " characters");
  }
  if (value->isString()) {
    StringRef text(value->getString());
    int64_t integer = 0;
    double number = 0;
    if (name == "int" && !text.trim().getAsInteger(10, integer))
      return Value(integer);
    if (name == "float" && !text.trim().getAsDouble(number))
      return Value(number);
    return stop(frame, call.offset,
                "`" + Twine(name) + "` of " + value->describe());
  }
  if (value->isNumber()) {
    double number = value->getNumber();
    if (name == "bool")
      return Value(number != 0);
    if (name == "float")
      return Value(number);
    if (!value->isFloat())
      return Value(value->isInt() ? value->getInt() : int64_t(number));
    if (!(number > -0x1p63 && number < 0x1p63))
      return stop(frame, call.offset, "`int` of " + value->describe());
    return Value(static_cast<int64_t>(number));
  }
  if (!value->isTensor())
    return stop(frame, call.offset,
                "`" + Twine(name) + "` of " + value->describe());
  StringRef op = name == "int"     ? "aten::Int"
                 : name == "float" ? "aten::Float"
                                   : "aten::Bool";
  return callTable(op, {*value}, {}, call.offset, frame);
}

std::optional<Value> Interpreter::isInstance(const Expression &call,
                                             Frame &frame) {
  auto value = evaluate(*call.operands[1], frame);
  if (!value || value->isUnknown())
    return value;
  const Expression &type = *call.operands[2];
  SmallVector<const Expression *> types = {&type};
  if (type.is(Kind::Tuple))
    types.assign(type.operands.begin(), type.operands.end());
  size_t left = maxListSize;
  for (const Expression *each : types) {
    auto is = isOfType(*value, *each, left);
    if (!is)
      return stop(frame, call.offset,
                  "`isinstance` asks for the type `" + Twine(typeName(*each)) +
                      "`, which is not supported");
    if (*is || !countStep(frame, call.offset, (maxListSize - left) / 8))
      return *is ? std::optional<Value>(true) : std::nullopt;
  }
  return Value(false);
}

} // namespace polyrank::frontends::torchscript
