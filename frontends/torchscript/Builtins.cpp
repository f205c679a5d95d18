// Python's own functions on lists, dicts, strings and truth values.

#include "frontends/torchscript/Builtins.h"

#include "frontends/torchscript/PythonValues.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace polyrank::frontends::torchscript {

using aten::Dict;
using aten::List;

namespace {

/// The result of a function; nullopt if it is none of those here.
using Outcome = std::optional<Result<Value>>;

/// The arguments of a function, and its errors.
struct Call {
  ArrayRef<Value> arguments;
  int64_t &left; // comparisons

  bool areEqual(const Value &a, const Value &b) const {
    return torchscript::areEqual(a, b, left);
  }
  Value *findKey(Dict &dict, const Value &key) const {
    return torchscript::findKey(dict, key, left);
  }

  size_t size() const { return arguments.size(); }
  const Value &operator[](size_t i) const { return arguments[i]; }
  Outcome fail(const Twine &message) const { return Error{message.str()}; }
  Outcome grown(const List &list) const {
    return list.size() > maxListSize ? tooLong("list") : arguments[0];
  }
  /// The error for a result with more elements than allowed.
  Outcome tooLong(const Twine &what) const {
    return fail("makes a " + what + " of more than " + Twine(maxListSize) +
                " elements");
  }
};

/// Functions that change the list.
Outcome changeList(StringRef name, const Call &call) {
  List &list = call[0].getList();
  size_t count = call.size();
  if (name == "append" && count == 2) {
    list.push_back(call[1]);
    return call.grown(list);
  }
  if (name == "extend" && count == 2 && call[1].isList()) {
    List more = call[1].getList(); // may be the same list
    llvm::append_range(list, more);
    return call.grown(list);
  }
  if (name == "insert" && count == 3 && call[1].isInt()) {
    int64_t size = list.size(), at = call[1].getInt();
    at = std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    list.insert(list.begin() + at, call[2]);
    return call.grown(list);
  }
  if (name == "pop" && count <= 2) {
    auto at = position(count == 2 ? call[1] : Value(-1), list.size());
    if (!at)
      return call.fail("pops an element that a list of " + Twine(list.size()) +
                       " has not");
    Value taken = list[*at];
    list.erase(list.begin() + *at);
    return taken;
  }
  if (name == "clear" && count == 1) {
    list.clear();
    return Value();
  }
  if (name == "reverse" && count == 1) {
    std::reverse(list.begin(), list.end());
    return Value();
  }
  if (name == "_set_item" && count == 3) {
    auto at = position(call[1], list.size());
    if (!at)
      return call.fail("writes element " + call[1].describe() +
                       " of a list of " + Twine(list.size()));
    list[*at] = call[2];
    return call[0];
  }
  if (name == "Delete" && count == 2) {
    auto at = position(call[1], list.size());
    if (!at)
      return call.fail("deletes an element that a list of " +
                       Twine(list.size()) + " has not");
    list.erase(list.begin() + *at);
    return Value();
  }
  if (name == "add_" && count == 2 && call[1].isList()) {
    List more = call[1].getList();
    llvm::append_range(list, more);
    return call.grown(list);
  }
  return std::nullopt;
}

Outcome callOnList(StringRef name, const Call &call) {
  if (Outcome changed = changeList(name, call))
    return changed;
  const List &list = call[0].getList();
  size_t count = call.size();
  if ((name == "any" || name == "all") && count == 1 &&
      llvm::all_of(list, [](const Value &e) { return e.isNumber(); })) {
    auto isTrue = [](const Value &e) { return e.getNumber() != 0; };
    return Value(name == "any" ? llvm::any_of(list, isTrue)
                               : llvm::all_of(list, isTrue));
  }
  if ((name == "copy" || name == "list") && count == 1)
    return Value::list(list);
  if (name == "add" && count == 2 && call[1].isList()) {
    if (list.size() + call[1].getList().size() > maxListSize)
      return call.tooLong("list");
    List both = list;
    llvm::append_range(both, call[1].getList());
    return Value::list(std::move(both));
  }
  if (name == "mul" && count == 2 && call[1].isInt()) {
    List repeated;
    for (int64_t i = 0; i < call[1].getInt(); ++i) {
      llvm::append_range(repeated, list);
      if (repeated.size() > maxListSize)
        return call.tooLong("list");
      if (list.empty())
        break;
    }
    return Value::list(std::move(repeated));
  }
  if (name == "slice" && count <= 4) {
    int64_t step = count == 4 && call[3].isInt() ? call[3].getInt() : 1;
    if (step == 0)
      return call.fail("slices a list in steps of 0");
    return Value::list(sliceOf(list, count > 1 ? call[1] : Value(),
                               count > 2 ? call[2] : Value(), step));
  }
  if (name == "index" && count == 2) {
    for (auto [i, element] : llvm::enumerate(list))
      if (call.areEqual(element, call[1]))
        return Value(int64_t(i));
    return call.fail("looks for a value that a list has not");
  }
  if (name == "count" && count == 2)
    return Value(int64_t(llvm::count_if(list, [&](const Value &element) {
      return call.areEqual(element, call[1]);
    })));
  return std::nullopt;
}

Outcome callOnDict(StringRef name, const Call &call) {
  Dict &dict = call[0].getDict();
  size_t count = call.size();
  if (name == "keys" || name == "values" || name == "items") {
    List result;
    for (auto &[key, value] : dict)
      result.push_back(name == "keys"     ? key
                       : name == "values" ? value
                                          : Value::tuple({key, value}));
    return Value::list(std::move(result));
  }
  if (name == "_set_item" && count == 3) {
    if (Value *known = call.findKey(dict, call[1]))
      *known = call[2];
    else
      dict.emplace_back(call[1], call[2]);
    if (dict.size() > maxListSize)
      return call.tooLong("dict");
    return Value();
  }
  if ((name == "get" || name == "setdefault" || name == "pop") && count >= 2) {
    if (Value *known = call.findKey(dict, call[1])) {
      Value value = *known;
      if (name == "pop")
        llvm::erase_if(
            dict, [&](auto &e) { return call.areEqual(e.first, call[1]); });
      return value;
    }
    if (count == 2 && name != "get")
      return call.fail("asks a dict for the key " + call[1].describe() +
                       ", which it has not");
    Value otherwise = count > 2 ? call[2] : Value();
    if (name == "setdefault")
      dict.emplace_back(call[1], otherwise);
    return otherwise;
  }
  if (name == "Delete" && count == 2) {
    size_t before = dict.size();
    llvm::erase_if(dict,
                   [&](auto &e) { return call.areEqual(e.first, call[1]); });
    if (dict.size() == before)
      return call.fail("deletes the key " + call[1].describe() +
                       ", which a dict has not");
    return Value();
  }
  if (name == "update" && count == 2 && call[1].isDict()) {
    Dict more = call[1].getDict();
    for (auto &[key, value] : more) {
      if (call.left == 0)
        break;
      if (Value *known = call.findKey(dict, key))
        *known = value;
      else
        dict.emplace_back(key, value);
    }
    return Value();
  }
  if (name == "clear" && count == 1) {
    dict.clear();
    return Value();
  }
  if ((name == "copy" || name == "dict") && count == 1)
    return Value::dict(dict);
  return std::nullopt;
}

/// Formats a string: its `{}` are replaced by the other arguments in order.
Outcome format(const Call &call) {
  StringRef pattern = call[0].getString();
  std::string result;
  size_t next = 1;
  while (!pattern.empty()) {
    auto [before, after] = pattern.split("{}");
    result += before;
    if (before.size() == pattern.size())
      break;
    if (next == call.size())
      return call.fail("formats a text with too few values");
    std::optional<std::string> text = toText(call[next++]);
    if (!text || result.size() + text->size() > maxListSize)
      return call.tooLong("text");
    result += *text;
    pattern = after;
  }
  if (result.size() > maxListSize)
    return call.tooLong("text");
  return Value(std::move(result));
}

Outcome join(const Call &call, ArrayRef<StringRef> parts, StringRef separator) {
  size_t size = parts.empty() ? 0 : (parts.size() - 1) * separator.size();
  for (StringRef part : parts)
    size += part.size();
  if (size > maxListSize)
    return call.tooLong("text");
  return Value(llvm::join(parts, separator));
}

Outcome callOnText(StringRef name, const Call &call) {
  const std::string &text = call[0].getString();
  size_t count = call.size();
  StringRef view(text);
  auto isText = [&](size_t i) { return i < count && call[i].isString(); };
  if (name == "add" && isText(1)) {
    if (text.size() + call[1].getString().size() > maxListSize)
      return call.tooLong("text");
    return Value(text + call[1].getString());
  }
  if (name == "format")
    return format(call);
  if (name == "lower")
    return Value(view.lower());
  if (name == "upper")
    return Value(view.upper());
  if (name == "strip" && count == 1)
    return Value(view.trim().str());
  if (name == "startswith" && isText(1))
    return Value(view.starts_with(call[1].getString()));
  if (name == "endswith" && isText(1))
    return Value(view.ends_with(call[1].getString()));
  if (name == "find" && isText(1) && count == 2) {
    size_t at = view.find(call[1].getString());
    return Value(at == StringRef::npos ? int64_t(-1) : int64_t(at));
  }
  if (name == "replace" && isText(1) && isText(2) && count == 3 &&
      !call[1].getString().empty()) {
    SmallVector<StringRef> parts;
    view.split(parts, call[1].getString());
    return join(call, parts, call[2].getString());
  }
  if (name == "split" && isText(1) && count == 2 &&
      !call[1].getString().empty()) {
    SmallVector<StringRef> parts;
    view.split(parts, call[1].getString());
    List result;
    for (StringRef part : parts)
      result.push_back(Value(part.str()));
    return Value::list(std::move(result));
  }
  if (name == "join" && count == 2 && call[1].isList()) {
    SmallVector<StringRef> parts;
    for (const Value &part : call[1].getList()) {
      if (!part.isString())
        return call.fail("joins what is no text");
      parts.push_back(part.getString());
    }
    return join(call, parts, text);
  }
  return std::nullopt;
}

bool holds(const Call &call, const Value &container, const Value &key) {
  if (container.isDict())
    return llvm::any_of(container.getDict(), [&](auto &entry) {
      return call.areEqual(entry.first, key);
    });
  if (container.isString())
    return key.isString() &&
           StringRef(container.getString()).contains(key.getString());
  return llvm::any_of(container.getElements(), [&](const Value &element) {
    return call.areEqual(element, key);
  });
}

bool hasTensor(const Value &value) {
  return !aten::forEachValue(
      value, [](const Value &each) { return !each.isTensor(); });
}

bool isContainer(const Value &value) {
  return value.isList() || value.isTuple() || value.isDict() ||
         value.isString();
}

} // namespace

