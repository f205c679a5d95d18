// The opcodes of the stack machine, which only produce values.

#include "frontends/archive/PickleReader.h"

namespace polyrank::frontends::archive {

using Kind = PickleValue::Kind;

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
  case '\x8a': { // two's complement, with a length byte
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
    push(Kind::String, text);
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
    addElements(push(Kind::Tuple), std::span(values));
    return;
  }
  case 'l': {
    auto values = popMarked();
    addElements(push(Kind::List), std::span(values));
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
    remember(read<uint8_t>());
    return;
  case 'r':
    remember(read<uint32_t>());
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
    throw Malformed{"holds " + nameOfOpcode(opcode) +
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
  addElements(*list, values);
}

void PickleReader::setItems(std::span<PickleValue *const> values) {
  PickleValue *dict = top();
  if (!dict->is(Kind::Dict))
    throw Malformed{"sets items of " + describe(*dict)};
  if (values.size() % 2 != 0)
    throw Malformed{"sets a key without a value"};
  addElements(*dict, values);
}

void PickleReader::checkDepth() const {
  struct Entry {
    const PickleValue *value;
    size_t next = 0;
  };
  // The longest path below each finished value; 0 while it is being walked.
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

} // namespace polyrank::frontends::archive
