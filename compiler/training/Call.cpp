// Parsing of name(value, .., key=value, ..).

#include "compiler/training/Call.h"

#include "llvm/ADT/StringExtras.h"
#include "runtime/Names.h"

using namespace mlir;
using namespace polyrank::training;

FailureOr<Call> polyrank::training::parseCall(StringRef text,
                                              EmitError emitError) {
  Call call;
  text = text.trim();
  size_t open = text.find('(');
  call.name = text.take_front(open).trim().str();
  if (call.name.empty())
    return emitError() << "'" << text << "' has no name; expected NAME(..)";
  if (open == StringRef::npos)
    return call;
  if (text.back() != ')')
    return emitError() << "'" << text << "' lacks the closing parenthesis";
  StringRef body = text.drop_front(open + 1).drop_back().trim();
  if (body.empty())
    return call;
  SmallVector<StringRef> arguments;
  body.split(arguments, ',');
  for (StringRef argument : arguments) {
    argument = argument.trim();
    if (argument.empty())
      return emitError() << "'" << text << "' has an empty argument";
    if (!argument.contains('=')) {
      if (!call.named.empty())
        return emitError() << "'" << text << "': '" << argument
                           << "' must come before the named arguments";
      call.positional.push_back(argument.str());
      continue;
    }
    auto [key, value] = argument.split('=');
    key = key.trim();
    value = value.trim();
    if (key.empty() || value.empty())
      return emitError() << "'" << text << "': '" << argument
                         << "' is not KEY=VALUE";
    for (auto &[other, otherValue] : call.named)
      if (other == key)
        return emitError() << "'" << text << "' gives '" << key << "' twice";
    call.named.push_back({key.str(), value.str()});
  }
  return call;
}

const std::string *NamedArguments::find(StringRef name) {
  known.push_back(name.str());
  for (const auto &[key, value] : call.named)
    if (key == name) {
      llvm::erase_if(rest, [&](auto &other) { return other.first == name; });
      return &value;
    }
  return nullptr;
}

void NamedArguments::reject(StringRef name, StringRef value,
                            StringRef expected) {
  emitError() << call.name << ": '" << name << "=" << value << "': expected "
              << expected;
  failed = true;
}

void NamedArguments::take(StringRef name, double &value) {
  if (const std::string *text = find(name))
    if (StringRef(*text).getAsDouble(value))
      reject(name, *text, "a number");
}

void NamedArguments::take(StringRef name, int64_t &value) {
  if (const std::string *text = find(name))
    if (StringRef(*text).getAsInteger(10, value))
      reject(name, *text, "an integer");
}

void NamedArguments::take(StringRef name, bool &value) {
  const std::string *text = find(name);
  if (!text)
    return;
  StringRef lower = *text;
  if (lower.equals_insensitive("true") || lower == "1")
    value = true;
  else if (lower.equals_insensitive("false") || lower == "0")
    value = false;
  else
    reject(name, *text, "true or false");
}

void NamedArguments::take(StringRef name, SmallVectorImpl<std::string> &value) {
  const std::string *text = find(name);
  if (!text)
    return;
  SmallVector<StringRef> parts;
  StringRef(*text).split(parts, ':');
  value.assign(parts.begin(), parts.end());
}

void NamedArguments::takePair(StringRef name, double &first, double &second) {
  const std::string *text = find(name);
  if (!text)
    return;
  auto [left, right] = StringRef(*text).split(':');
  if (left.getAsDouble(first) || right.getAsDouble(second))
    reject(name, *text, "two numbers, as in 0.9:0.999");
}

LogicalResult NamedArguments::finish() {
  for (auto &[key, value] : rest) {
    InFlightDiagnostic diagnostic = emitError();
    diagnostic << call.name << " has no option '" << key << "'; ";
    if (known.empty())
      diagnostic << "it has none";
    else
      diagnostic << "its options are: " << llvm::join(known, ", ")
                 << runtime::nearestWords(key, known);
    failed = true;
  }
  return failure(failed);
}