std::optional<Result<Value>>
callBuiltin(StringRef name, ArrayRef<Value> arguments, int64_t &left) {
  if (!name.consume_front("aten::") || arguments.empty())
    return std::nullopt;
  Call call{arguments, left};
  size_t count = arguments.size();
  const Value &first = arguments[0];
  if (count == 2 && (name == "__is__" || name == "__isnot__")) {
    // The code only compares with None, or values that are one object in Python
    // too.
    return Value(first.isSame(arguments[1]) == (name == "__is__"));
  }
  if (name == "__not__" && count == 1 && first.isNumber())
    return Value(first.getNumber() == 0);
  if (count == 2 && first.isBool() && arguments[1].isBool()) {
    bool a = first.getBool(), b = arguments[1].getBool();
    if (name == "__and__")
      return Value(a && b);
    if (name == "__or__")
      return Value(a || b);
    if (name == "__xor__")
      return Value(a != b);
  }
  if (name == "_unwrap_optional" && count == 1) {
    if (first.isNone())
      return call.fail("takes the value of an Optional that is None");
    return first;
  }
  if (name == "warn")
    return Value();
  if (count == 2 && (name == "eq" || name == "ne")) {
    const Value &second = arguments[1];
    bool isOwn = isContainer(first) || isContainer(second) || first.isNone() ||
                 second.isNone() || first.isObject();
    if (isOwn && !hasTensor(first) && !hasTensor(second))
      return Value(call.areEqual(first, second) == (name == "eq"));
  }
  if (name == "len" && count == 1 && isContainer(first))
    return Value(int64_t(first.isDict()     ? first.getDict().size()
                         : first.isString() ? first.getString().size()
                                            : first.getElements().size()));
  if (name == "__contains__" && count == 2 && isContainer(first))
    return Value(holds(call, first, arguments[1]));
  if (name == "__getitem__" && count == 2 && isContainer(first))
    return elementOf(first, arguments[1], left);
  if (name == "list" && count == 1 && first.isString()) {
    List letters;
    for (char letter : first.getString())
      letters.push_back(Value(std::string(1, letter)));
    return Value::list(std::move(letters));
  }
  if (first.isList())
    return callOnList(name, call);
  if (first.isDict())
    return callOnDict(name, call);
  if (first.isString())
    return callOnText(name, call);
  return std::nullopt;
}

} // namespace polyrank::frontends::torchscript
