// Reads PyTorch's JSON into structs.

#include "frontends/exported_program/JsonFields.h"

#include <limits>

using llvm::StringRef;

namespace polyrank::frontends::exported_program {
namespace {

/// JSON that is nested more deeply is refused; graphs are only nested a few
/// levels.
constexpr int maxDepth = 256;

/// Quotes the numbers in the text that JSON lacks and Python writes (NaN,
/// Infinity); nullopt if it is nested too deeply.
std::optional<std::string> prepare(StringRef text) {
  std::string result;
  result.reserve(text.size());
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"')
        end += text[end] == '\\' ? 2 : 1;
      result += text.slice(i, std::min(end + 1, text.size()));
      i = end;
      continue;
    }
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > maxDepth)
      return std::nullopt;
    StringRef rest = text.drop_front(i), found;
    for (StringRef number : {"NaN", "Infinity", "-Infinity"})
      if (rest.starts_with(number))
        found = number;
    if (found.empty()) {
      result += c;
      continue;
    }
    result += '"';
    result += found;
    result += '"';
    i += found.size() - 1;
  }
  return result;
}

/// Builds a document from the events of the parser. (nlohmann's own builder
/// throws on invalid text, or says nothing about it.)
class Builder : public nlohmann::json_sax<Json> {
public:
  explicit Builder(Budget &budget) : budget(budget) {}

  Json root;
  std::string error;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override {
    return add(value);
  }
  bool string(string_t &value) override {
    return take(copies * value.size()) && add(std::move(value));
  }
  bool binary(binary_t &) override { return false; } // JSON has none
  bool start_object(size_t) override { return open(Json::object()); }
  bool key(string_t &name) override {
    if (!take(memberBytes + copies * name.size()))
      return false;
    next = &(*opened.back())[std::move(name)];
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &problem) override {
    error = problem.what();
    return false;
  }

private:
  /// The bytes of a value in the document, where vectors grow by doubling, and
  /// in the struct that is made of it (an Argument above all); the bytes of a
  /// member of an object in addition to its value; and the number of copies of
  /// each text.
  static constexpr uint64_t valueBytes = 192, memberBytes = 96, copies = 2;

  bool take(uint64_t bytes) {
    if (budget.take(bytes))
      return true;
    error = budget.describe();
    return false;
  }
  /// The place for the next value.
  Json &place() {
    if (opened.empty())
      return root;
    return opened.back()->is_array() ? opened.back()->emplace_back() : *next;
  }
  template <typename T>
  bool add(T &&value) {
    if (!take(valueBytes))
      return false;
    place() = std::forward<T>(value);
    return true;
  }
  bool open(Json container) {
    if (!take(valueBytes))
      return false;
    Json &here = place();
    here = std::move(container);
    opened.push_back(&here);
    return true;
  }
  bool close() {
    opened.pop_back();
    return true;
  }

  Budget &budget;
  /// The open containers. A container gets no further value while one in it is
  /// open, so that its address is stable.
  std::vector<Json *> opened;
  Json *next = nullptr; // in an object: the value of the last key
};

} // namespace

Result<Json> parseJson(StringRef text, const std::string &name,
                       Budget &budget) {
  if (!budget.take(text.size()))
    return Error{name + ": " + budget.describe()};
  auto prepared = prepare(text);
  if (!prepared)
    return Error{name + ": nested more than " + std::to_string(maxDepth) +
                 " deep"};
  Builder builder(budget);
  if (!Json::sax_parse(*prepared, &builder))
    return Error{name + ": " + builder.error};
  return std::move(builder.root);
}

const Json *getField(const Json &value, StringRef name) {
  if (!value.is_object())
    return nullptr;
  auto found = value.find(std::string_view(name));
  return found == value.end() ? nullptr : &*found;
}

std::optional<std::string> getText(const Json &value, StringRef name) {
  const Json *field = getField(value, name);
  if (!field || !field->is_string())
    return std::nullopt;
  return field->get_ref<const std::string &>();
}

static std::optional<int64_t> toInteger(const Json &value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())))
    return std::nullopt;
  return value.get<int64_t>();
}

std::optional<int64_t> getInteger(const Json &value, StringRef name) {
  const Json *field = getField(value, name);
  return field ? toInteger(*field) : std::nullopt;
}

bool readJson(const Json &value, std::string &into, llvm::json::Path path) {
  if (!value.is_string()) {
    path.report("expected string");
    return false;
  }
  into = value.get_ref<const std::string &>();
  return true;
}

bool readJson(const Json &value, int64_t &into, llvm::json::Path path) {
  auto integer = toInteger(value);
  if (!integer) {
    path.report("expected integer");
    return false;
  }
  into = *integer;
  return true;
}

bool readJson(const Json &value, bool &into, llvm::json::Path path) {
  if (!value.is_boolean()) {
    path.report("expected boolean");
    return false;
  }
  into = value.get<bool>();
  return true;
}

} // namespace polyrank::frontends::exported_program
