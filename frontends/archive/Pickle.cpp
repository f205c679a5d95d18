// Pickles as data: a stack machine whose only results are values.

#include "frontends/archive/Pickle.h"

#include <cstring>
#include <limits>
#include <unordered_map>

namespace polyrank::frontends::archive {

using Kind = PickleValue::Kind;

namespace {

/// Thrown where a pickle cannot be read; never leaves this file.
struct Malformed {
  std::string message;
};

/// What Python's pickletools calls the opcodes of protocols 0 to 5.
constexpr std::pair<char, const char *> opcodeNames[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'L', "LONG"},
    {'M', "BININT2"},
    {'N', "NONE"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'X', "BINUNICODE"},
    {'a', "APPEND"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET"},
    {'h', "BINGET"},
    {'i', "INST"},
    {'j', "LONG_BINGET"},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT"},
    {'\x80', "PROTO"},
    {'\x81', "NEWOBJ"},
    {'\x82', "EXT1"},
    {'\x83', "EXT2"},
    {'\x84', "EXT4"},
    {'\x85', "TUPLE1"},
    {'\x86', "TUPLE2"},
    {'\x87', "TUPLE3"},
    {'\x88', "NEWTRUE"},
    {'\x89', "NEWFALSE"},
    {'\x8a', "LONG1"},
    {'\x8b', "LONG4"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {'\x8c', "SHORT_BINUNICODE"},
    {'\x8d', "BINUNICODE8"},
    {'\x8e', "BINBYTES8"},
    {'\x8f', "EMPTY_SET"},
    {'\x90', "ADDITEMS"},
    {'\x91', "FROZENSET"},
    {'\x92', "NEWOBJ_EX"},
    {'\x93', "STACK_GLOBAL"},
    {'\x94', "MEMOIZE"},
    {'\x95', "FRAME"},
    {'\x96', "BYTEARRAY8"},
    {'\x97', "NEXT_BUFFER"},
    {'\x98', "READONLY_BUFFER"},
};

std::string nameOf(char opcode) {
  for (auto [code, name] : opcodeNames)
    if (code == opcode)
      return std::string("opcode ") + name;
  char text[8];
  std::snprintf(text, sizeof(text), "0x%02x", static_cast<uint8_t>(opcode));
  return std::string("opcode ") + text;
}

} // namespace

class PickleReader {
public:
  explicit PickleReader(std::span<const std::byte> bytes)
      : cursor(reinterpret_cast<const char *>(bytes.data())),
        end(cursor + bytes.size()) {}

  Pickle run() {
    if (next() != '\x80')
      throw Malformed{"does not begin as a pickle of protocol 2"};
    if (uint8_t protocol = read<uint8_t>(); protocol != 2)
      throw Malformed{"is a pickle of protocol " + std::to_string(protocol) +
                      ", where PyTorch writes 2"};
    while (char opcode = next()) {
      if (opcode == '.')
        return finish();
      execute(opcode);
    }
    throw Malformed{"holds opcode 0x00, which is none"};
  }

private:
  Pickle finish() {
    if (stack.size() != 1 || !marks.empty())
      throw Malformed{"ends with " + std::to_string(stack.size()) +
                      " values, not one"};
    if (cursor != end)
      throw Malformed{"goes on after its end"};
    result.top = stack.back();
    checkDepth();
    return std::move(result);
  }

  /// No value may be in itself, nor too deep: whoever walks the values may then
  /// do so by calling himself.
  void checkDepth() const;

  template <typename T>
  T read() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take(uint64_t size) {
    if (size > static_cast<uint64_t>(end - cursor))
      throw Malformed{"is cut off"};
    std::string_view text(cursor, size);
    cursor += size;
    return text;
  }
  char next() { return take(1)[0]; }
  std::string_view line() {
    auto *newline =
        static_cast<const char *>(std::memchr(cursor, '\n', end - cursor));
    if (!newline)
      throw Malformed{"is cut off"};
    std::string_view text = take(newline - cursor);
    take(1);
    return text;
  }

