// Reads PyTorch's JSON into structs. Errors name their place: "expected string
// at model.json.graph_module.graph.nodes[0].target".

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/Budget.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h" // the places alone: llvm::json::Path
#include <nlohmann/json.hpp>

namespace polyrank::frontends::exported_program {

/// A document takes some 20 bytes per byte of its text. (An object of
/// llvm::json has a table of 64 entries, 4 kB, and here each size is an
/// object.)
using Json = nlohmann::json;

/// Parses `text`, in which NaN, Infinity and -Infinity may stand as Python
/// writes them; they become strings. Errors, also those for a text that is
/// nested too deeply, begin with `name`. The memory of the document and of the
/// structs that are read from it is taken from `budget`.
Result<Json> parseJson(llvm::StringRef text, const std::string &name,
                       Budget &budget);
inline Result<Json> parseJson(llvm::StringRef text, const std::string &name) {
  Budget budget(text.size());
  return parseJson(text, name, budget);
}

/// Returns a field of an object, or null if there is none or `value` is no
/// object.
const Json *getField(const Json &value, llvm::StringRef name);
/// Returns the field if it is a string or an integer, respectively.
std::optional<std::string> getText(const Json &value, llvm::StringRef name);
std::optional<int64_t> getInteger(const Json &value, llvm::StringRef name);

/// These, and the overloads for structs, return false and report to `path` if
/// the value is of another kind.
/// @{
bool readJson(const Json &value, std::string &into, llvm::json::Path path);
bool readJson(const Json &value, int64_t &into, llvm::json::Path path);
bool readJson(const Json &value, bool &into, llvm::json::Path path);

template <typename T>
bool readJson(const Json &value, std::optional<T> &into,
              llvm::json::Path path) {
  into.reset();
  return value.is_null() || readJson(value, into.emplace(), path);
}

template <typename T>
bool readJson(const Json &value, std::vector<T> &into, llvm::json::Path path) {
  if (!value.is_array()) {
    path.report("expected array");
    return false;
  }
  into.clear();
  into.reserve(value.size());
  for (const Json &each : value)
    if (size_t i = into.size();
        !readJson(each, into.emplace_back(), path.index(i)))
      return false;
  return true;
}

template <typename T>
bool readJson(const Json &value, std::map<std::string, T> &into,
              llvm::json::Path path) {
  if (!value.is_object()) {
    path.report("expected object");
    return false;
  }
  into.clear();
  for (auto entry = value.begin(); entry != value.end(); ++entry)
    if (!readJson(*entry, into[entry.key()], path.field(entry.key())))
      return false;
  return true;
}
/// @}

/// Reads the fields of an object one after another; false if the value is no
/// object.
class Fields {
public:
  Fields(const Json &value, llvm::json::Path path) : value(value), path(path) {
    if (!value.is_object())
      path.report("expected object");
  }
  explicit operator bool() const { return value.is_object(); }

  template <typename T>
  bool map(llvm::StringLiteral name, T &into) {
    if (const Json *field = getField(value, name))
      return readJson(*field, into, path.field(name));
    path.field(name).report("missing value");
    return false;
  }
  /// Leaves `into` unchanged if the field is absent.
  template <typename T>
  bool mapOptional(llvm::StringLiteral name, T &into) {
    const Json *field = getField(value, name);
    return !field || readJson(*field, into, path.field(name));
  }

private:
  const Json &value;
  llvm::json::Path path;
};

} // namespace polyrank::frontends::exported_program
