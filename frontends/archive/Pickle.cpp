// Pickles as data.

#include "frontends/archive/PickleReader.h"

namespace polyrank::frontends::archive {

using Kind = PickleValue::Kind;

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
                            const std::string &name, Budget &budget) {
  try {
    return PickleReader(bytes, budget).run();
  } catch (const Malformed &malformed) {
    return Error{name + ": " + malformed.message};
  }
}

} // namespace polyrank::frontends::archive
