// Schemas of operators in PyTorch's own notation, and the binding of arguments
// to them.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/aten/Value.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::frontends::aten {

/// The type of a parameter, such as "SymInt[2]?": a list of two integers, or
/// None.
struct SchemaType {
  enum class Base {
    Tensor,
    Scalar,
    Int,
    Float,
    Bool,
    String, // and Device
    Object, // a generator
    Dict,
    Any
  };
  Base base = Base::Any;
  bool isList = false, isOptional = false, hasOptionalElements = false;
  int64_t listSize = 0;   // one number fills so many elements; 0: no
  bool isWritten = false; // "Tensor(a!)"
};

struct SchemaParameter {
  std::string name;
  SchemaType type;
  bool isKeywordOnly = false;
  std::optional<Value> otherwise; // the default
};

struct Schema {
  std::string name, overload; // "add" and "Tensor"; no overload: ""
  std::vector<SchemaParameter> parameters;
};

/// Parses a text such as "add.Tensor(Tensor self, Tensor other, *, Scalar
/// alpha=1) -> Tensor". The return type is ignored. The texts are our own:
/// nullopt means that one is mistyped.
std::optional<Schema> parseSchema(llvm::StringRef text);

/// Returns the argument for each parameter, converted to its type; with
/// `converts` also by the conversions of TorchScript (see `call`). An error
/// says which argument does not fit.
Result<std::vector<Value>> bindArguments(
    const Schema &schema, Emitter &emit, llvm::ArrayRef<Value> positional,
    llvm::ArrayRef<std::pair<std::string, Value>> keywords, bool converts);

} // namespace polyrank::frontends::aten
