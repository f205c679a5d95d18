// Lists, dicts and strings, which are known at import.

#include "frontends/aten/Call.h"
#include "frontends/aten/Nested.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// Returns `at` counted from the front; fails if it is outside a list of
/// `size`.
FailureOr<size_t> place(Call &c, int64_t at, size_t size) {
  auto count = static_cast<int64_t>(size);
  if (at < -count || at >= count)
    return c.fail("element " + Twine(at) + " of a list of " + Twine(count));
  return static_cast<size_t>(at < 0 ? at + count : at);
}

LogicalResult getElement(Call &c) {
  const List &list = c.all()[0].getElements();
  auto at = place(c, c.all()[1].getInt(), list.size());
  return failed(at) ? failure() : c.give(list[*at]);
}

LogicalResult setElement(Call &c) {
  List &list = c.all()[0].getList();
  auto at = place(c, c.all()[1].getInt(), list.size());
  if (failed(at))
    return failure();
  list[*at] = c.all()[2];
  return c.give(c.all()[0]);
}

/// Fails if a list of `size` elements, or a string of as many characters, is
/// too long.
LogicalResult checkSize(Call &c, size_t size) {
  if (size > maxListSize)
    return c.fail("a list or text of " + Twine(size) + " elements, more than " +
                  Twine(maxListSize));
  return success();
}

LogicalResult append(Call &c) {
  if (failed(checkSize(c, c.all()[0].getList().size() + 1)))
    return failure();
  c.all()[0].getList().push_back(c.all()[1]);
  return c.give(c.all()[0]);
}

LogicalResult extend(Call &c) {
  List added = c.all()[1].getElements(); // it may be the same list
  if (failed(checkSize(c, added.size() + c.all()[0].getList().size())))
    return failure();
  llvm::append_range(c.all()[0].getList(), added);
  return success();
}

LogicalResult insert(Call &c) {
  List &list = c.all()[0].getList();
  auto size = static_cast<int64_t>(list.size());
  if (failed(checkSize(c, list.size() + 1)))
    return failure();
  int64_t at = c.all()[1].getInt();
  at = std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  list.insert(list.begin() + at, c.all()[2]);
  return success();
}

LogicalResult pop(Call &c) {
  List &list = c.all()[0].getList();
  auto at = place(c, c.all()[1].getInt(), list.size());
  if (failed(at))
    return failure();
  Value value = list[*at];
  list.erase(list.begin() + static_cast<int64_t>(*at));
  return c.give(value);
}

LogicalResult clear(Call &c) {
  c.all()[0].getList().clear();
  return success();
}

LogicalResult reverse(Call &c) {
  List &list = c.all()[0].getList();
  std::reverse(list.begin(), list.end());
  return success();
}

LogicalResult copy(Call &c) {
  return c.give(Value::list(c.all()[0].getElements()));
}

LogicalResult length(Call &c) {
  const Value &value = c.all()[0];
  if (value.isTensor()) {
    if (value.getTensor()->getRank() == 0)
      return c.fail("the length of a tensor without dims");
    return c.give(Value(value.getTensor()->getShape()[0]));
  }
  size_t size = value.isString() ? value.getString().size()
                : value.isDict() ? value.getDict().size()
                                 : value.getElements().size();
  return c.give(Value(static_cast<int64_t>(size)));
}

/// Out-of-range bounds are clamped, as in Python.
LogicalResult slice(Call &c) {
  const Value &value = c.all()[0];
  auto size = static_cast<int64_t>(
      value.isString() ? value.getString().size() : value.getElements().size());
  int64_t step = c.integer("step");
  if (step < 1)
    return c.fail("a slice with step " + Twine(step));
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  int64_t start = clamp(c.integer("start", 0)),
          end = clamp(c.integer("end", size));
  List result;
  std::string text;
  for (int64_t at = start; at < end; at += std::min(step, size))
    if (value.isString())
      text += value.getString()[at];
    else
      result.push_back(value.getElements()[at]);
  return c.give(value.isString() ? Value(text)
                                 : Value::list(std::move(result)));
}

LogicalResult join(Call &c) {
  List list = c.all()[0].getElements();
  if (failed(checkSize(c, list.size() + c.all()[1].getElements().size())))
    return failure();
  llvm::append_range(list, c.all()[1].getElements());
  return c.give(Value::list(std::move(list)));
}

LogicalResult joinTexts(Call &c) {
  if (failed(checkSize(c, c.all()[0].getString().size() +
                              c.all()[1].getString().size())))
    return failure();
  return c.give(Value(c.all()[0].getString() + c.all()[1].getString()));
}

