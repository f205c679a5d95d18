// The values of TorchScript's code other than tensors, numbers and containers:
// modules, functions, members of enumerations.

#pragma once

#include <map>
#include <memory>
#include <string>

#include "frontends/aten/Value.h"
#include "frontends/torchscript/Archive.h"

namespace polyrank::frontends::torchscript {

using aten::Value;

/// A module, or an object of another class.
struct Instance : aten::Object {
  std::string className; // "__torch__.nn.Linear"
  Archive::Found<Class> type;
  /// Its path in the model, "h.0.mlp"; "" for the model itself and for objects
  /// that are not modules. A module in several places has the first path.
  std::string path;
  std::map<std::string, Value, std::less<>> attributes;

  bool isModule() const { return type.definition->base == "Module"; }
};

/// A function of the archive, as a value.
struct FunctionValue : aten::Object {
  std::string name;
  Archive::Found<Function> function;
};

/// A member of an enumeration.
struct EnumMember : aten::Object {
  std::string className, name;
  Value value;
};

template <typename T>
std::shared_ptr<T> as(const Value &value) {
  return value.isObject() ? std::dynamic_pointer_cast<T>(value.getObject())
                          : nullptr;
}

} // namespace polyrank::frontends::torchscript
