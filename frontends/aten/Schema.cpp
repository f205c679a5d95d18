// Parses schemas of operators in PyTorch's own notation, and binds arguments.

#include "frontends/aten/Schema.h"

#include "frontends/aten/Batched.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace polyrank::frontends::aten {

//===-- reading ----------------------------------------------------------===//

namespace {

/// Removes "(a!)"; returns true if it had a "!".
bool dropAlias(StringRef &text) {
  if (!text.consume_front("("))
    return false;
  auto [alias, rest] = text.split(')');
  text = rest;
  return alias.contains('!');
}

std::optional<SchemaType> parseType(StringRef text) {
  SchemaType type;
  if (text.starts_with("Dict(")) {
    type.base = SchemaType::Base::Dict;
    return type;
  }
  StringRef base = text.take_while([](char c) { return isAlnum(c); });
  text = text.drop_front(base.size());
  auto found =
      StringSwitch<std::optional<SchemaType::Base>>(base)
          .Case("Tensor", SchemaType::Base::Tensor)
          .Cases({"Scalar", "number"}, SchemaType::Base::Scalar)
          .Cases({"int", "SymInt", "ScalarType", "Layout", "MemoryFormat"},
                 SchemaType::Base::Int)
          .Case("float", SchemaType::Base::Float)
          .Case("bool", SchemaType::Base::Bool)
          .Cases({"str", "Device"}, SchemaType::Base::String)
          .Cases({"Generator", "PackedSequence"}, SchemaType::Base::Object)
          .Cases({"Any", "t", "t1", "t2"}, SchemaType::Base::Any)
          .Default(std::nullopt);
  if (!found)
    return std::nullopt;
  type.base = *found;
  type.isWritten = dropAlias(text);
  bool isOptional = text.consume_front("?");
  if (text.consume_front("[")) {
    type.isList = true;
    type.hasOptionalElements = isOptional;
    auto [size, rest] = text.split(']');
    if (!size.empty() && size.getAsInteger(10, type.listSize))
      return std::nullopt;
    text = rest;
    type.isWritten |= dropAlias(text);
    isOptional = text.consume_front("?");
  }
  type.isOptional = isOptional;
  if (!text.empty())
    return std::nullopt;
  return type;
}

std::optional<Value> parseDefault(StringRef text) {
  if (text == "None")
    return Value();
  if (text == "True" || text == "False")
    return Value(text == "True");
  if (text.consume_front("[")) {
    List elements;
    SmallVector<StringRef> parts;
    text.drop_back().split(parts, ',', -1, /*KeepEmpty=*/false);
    for (StringRef part : parts) {
      auto element = parseDefault(part.trim());
      if (!element)
        return std::nullopt;
      elements.push_back(*element);
    }
    return Value::list(std::move(elements));
  }
  if (text.size() > 1 && (text.front() == '\'' || text.front() == '"'))
    return Value(text.drop_front().drop_back().str());
  int64_t integer;
  if (!text.getAsInteger(10, integer))
    return Value(integer);
  double number;
  if (!text.getAsDouble(number))
    return Value(number);
  return std::nullopt;
}

} // namespace

std::optional<Schema> parseSchema(StringRef text) {
  Schema schema;
  auto [name, rest] = text.split('(');
  schema.name = name.split('.').first.str();
  schema.overload = name.split('.').second.str();
  bool isKeywordOnly = false;
  // Finds the parenthesis that closes the parameters.
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    char c = rest[i];
    bool isEnd = c == ')' && depth == 0;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (!isEnd && (c != ',' || depth != 0))
      continue;
    StringRef part = rest.slice(start, i).trim();
    start = i + 1;
    if (part == "*") {
      isKeywordOnly = true;
    } else if (!part.empty()) {
      auto [declaration, otherwise] = part.split('=');
      auto [type, parameter] = declaration.rsplit(' ');
      auto parsed = parseType(type);
      if (!parsed)
        return std::nullopt;
      SchemaParameter &added = schema.parameters.emplace_back();
      added.name = parameter.str();
      added.type = *parsed;
      added.isKeywordOnly = isKeywordOnly;
      if (!otherwise.empty()) {
        added.otherwise = parseDefault(otherwise);
        if (!added.otherwise)
          return std::nullopt;
        if (added.type.base == SchemaType::Base::Float &&
            added.otherwise->isInt())
          added.otherwise = added.otherwise->getNumber();
      }
    }
    if (isEnd)
      return schema;
  }
  return std::nullopt;
}

//===-- binding ----------------------------------------------------------===//

/// The value of a known tensor of one element, as a number.
static std::optional<Value> toNumber(Emitter &emit, const Value &value) {
  if (!value.isTensor() || value.getTensor()->getRank() != 0)
    return std::nullopt;
  Tensor &tensor = *value.getTensor();
  Imported x = tensor.read(emit);
  if (!x.isConstant())
    return std::nullopt;
  if (isFloat(tensor.getType()))
    return Value(x.constant->floats[0]);
  int64_t integer = x.constant->integers[0];
  return tensor.getType() == ElementType::BOOL ? Value(integer != 0)
                                               : Value(integer);
}