LogicalResult repeat(Call &c) {
  bool isFirst = c.all()[0].isList();
  const List &list = c.all()[isFirst ? 0 : 1].getList();
  int64_t times = std::max<int64_t>(0, c.all()[isFirst ? 1 : 0].getInt());
  if (static_cast<size_t>(times) > maxListSize ||
      times * list.size() > maxListSize)
    return c.fail("a list of more than " + Twine(maxListSize) + " elements");
  List result;
  for (int64_t i = 0; i < times; ++i)
    llvm::append_range(result, list);
  return c.give(Value::list(std::move(result)));
}

bool areEqual(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber())
    return a.getNumber() == b.getNumber();
  return a.isSame(b);
}

bool contains(const List &list, const Value &value) {
  return llvm::any_of(list,
                      [&](const Value &each) { return areEqual(each, value); });
}

template <bool isEqual>
LogicalResult compareLists(Call &c) {
  const List &a = c.all()[0].getElements(), &b = c.all()[1].getElements();
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = areEqual(a[i], b[i]);
  return c.give(Value(same == isEqual));
}

LogicalResult isInList(Call &c) {
  return c.give(Value(contains(c.all()[0].getElements(), c.all()[1])));
}

//===-- dicts ------------------------------------------------------------===//

Value *findEntry(Dict &dict, const Value &key) {
  for (auto &[each, value] : dict)
    if (areEqual(each, key))
      return &value;
  return nullptr;
}

LogicalResult getEntry(Call &c) {
  Value *found = findEntry(c.all()[0].getDict(), c.all()[1]);
  if (!found)
    return c.fail("a dict without " + c.all()[1].describe());
  return c.give(*found);
}

LogicalResult setEntry(Call &c) {
  Dict &dict = c.all()[0].getDict();
  if (Value *found = findEntry(dict, c.all()[1]))
    *found = c.all()[2];
  else
    dict.emplace_back(c.all()[1], c.all()[2]);
  return success();
}

/// The entry or, if it is missing, the given default, or None.
LogicalResult getOr(Call &c) {
  Value *found = findEntry(c.all()[0].getDict(), c.all()[1]);
  return c.give(found ? *found : c.all().size() > 2 ? c.all()[2] : Value());
}

LogicalResult hasEntry(Call &c) {
  return c.give(Value(findEntry(c.all()[0].getDict(), c.all()[1]) != nullptr));
}

LogicalResult keys(Call &c) {
  List result;
  for (const auto &[key, value] : c.all()[0].getDict())
    result.push_back(key);
  return c.give(Value::list(std::move(result)));
}

LogicalResult values(Call &c) {
  List result;
  for (const auto &[key, value] : c.all()[0].getDict())
    result.push_back(value);
  return c.give(Value::list(std::move(result)));
}

LogicalResult items(Call &c) {
  List result;
  for (const auto &[key, value] : c.all()[0].getDict())
    result.push_back(Value::tuple({key, value}));
  return c.give(Value::list(std::move(result)));
}

//===-- what is only said ------------------------------------------------===//

/// Ignores a warning that the model would print at run time.
LogicalResult warn(Call &) { return success(); }