  PickleValue &push(Kind kind) {
    if (result.values.size() == Pickle::maxValues)
      throw Malformed{"holds more than " + std::to_string(Pickle::maxValues) +
                      " values"};
    PickleValue &value = result.values.emplace_back();
    value.kind = kind;
    stack.push_back(&value);
    return value;
  }
  void pushInt(int64_t integer) { push(Kind::Int).integer = integer; }

  PickleValue *pop() {
    if (stack.size() <= floor())
      throw Malformed{"takes a value from an empty stack"};
    PickleValue *value = stack.back();
    stack.pop_back();
    return value;
  }
  PickleValue *top() {
    if (stack.size() <= floor())
      throw Malformed{"takes a value from an empty stack"};
    return stack.back();
  }
  /// What lies below is no operand of the opcodes after a mark.
  size_t floor() const { return marks.empty() ? 0 : marks.back(); }

  /// The values since the last mark, which they are taken from the stack with.
  std::vector<PickleValue *> popMarked() {
    if (marks.empty())
      throw Malformed{"takes values up to a mark that is not there"};
    std::vector<PickleValue *> values(stack.begin() + marks.back(),
                                      stack.end());
    stack.resize(marks.back());
    marks.pop_back();
    return values;
  }

  void execute(char opcode);
  void tuple(size_t count);
  void append(std::span<PickleValue *const> values);
  void setItems(std::span<PickleValue *const> values);
  void global();
  void newObject();
  void build();
  void reduce();
  void storage();
  PickleValue &rebuildTensor(std::span<const PickleValue *const> arguments,
                             bool isUntyped);

  const char *cursor, *end;
  Pickle result;
  std::vector<PickleValue *> stack;
  std::vector<size_t> marks;
  std::unordered_map<uint32_t, PickleValue *> memo;
};

void PickleReader::execute(char opcode) {
  switch (opcode) {
  case '(':
    marks.push_back(stack.size());
    return;
  case 'N':
    push(Kind::None);
    return;
  case '\x88':
  case '\x89':
    push(Kind::Bool).integer = opcode == '\x88';
    return;
  case 'K':
    return pushInt(read<uint8_t>());
  case 'M':
    return pushInt(read<uint16_t>());
  case 'J':
    return pushInt(read<int32_t>());
  case '\x8a': { // two's complement of so many bytes
    std::string_view bytes = take(read<uint8_t>());
    if (bytes.size() > 8)
      throw Malformed{"holds an integer of more than 64 bits"};
    uint64_t integer = 0;
    for (size_t i = bytes.size(); i-- > 0;)
      integer = integer << 8 | static_cast<uint8_t>(bytes[i]);
    if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & '\x80'))
      integer |= ~uint64_t(0) << (8 * bytes.size());
    return pushInt(static_cast<int64_t>(integer));
  }
  case 'G': { // big-endian
    uint64_t bits = __builtin_bswap64(read<uint64_t>());
    std::memcpy(&push(Kind::Float).number, &bits, sizeof(bits));
    return;
  }
  case 'X': {
    std::string_view text = take(read<uint32_t>());
    push(Kind::String).text = text;
    return;
  }
  case ']':
    push(Kind::List);
    return;
  case '}':
    push(Kind::Dict);
    return;
  case ')':
    return tuple(0);
  case '\x85':
    return tuple(1);
  case '\x86':
    return tuple(2);
  case '\x87':
    return tuple(3);
  case 't': {
    auto values = popMarked();
    push(Kind::Tuple).elements.assign(values.begin(), values.end());
    return;
  }
  case 'l': {
    auto values = popMarked();
    push(Kind::List).elements.assign(values.begin(), values.end());
    return;
  }
  case 'a': {
    PickleValue *value = pop();
    return append({&value, 1});
  }
  case 'e':
    return append(popMarked());
  case 'd': {
    auto values = popMarked();
    push(Kind::Dict);
    return setItems(values);
  }
  case 's': {
    PickleValue *value = pop(), *key = pop();
    PickleValue *pair[] = {key, value};
    return setItems(pair);
  }
  case 'u':
    return setItems(popMarked());
  case 'q':
    memo[read<uint8_t>()] = top();
    return;
  case 'r':
    memo[read<uint32_t>()] = top();
    return;
  case 'h':
  case 'j': {
    uint32_t index = opcode == 'h' ? read<uint8_t>() : read<uint32_t>();
    auto found = memo.find(index);
    if (found == memo.end())
      throw Malformed{"refers to value " + std::to_string(index) +
                      " before it is there"};
    stack.push_back(found->second);
    return;
  }
  case 'c':
    return global();
  case '\x81':
    return newObject();
  case 'b':
    return build();
  case 'R':
    return reduce();
  case 'Q':
    return storage();
  default:
    throw Malformed{"holds " + nameOf(opcode) +
                    ", which PyTorch's files do not use"};
  }
}

