// Names that differ in the numbers of layers.

#include "compiler/sharding/Layers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace polyrank::sharding;

static bool isNumber(StringRef part) {
  constexpr size_t mostDigits = 8;
  return !part.empty() && part.size() <= mostDigits && all_of(part, isDigit);
}

static std::string withoutNode(StringRef name) {
  size_t slash = name.rfind('/');
  return slash != StringRef::npos && name.ends_with("'")
             ? name.take_front(slash).str() + "'"
             : name.str();
}

static SmallVector<StringRef> split(StringRef path) {
  SmallVector<StringRef> parts;
  path.split(parts, '.');
  return parts;
}

static std::string toRange(const std::set<int> &numbers) {
  if (numbers.size() == 1)
    return std::to_string(*numbers.begin());
  int first = *numbers.begin(), last = *numbers.rbegin();
  if (last - first + 1 == static_cast<int>(numbers.size()))
    return formatv("[{0}-{1}]", first, last).str();
  std::string text;
  for (int number : numbers)
    text += (text.empty() ? "{" : ",") + std::to_string(number);
  return text + "}";
}

std::string Layers::getKey(StringRef name) {
  std::string path = withoutNode(name);
  SmallVector<StringRef> parts = split(path);
  for (StringRef &part : parts)
    if (isNumber(part))
      part = "#";
  return join(parts, ".");
}

void Layers::add(StringRef name) {
  if (!count++)
    first = name.str();
  std::string path = withoutNode(name);
  size_t position = 0;
  for (StringRef part : split(path))
    if (int number = 0; isNumber(part) && !part.getAsInteger(10, number)) {
      numbers.resize(std::max(numbers.size(), position + 1));
      numbers[position++].insert(number);
    }
}

std::string Layers::toString() const {
  if (count <= 1)
    return first;
  std::string path = withoutNode(first), text;
  size_t position = 0;
  for (StringRef part : split(path)) {
    text += text.empty() ? "" : ".";
    text += isNumber(part) ? toRange(numbers[position++]) : part.str();
  }
  return text;
}