const OperatorRow rows[] = {
    {"__getitem__.t(t[](a) list, int idx) -> t(*)", getElement},
    {"_set_item.t(t[](a!) l, int idx, t(b -> *) el) -> t[](a!)", setElement},
    {"append.t(t[](a!) self, t(c -> *) el) -> t[](a!)", append},
    {"extend.t(t[](a!) self, t[] other) -> ()", extend},
    {"insert.t(t[](a!) self, int idx, t(b -> *) el) -> ()", insert},
    {"pop.t(t[](a!) self, int idx=-1) -> t(*)", pop},
    {"clear.t(t[](a!) self) -> ()", clear},
    {"reverse.t(t[](a!) self) -> ()", reverse},
    {"copy.t(t[](a) self) -> t[]", copy},
    {"list.t(t[] l) -> t[]", copy},
    {"len.t(t[] a) -> int", length},
    {"len.Tensor(Tensor t) -> int", length},
    {"len.str(str s) -> int", length},
    {"len.Dict_str(Dict(str, t) self) -> int", length},
    {"len.Dict_int(Dict(int, t) self) -> int", length},
    {"len.Dict_bool(Dict(bool, t) self) -> int", length},
    {"len.Dict_float(Dict(float, t) self) -> int", length},
    {"slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]",
     slice},
    {"slice.str(str string, int? start=None, int? end=None, int step=1) "
     "-> str",
     slice},
    {"add.t(t[] a, t[] b) -> t[]", join},
    {"add_.t(t[](a!) self, t[] b) -> t[]", join},
    {"add.str(str a, str b) -> str", joinTexts},
    {"mul.left_t(t[] l, int n) -> t[]", repeat},
    {"mul.right_(int n, t[] l) -> t[]", repeat},
    {"eq.int_list(int[] a, int[] b) -> bool", compareLists<true>},
    {"eq.float_list(float[] a, float[] b) -> bool", compareLists<true>},
    {"eq.bool_list(bool[] a, bool[] b) -> bool", compareLists<true>},
    {"eq.str_list(str[] a, str[] b) -> bool", compareLists<true>},
    {"ne.int_list(int[] a, int[] b) -> bool", compareLists<false>},
    {"ne.float_list(float[] a, float[] b) -> bool", compareLists<false>},
    {"ne.bool_list(bool[] a, bool[] b) -> bool", compareLists<false>},
    {"ne.str_list(str[] a, str[] b) -> bool", compareLists<false>},
    {"__contains__.int_list(int[] l, int item) -> bool", isInList},
    {"__contains__.str_list(str[] l, str item) -> bool", isInList},
    {"__contains__.float_list(float[] l, float item) -> bool", isInList},
    {"__getitem__.Dict_str(Dict(str, t) self, str key) -> t(*)", getEntry},
    {"__getitem__.Dict_int(Dict(int, t) self, int key) -> t(*)", getEntry},
    {"__getitem__.Dict_bool(Dict(bool, t) self, bool key) -> t(*)", getEntry},
    {"__getitem__.Dict_float(Dict(float, t) self, float key) -> t(*)",
     getEntry},
    {"_set_item.str(Dict(str, t)(a!) l, str(b -> *) idx, t(c -> *) v) -> "
     "()",
     setEntry},
    {"_set_item.int(Dict(int, t)(a!) l, int(b -> *) idx, t(c -> *) v) -> "
     "()",
     setEntry},
    {"_set_item.bool(Dict(bool, t)(a!) l, bool(b -> *) idx, t(c -> *) v) "
     "-> ()",
     setEntry},
    {"_set_item.float(Dict(float, t)(a!) l, float(b -> *) idx, t(c -> *) "
     "v) -> ()",
     setEntry},
    {"get.str(Dict(str, t) self, str key) -> t(*)?", getOr},
    {"get.int(Dict(int, t) self, int key) -> t(*)?", getOr},
    {"get.bool(Dict(bool, t) self, bool key) -> t(*)?", getOr},
    {"get.float(Dict(float, t) self, float key) -> t(*)?", getOr},
    {"get.default_str(Dict(str, t) self, str key, t default_value) -> t(*)",
     getOr},
    {"get.default_int(Dict(int, t) self, int key, t default_value) -> t(*)",
     getOr},
    {"get.default_bool(Dict(bool, t) self, bool key, t default_value) -> "
     "t(*)",
     getOr},
    {"get.default_float(Dict(float, t) self, float key, t default_value) "
     "-> t(*)",
     getOr},
    {"__contains__.str(Dict(str, t) dict, str key) -> bool", hasEntry},
    {"__contains__.int(Dict(int, t) dict, int key) -> bool", hasEntry},
    {"__contains__.bool(Dict(bool, t) dict, bool key) -> bool", hasEntry},
    {"__contains__.float(Dict(float, t) dict, float key) -> bool", hasEntry},
    {"keys.str(Dict(str, t) self) -> str[](*)", keys},
    {"keys.int(Dict(int, t) self) -> int[](*)", keys},
    {"keys.bool(Dict(bool, t) self) -> bool[](*)", keys},
    {"keys.float(Dict(float, t) self) -> float[](*)", keys},
    {"values.str(Dict(str, t) self) -> t[](*)", values},
    {"values.int(Dict(int, t) self) -> t[](*)", values},
    {"values.bool(Dict(bool, t) self) -> t[](*)", values},
    {"values.float(Dict(float, t) self) -> t[](*)", values},
    {"items.str(Dict(str, t) self) -> ((str, t)[])", items},
    {"items.int(Dict(int, t) self) -> ((int, t)[])", items},
    {"items.bool(Dict(bool, t) self) -> ((bool, t)[])", items},
    {"items.float(Dict(float, t) self) -> ((float, t)[])", items},
    {"warn(str message, int stacklevel=2) -> ()", warn},
};

} // namespace

ArrayRef<OperatorRow> getListRows() { return rows; }

} // namespace polyrank::frontends::aten