void PickleReader::tuple(size_t count) {
  std::vector<const PickleValue *> elements(count);
  for (size_t i = count; i-- > 0;)
    elements[i] = pop();
  push(Kind::Tuple).elements = std::move(elements);
}

void PickleReader::append(std::span<PickleValue *const> values) {
  PickleValue *list = top();
  if (!list->is(Kind::List))
    throw Malformed{"appends to " + describe(*list)};
  list->elements.insert(list->elements.end(), values.begin(), values.end());
}

void PickleReader::setItems(std::span<PickleValue *const> values) {
  PickleValue *dict = top();
  if (!dict->is(Kind::Dict))
    throw Malformed{"sets items of " + describe(*dict)};
  if (values.size() % 2 != 0)
    throw Malformed{"sets a key without a value"};
  dict->elements.insert(dict->elements.end(), values.begin(), values.end());
}

/// Globals are values that only REDUCE and NEWOBJ look at; all others are
/// refused here, before anything is done with them.
void PickleReader::global() {
  std::string_view module = line(), name = line();
  std::string text = std::string(module) + "." + std::string(name);
  constexpr std::string_view functions[] = {
      "collections.OrderedDict",
      "torch._utils._rebuild_parameter",
      "torch._utils._rebuild_tensor_v2",
      "torch._utils._rebuild_tensor_v3",
      "torch.Size",
      "torch.device",
      "torch.jit._pickle.build_boollist",
      "torch.jit._pickle.build_doublelist",
      "torch.jit._pickle.build_intlist",
      "torch.jit._pickle.build_tensorlist",
      "torch.jit._pickle.restore_type_tag",
      "torch.serialization._get_layout",
      "torch.storage.UntypedStorage"};
  bool isKnown =
      module == "__torch__" || module.starts_with("__torch__.") ||
      (module == "torch" && (storageTypeOf(name) || scalarTypeOf(name)));
  for (std::string_view function : functions)
    isKnown |= text == function;
  if (!isKnown)
    throw Malformed{"names `" + text +
                    "`, which is none of the globals that PyTorch writes for "
                    "tensors and scripted classes; nothing of it was loaded"};
  push(Kind::Name).text = std::move(text);
}

static bool isClass(const PickleValue &value) {
  return value.is(Kind::Name) && value.text.starts_with("__torch__.");
}

void PickleReader::newObject() {
  const PickleValue *arguments = pop(), *type = pop();
  if (!isClass(*type))
    throw Malformed{"makes an object of " + describe(*type)};
  if (!arguments->is(Kind::Tuple) || !arguments->elements.empty())
    throw Malformed{"makes an object of `" + type->text + "` with arguments"};
  push(Kind::Object).text = type->text;
}

void PickleReader::build() {
  PickleValue *state = pop(), *object = top();
  // What Python sets on an OrderedDict (`_metadata` of a state_dict) is no
  // entry of it.
  if (object->is(Kind::Dict) && state->is(Kind::Dict))
    return;
  if (!object->is(Kind::Object) || !object->elements.empty())
    throw Malformed{"sets the state of " + describe(*object)};
  object->elements.push_back(state);
}

