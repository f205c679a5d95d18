// The stack machine that executes a pickle.

#pragma once

#include "frontends/archive/Pickle.h"

#include <cstring>
#include <unordered_map>

namespace polyrank::frontends::archive {

/// Thrown if a pickle cannot be read; Pickle::read turns it into an error.
struct Malformed {
  std::string message;
};

/// "opcode BINPUT", as Python's pickletools calls it.
std::string nameOfOpcode(char opcode);

class PickleReader {
public:
  PickleReader(std::span<const std::byte> bytes, Budget &budget)
      : cursor(reinterpret_cast<const char *>(bytes.data())),
        end(cursor + bytes.size()), budget(budget) {}

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

  /// Throws if a value contains itself or is nested too deeply, so that code
  /// may walk the values by recursion.
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

  PickleValue &push(PickleValue::Kind kind) {
    if (result.values.size() == Pickle::maxValues)
      throw Malformed{"holds more than " + std::to_string(Pickle::maxValues) +
                      " values"};
    charge(sizeof(PickleValue) + sizeof(void *));
    PickleValue &value = result.values.emplace_back();
    value.kind = kind;
    stack.push_back(&value);
    return value;
  }
  /// Pushes a value with a copy of `text`; each copy is charged, even if the
  /// pickle refers to the same text several times.
  PickleValue &push(PickleValue::Kind kind, std::string_view text) {
    charge(text.size());
    PickleValue &value = push(kind);
    value.text = text;
    return value;
  }
  /// Appends elements; a pickle may refer to one element many times.
  template <typename T>
  void addElements(PickleValue &value, std::span<T> elements) {
    charge(2 * sizeof(void *) * elements.size()); // vectors grow by doubling
    value.elements.insert(value.elements.end(), elements.begin(),
                          elements.end());
  }
  void charge(uint64_t bytes) {
    if (!budget.take(bytes))
      throw Malformed{budget.describe()};
  }
  void pushInt(int64_t integer) {
    push(PickleValue::Kind::Int).integer = integer;
  }

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
  /// Stores the top of the stack in the memo. The charge is that of a hash
  /// table node.
  void remember(uint32_t index) {
    charge(8 * sizeof(void *));
    memo[index] = top();
  }
  /// The start of the current frame: values below the last mark are no operands
  /// of the opcodes after it.
  size_t floor() const { return marks.empty() ? 0 : marks.back(); }

  /// Removes the last mark and the values above it from the stack, and returns
  /// them.
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
  /// Charges for a copy of the tensor.
  void chargeTensor(const PickledTensor &tensor) {
    charge(sizeof(PickledTensor) + tensor.storage.key.size() +
           sizeof(int64_t) * (tensor.sizes.size() + tensor.strides.size()));
  }
  PickleValue &rebuildTensor(std::span<const PickleValue *const> arguments,
                             bool isUntyped);

  const char *cursor, *end;
  Budget &budget;
  Pickle result;
  std::vector<PickleValue *> stack;
  std::vector<size_t> marks;
  std::unordered_map<uint32_t, PickleValue *> memo;
};

} // namespace polyrank::frontends::archive
