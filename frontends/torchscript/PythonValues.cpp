// Operations on Python's values.

#include "frontends/torchscript/PythonValues.h"

#include "frontends/aten/Nested.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace polyrank::frontends::torchscript {

using aten::Dict;
using aten::List;

Value *findKey(Dict &dict, const Value &key, int64_t &left) {
  for (auto &[known, value] : dict) {
    if (areEqual(known, key, left))
      return &value;
    if (left == 0)
      break;
  }
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

static bool areEqual(const Value &a, const Value &b, int depth, int64_t &left) {
  if (left == 0 || depth > aten::maxNesting)
    return false;
  --left;
  if (a.isString() && b.isString())
    left -= std::min<int64_t>(left, a.getString().size() / 64);
  if (a.isNumber() && b.isNumber()) {
    if (a.isInt() && b.isInt())
      return a.getInt() == b.getInt();
    return a.getNumber() == b.getNumber();
  }
  if ((a.isList() && b.isList()) || (a.isTuple() && b.isTuple())) {
    const List &first = a.getElements(), &second = b.getElements();
    return &first == &second ||
           (first.size() == second.size() &&
            llvm::all_of(llvm::zip(first, second), [&](auto pair) {
              return areEqual(std::get<0>(pair), std::get<1>(pair), depth + 1,
                              left);
            }));
  }
  if (auto first = as<EnumMember>(a))
    if (auto second = as<EnumMember>(b))
      return first->className == second->className &&
             areEqual(first->value, second->value, depth + 1, left);
  return a.isSame(b);
}

bool areEqual(const Value &a, const Value &b, int64_t &left) {
  int64_t most = std::min<int64_t>(left, aten::maxListSize), rest = most;
  bool are = areEqual(a, b, 0, rest);
  left -= most - rest;
  return are;
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
      if (step > end - i) // avoids overflow
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

Result<Value> elementOf(const Value &container, const Value &index,
                        int64_t &left) {
  if (container.isDict()) {
    if (Value *found = findKey(container.getDict(), index, left))
      return *found;
    return Error{"asks a dict for the key " +
                 toText(index).value_or(index.describe()) +
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
  return Error{"takes element " + toText(index).value_or(index.describe()) +
               " of " + container.describe()};
}

/// Appends the text of `value`; returns false if it does not fit.
static bool append(const Value &value, int depth, std::string &text) {
  if (depth > aten::maxNesting || text.size() > aten::maxListSize)
    return false;
  if (value.isNone()) {
    text += "None";
  } else if (value.isBool()) {
    text += value.getBool() ? "True" : "False";
  } else if (value.isInt()) {
    text += std::to_string(value.getInt());
  } else if (value.isString()) {
    text += value.getString();
  } else if (value.isFloat()) {
    raw_string_ostream(text) << llvm::format("%g", value.getFloat());
  } else if (value.isList() || value.isTuple()) {
    text += value.isList() ? '[' : '(';
    for (auto [i, element] : llvm::enumerate(value.getElements())) {
      text += i == 0 ? "" : ", ";
      if (!append(element, depth + 1, text))
        return false;
    }
    text += value.isList() ? ']' : ')';
  } else {
    text += "<" + value.describe() + ">";
  }
  return text.size() <= aten::maxListSize;
}

std::optional<std::string> toText(const Value &value) {
  std::string text;
  return append(value, 0, text) ? std::optional(std::move(text)) : std::nullopt;
}

} // namespace polyrank::frontends::torchscript