void PickleReader::reduce() {
  PickleValue *arguments = pop(), *function = pop();
  if (!function->is(Kind::Name) || !arguments->is(Kind::Tuple))
    throw Malformed{"calls " + describe(*function)};
  std::string_view name = function->text;
  std::span<const PickleValue *const> given = arguments->elements;
  auto need = [&](bool holds) {
    if (!holds)
      throw Malformed{"calls `" + std::string(name) +
                      "` with arguments that it does not take"};
  };
  auto is = [&](size_t i, Kind kind) {
    return i < given.size() && given[i]->is(kind);
  };
  if (isClass(*function)) { // a member of an enumeration
    push(Kind::Object).text = name;
    stack.back()->elements.assign(given.begin(), given.end());
  } else if (name == "collections.OrderedDict") {
    need(given.empty());
    push(Kind::Dict);
  } else if (name == "torch._utils._rebuild_tensor_v2") {
    need(is(0, Kind::Storage));
    rebuildTensor(given, /*isUntyped=*/false);
  } else if (name == "torch._utils._rebuild_tensor_v3") {
    need(is(0, Kind::Storage));
    rebuildTensor(given, /*isUntyped=*/true);
  } else if (name == "torch._utils._rebuild_parameter") {
    need(given.size() == 3 && is(0, Kind::Tensor) && is(1, Kind::Bool));
    PickleValue &parameter = push(Kind::Tensor);
    parameter.tensor = given[0]->tensor;
    parameter.tensor->requiresGrad = given[1]->integer != 0;
  } else if (name.starts_with("torch.jit._pickle.build_")) {
    need(given.size() == 1 && is(0, Kind::List));
    stack.push_back(const_cast<PickleValue *>(given[0]));
  } else if (name == "torch.jit._pickle.restore_type_tag") {
    need(given.size() == 2 && is(1, Kind::String));
    stack.push_back(const_cast<PickleValue *>(given[0]));
  } else if (name == "torch.Size") {
    need(given.size() == 1 && is(0, Kind::Tuple));
    stack.push_back(const_cast<PickleValue *>(given[0]));
  } else if (name == "torch.device") {
    need(!given.empty() && given.size() <= 2 && is(0, Kind::String));
    push(Kind::Name).text = "torch.device:" + given[0]->text;
  } else if (name == "torch.serialization._get_layout") {
    need(given.size() == 1 && is(0, Kind::String));
    push(Kind::Name).text = given[0]->text;
  } else {
    throw Malformed{"calls `" + std::string(name) + "`, which is no function"};
  }
}

/// The persistent id ('storage', class, key, device, elements).
void PickleReader::storage() {
  const PickleValue *id = pop();
  auto is = [&](size_t i, Kind kind) { return id->elements[i]->is(kind); };
  if (!id->is(Kind::Tuple) || id->elements.size() != 5 ||
      !is(0, Kind::String) || id->elements[0]->text != "storage" ||
      !is(1, Kind::Name) || !is(2, Kind::String) || !is(3, Kind::String) ||
      !is(4, Kind::Int))
    throw Malformed{"has a persistent id that is no storage"};
  std::string_view type = id->elements[1]->text;
  PickledStorage storage;
  if (type != "torch.storage.UntypedStorage") {
    storage.type = type.starts_with("torch.")
                       ? storageTypeOf(type.substr(strlen("torch.")))
                       : std::nullopt;
    if (!storage.type)
      throw Malformed{"has a storage of class `" + std::string(type) + "`"};
  }
  storage.key = id->elements[2]->text;
  storage.elements = id->elements[4]->integer;
  if (storage.elements < 0)
    throw Malformed{"has a storage of " + std::to_string(storage.elements) +
                    " elements"};
  push(Kind::Storage).storage = std::move(storage);
}

