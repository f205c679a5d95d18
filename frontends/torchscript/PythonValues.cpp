// What Python's values are to each other.

#include "frontends/torchscript/PythonValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace polyrank::frontends::torchscript {

using aten::Dict;
using aten::List;

Value *findKey(Dict &dict, const Value &key) {
  for (auto &[known, value] : dict)
    if (areEqual(known, key))
      return &value;
  return nullptr;
}

std::optional<size_t> position(const Value &index, size_t size) {
  if (!index.isInt())
    return std::nullopt;
  int64_t i = index.getInt() + (index.getInt() < 0 ? int64_t(size) : 0);
  if (i < 0 || i >= int64_t(size))
    return std::nullopt;
  return size_t(i);
}

bool areEqual(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber()) {
    if (a.isInt() && b.isInt())
      return a.getInt() == b.getInt();
    return a.getNumber() == b.getNumber();
  }
  if ((a.isList() && b.isList()) || (a.isTuple() && b.isTuple())) {
    const List &left = a.getElements(), &right = b.getElements();
    return left.size() == right.size() &&
           llvm::all_of(llvm::zip(left, right), [](auto pair) {
             return areEqual(std::get<0>(pair), std::get<1>(pair));
           });
  }
  if (auto left = as<EnumMember>(a))
    if (auto right = as<EnumMember>(b))
      return left->className == right->className &&
             areEqual(left->value, right->value);
  return a.isSame(b);
}

List sliceOf(const List &elements, const Value &first, const Value &last,
             int64_t step) {
  int64_t size = elements.size();
  auto bound = [&](const Value &value, int64_t otherwise, int64_t lowest,
                   int64_t highest) {
    if (!value.isInt())
      return otherwise;
    int64_t at = value.getInt();
    return std::clamp(at < 0 ? at + size : at, lowest, highest);
  };
  List result;
  if (step > 0) {
    int64_t start = bound(first, 0, 0, size), end = bound(last, size, 0, size);
    for (int64_t i = start; i < end; i += step) {
      result.push_back(elements[i]);
      if (step > end - i) // without an overflow
        break;
    }
  } else {
    int64_t start = bound(first, size - 1, -1, size - 1),
            end = bound(last, -1, -1, size - 1);
    for (int64_t i = start; i > end; i += step) {
      result.push_back(elements[i]);
      if (step < end - i)
        break;
    }
  }
  return result;
}

Result<Value> elementOf(const Value &container, const Value &index) {
  if (container.isDict()) {
    if (Value *found = findKey(container.getDict(), index))
      return *found;
    return Error{"asks a dict for the key " + toText(index) +
                 ", which it has not"};
  }
  if (container.isString()) {
    const std::string &text = container.getString();
    if (auto at = position(index, text.size()))
      return Value(std::string(1, text[*at]));
  } else if (container.isList() || container.isTuple()) {
    const List &elements = container.getElements();
    if (auto at = position(index, elements.size()))
      return elements[*at];
  } else {
    return Error{"takes an element of " + container.describe()};
  }
  return Error{"takes element " + toText(index) + " of " +
               container.describe()};
}

std::string toText(const Value &value) {
  if (value.isNone())
    return "None";
  if (value.isBool())
    return value.getBool() ? "True" : "False";
  if (value.isInt())
    return std::to_string(value.getInt());
  if (value.isString())
    return value.getString();
  if (value.isFloat()) {
    std::string text;
    raw_string_ostream(text) << llvm::format("%g", value.getFloat());
    return text;
  }
  if (value.isList() || value.isTuple()) {
    SmallVector<std::string> parts;
    for (const Value &element : value.getElements())
      parts.push_back(toText(element));
    std::string inside = llvm::join(parts, ", ");
    return value.isList() ? "[" + inside + "]" : "(" + inside + ")";
  }
  return "<" + value.describe() + ">";
}

} // namespace polyrank::frontends::torchscript