/// `value` converted to one element of the type; nullopt if it does not fit.
static std::optional<Value> fitElement(const SchemaType &type, Emitter &emit,
                                       const Value &value, bool converts) {
  using Base = SchemaType::Base;
  auto converted = [&]() -> std::optional<Value> {
    if (!converts)
      return std::nullopt;
    return toNumber(emit, value);
  };
  switch (type.base) {
  case Base::Tensor:
    if (heldTensor(value))
      return value;
    if (converts && value.isNumber())
      return tensorOf(emit, value, /*isWrappedNumber=*/true);
    return std::nullopt;
  case Base::Scalar:
    return value.isNumber() ? value : converted();
  case Base::Int:
    if (value.isInt())
      return value;
    if (converts && value.isBool())
      return Value(static_cast<int64_t>(value.getBool()));
    if (auto number = converted(); number && !number->isFloat())
      return Value(static_cast<int64_t>(number->getNumber()));
    return std::nullopt;
  case Base::Float:
    if (value.isFloat())
      return value;
    if (converts && value.isInt())
      return Value(value.getNumber());
    if (auto number = converted())
      return Value(number->getNumber());
    return std::nullopt;
  case Base::Bool:
    if (value.isBool())
      return value;
    if (auto number = converted())
      return Value(number->getNumber() != 0);
    return std::nullopt;
  case Base::String:
    return value.isString() ? std::optional(value) : std::nullopt;
  case Base::Object:
    return value.isObject() ? std::optional(value) : std::nullopt;
  case Base::Dict:
    return value.isDict() ? std::optional(value) : std::nullopt;
  case Base::Any:
    return value;
  }
  llvm_unreachable("covered switch");
}

static std::optional<Value> fit(const SchemaType &type, Emitter &emit,
                                const Value &value, bool converts) {
  if (value.isNone() && type.isOptional)
    return value;
  if (!type.isList)
    return fitElement(type, emit, value, converts);
  if (!value.isList() && !value.isTuple()) {
    // A single number stands for all dims.
    if (type.listSize == 0)
      return std::nullopt;
    auto element = fitElement(type, emit, value, converts);
    if (!element)
      return std::nullopt;
    return Value::list(List(type.listSize, *element));
  }
  // Type Any takes the list itself, which may be modified.
  if (type.base == SchemaType::Base::Any)
    return value;
  List elements;
  for (const Value &each : value.getElements()) {
    if (each.isNone() && type.hasOptionalElements) {
      elements.push_back(each);
      continue;
    }
    auto element = fitElement(type, emit, each, converts);
    if (!element)
      return std::nullopt;
    elements.push_back(*element);
  }
  return Value::list(std::move(elements));
}

Result<std::vector<Value>>
bindArguments(const Schema &schema, Emitter &emit, ArrayRef<Value> positional,
              ArrayRef<std::pair<std::string, Value>> keywords, bool converts) {
  std::vector<Value> result;
  size_t used = 0;
  for (const auto &[i, parameter] : enumerate(schema.parameters)) {
    const Value *given = nullptr;
    if (i < positional.size() && !parameter.isKeywordOnly)
      given = &positional[i];
    for (const auto &[name, value] : keywords)
      if (name == parameter.name) {
        if (given)
          return Error{"its argument `" + name + "` is given twice"};
        given = &value;
        ++used;
      }
    if (given) {
      auto fitted = fit(parameter.type, emit, *given, converts);
      if (!fitted)
        return Error{"its argument `" + parameter.name + "` is " +
                     given->describe()};
      result.push_back(*fitted);
    } else if (parameter.otherwise) {
      result.push_back(*parameter.otherwise);
      if (parameter.type.listSize && parameter.otherwise->isInt())
        result.back() =
            Value::list(List(parameter.type.listSize, *parameter.otherwise));
      else if (parameter.otherwise->isList())
        result.back() = Value::list(parameter.otherwise->getList());
    } else if (parameter.type.isOptional) {
      result.emplace_back();
    } else {
      return Error{"its argument `" + parameter.name + "` is missing"};
    }
  }
  size_t most = llvm::count_if(
      schema.parameters, [](const auto &each) { return !each.isKeywordOnly; });
  if (positional.size() > most)
    return Error{"it has " + std::to_string(positional.size()) +
                 " arguments without a name, of which it takes " +
                 std::to_string(most)};
  if (used != keywords.size())
    for (const auto &[name, value] : llvm::reverse(keywords))
      if (none_of(schema.parameters,
                  [&](const auto &each) { return each.name == name; }))
        return Error{"it has no argument `" + name + "`"};
  return result;
}

} // namespace polyrank::frontends::aten