PickleValue &
PickleReader::rebuildTensor(std::span<const PickleValue *const> arguments,
                            bool isUntyped) {
  // (storage, offset, sizes, strides, requires_grad, hooks[, dtype][, bits])
  auto fail = [] {
    return Malformed{"has a tensor whose description is not understood"};
  };
  size_t number = isUntyped ? 7 : 6;
  if (arguments.size() != number && arguments.size() != number + 1)
    throw fail();
  auto integers = [&](const PickleValue &value) {
    if (!value.is(Kind::Tuple))
      throw fail();
    std::vector<int64_t> result;
    for (const PickleValue *element : value.elements) {
      if (!element->is(Kind::Int))
        throw fail();
      result.push_back(element->integer);
    }
    return result;
  };
  if (!arguments[1]->is(Kind::Int) || !arguments[4]->is(Kind::Bool) ||
      !arguments[5]->is(Kind::Dict))
    throw fail();
  if (!arguments[5]->elements.empty())
    throw Malformed{"has a tensor with hooks, which are Python code"};
  if (arguments.size() == number + 1 && (!arguments[number]->is(Kind::Dict) ||
                                         !arguments[number]->elements.empty()))
    throw Malformed{"has a tensor that is conjugated or negated when it is "
                    "read; save a copy of it (resolve_conj, resolve_neg)"};
  PickledTensor tensor;
  tensor.storage = *arguments[0]->storage;
  tensor.offset = arguments[1]->integer;
  tensor.sizes = integers(*arguments[2]);
  tensor.strides = integers(*arguments[3]);
  tensor.requiresGrad = arguments[4]->integer != 0;
  std::optional<ScalarType> type = tensor.storage.type;
  if (isUntyped) {
    std::string_view name = arguments[6]->text;
    type = arguments[6]->is(Kind::Name) && name.starts_with("torch.")
               ? scalarTypeOf(name.substr(strlen("torch.")))
               : std::nullopt;
  }
  if (!type)
    throw fail();
  tensor.type = *type;
  PickleValue &value = push(Kind::Tensor);
  value.tensor = std::move(tensor);
  return value;
}

void PickleReader::checkDepth() const {
  struct Entry {
    const PickleValue *value;
    size_t next = 0;
  };
  // The longest way below each value that is done; 0 while it is being walked.
  std::unordered_map<const PickleValue *, size_t> height;
  std::vector<Entry> path = {{result.top}};
  height[result.top] = 0;
  while (!path.empty()) {
    Entry &entry = path.back();
    if (path.size() > Pickle::maxDepth)
      throw Malformed{"nests values more than " +
                      std::to_string(Pickle::maxDepth) + " deep"};
    if (entry.next < entry.value->elements.size()) {
      const PickleValue *child = entry.value->elements[entry.next++];
      if (child->elements.empty())
        continue;
      auto [found, isNew] = height.try_emplace(child, 0);
      if (isNew) {
        path.push_back({child});
      } else if (found->second == 0) {
        throw Malformed{"holds a value that contains itself"};
      } else if (path.size() + found->second > Pickle::maxDepth) {
        throw Malformed{"nests values more than " +
                        std::to_string(Pickle::maxDepth) + " deep"};
      }
      continue;
    }
    size_t tallest = 1;
    for (const PickleValue *child : entry.value->elements)
      if (auto found = height.find(child); found != height.end())
        tallest = std::max(tallest, found->second + 1);
    height[entry.value] = tallest;
    path.pop_back();
  }
}

const PickleValue *PickleValue::find(std::string_view key) const {
  if (is(Kind::Object) && elements.size() == 1)
    return elements[0]->is(Kind::Dict) ? elements[0]->find(key) : nullptr;
  if (!is(Kind::Dict))
    return nullptr;
  // The last of equal keys counts, as in Python.
  for (size_t i = elements.size(); i >= 2; i -= 2)
    if (elements[i - 2]->is(Kind::String) && elements[i - 2]->text == key)
      return elements[i - 1];
  return nullptr;
}

std::string describe(const PickleValue &value) {
  switch (value.kind) {
  case Kind::None:
    return "None";
  case Kind::Bool:
    return "a bool";
  case Kind::Int:
    return "an int";
  case Kind::Float:
    return "a float";
  case Kind::String:
    return "a text";
  case Kind::List:
    return "a list";
  case Kind::Tuple:
    return "a tuple";
  case Kind::Dict:
    return "a dict";
  case Kind::Object:
    return "an object of class `" + value.text + "`";
  case Kind::Name:
    return "`" + value.text + "`";
  case Kind::Storage:
    return "a storage";
  case Kind::Tensor:
    return "a tensor";
  }
  return "";
}

Result<Pickle> Pickle::read(std::span<const std::byte> bytes,
                            const std::string &name) {
  try {
    return PickleReader(bytes).run();
  } catch (const Malformed &malformed) {
    return Error{name + ": " + malformed.message};
  }
}

} // namespace polyrank::frontends::archive
