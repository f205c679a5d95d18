// Parses name(value, .., key=value, ..) and sums of such calls.

#include "compiler/training/Call.h"

#include <cmath>

#include "support/KeyValue.h"
#include "support/Names.h"
#include "support/arrays/Npy.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;

/// 1 if a character opens a bracket, -1 if it closes one, else 0.
static int nesting(char c) {
  return StringRef("([{").contains(c)   ? 1
         : StringRef(")]}").contains(c) ? -1
                                        : 0;
}

/// Splits at commas outside of brackets.
static SmallVector<StringRef> splitAtCommas(StringRef text) {
  SmallVector<StringRef> parts;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += nesting(text[i]);
    if (text[i] != ',' || depth > 0)
      continue;
    parts.push_back(text.slice(start, i));
    start = i + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

FailureOr<Call> polyrank::training::parseCall(StringRef text,
                                              EmitError emitError,
                                              ArrayRef<StringRef> flags) {
  Call call;
  text = text.trim();
  size_t open = text.find('(');
  call.name = text.take_front(open).trim().str();
  if (call.name.empty())
    return emitError() << "'" << text << "' has no name; expected NAME(..)";
  if (size_t space = StringRef(call.name).find_first_of(" ,:=");
      space != StringRef::npos)
    return emitError() << "'" << text << "' is not NAME(..); write "
                       << call.name.substr(0, space) << "(..)";
  if (open == StringRef::npos)
    return call;
  if (text.back() != ')')
    return emitError() << "'" << text << "' lacks the closing parenthesis";
  StringRef body = text.drop_front(open + 1).drop_back().trim();
  if (body.empty())
    return call;
  int depth = 0;
  for (char c : body)
    depth += nesting(c);
  if (depth != 0)
    return emitError() << "'" << text << "' has brackets that do not match";
  for (StringRef argument : splitAtCommas(body)) {
    argument = argument.trim();
    if (argument.empty())
      return emitError() << "'" << text << "' has an empty argument";
    if (!argument.contains('=') && !llvm::is_contained(flags, argument)) {
      if (!call.named.empty())
        return emitError() << "'" << text << "': '" << argument
                           << "' must come before the named arguments";
      call.positional.push_back(argument.str());
      continue;
    }
    KeyValue flag{argument, "true"};
    auto pair = argument.contains('=')
                    ? parsePair(argument, {"KEY=VALUE", "lr=1e-3"})
                    : Result<KeyValue>(flag);
    if (!pair)
      return emitError() << "'" << text << "': " << pair.error().message;
    StringRef key = pair->key, value = pair->value;
    for (auto &[other, otherValue] : call.named)
      if (other == key)
        return emitError() << "'" << text << "' gives '" << key << "' twice";
    call.named.push_back({key.str(), value.str()});
  }
  return call;
}

/// Splits at every + and - outside of brackets that does not belong to a
/// number. Each part begins with its sign; the first part may have none.
static SmallVector<StringRef> splitAtSigns(StringRef text) {
  SmallVector<StringRef> parts;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += nesting(text[i]);
    if (depth > 0 || (text[i] != '+' && text[i] != '-'))
      continue;
    StringRef before = text.slice(start, i);
    // The sign belongs to an exponent (1e-3) or begins the part.
    StringRef number = before.substr(before.find_last_of("+-*/ ") + 1);
    bool isExponent = number.size() > 1 && llvm::isDigit(number.front()) &&
                      (number.back() == 'e' || number.back() == 'E');
    if (isExponent || before.trim().empty() ||
        StringRef("*/").contains(before.rtrim().back()))
      continue;
    parts.push_back(before);
    start = i;
  }
  parts.push_back(text.substr(start));
  return parts;
}

/// Parses one term of a sum, without its sign.
static FailureOr<WeightedCall> parseTerm(StringRef text, EmitError emitError) {
  WeightedCall term;
  char operation = '*';
  while (true) {
    size_t end = 0;
    for (int depth = 0; end < text.size(); ++end) {
      depth += nesting(text[end]);
      if (depth <= 0 && (text[end] == '*' || text[end] == '/'))
        break;
    }
    StringRef factor = text.take_front(end).trim();
    double number = 0;
    if (!factor.getAsDouble(number)) {
      term.weight =
          operation == '*' ? term.weight * number : term.weight / number;
    } else if (factor.empty() || operation == '/' || !term.text.empty() ||
               factor.front() == '(') {
      return emitError() << "'" << text.trim() << "' is not a loss with its "
                         << "weight; write each as in 0.5*mse(OUTPUT,TARGET), "
                            "with a + between two";
    } else {
      FailureOr<Call> call = parseCall(factor, emitError);
      if (failed(call))
        return failure();
      term.call = *call;
      term.text = factor.str();
    }
    if (end == text.size())
      break;
    operation = text[end];
    text = text.drop_front(end + 1);
  }
  if (term.text.empty())
    return emitError() << "the weight " << term.weight
                       << " has no loss; write for instance 0.5*mse(OUTPUT,"
                          "TARGET)";
  if (!std::isfinite(term.weight))
    return emitError() << "the weight of '" << term.text
                       << "' is not a finite number";
  return term;
}

FailureOr<SmallVector<WeightedCall>>
polyrank::training::parseSum(StringRef text, EmitError emitError) {
  SmallVector<WeightedCall> terms;
  for (StringRef part : splitAtSigns(text.trim())) {
    part = part.trim();
    bool isNegative = part.starts_with("-");
    if (isNegative || part.starts_with("+"))
      part = part.drop_front();
    if (part.trim().empty())
      return emitError() << "'" << text
                         << "' lacks a loss; expected for instance "
                            "cross_entropy(A,LABELS)+0.5*mse(B,TARGET)";
    FailureOr<WeightedCall> term = parseTerm(part, emitError);
    if (failed(term))
      return failure();
    if (isNegative)
      term->weight = -term->weight;
    for (const WeightedCall &other : terms)
      if (other.text == term->text)
        return emitError() << "'" << text << "' has '" << term->text
                           << "' twice; give it the sum of both weights";
    terms.push_back(std::move(*term));
  }
  return terms;
}

const std::string *NamedArguments::find(StringRef name) {
  known.push_back(prefix + name.str());
  for (const auto &[key, value] : call.named)
    if (key == known.back()) {
      llvm::erase_if(rest, [&](auto &other) { return other.first == key; });
      return &value;
    }
  return nullptr;
}

void NamedArguments::reject(StringRef name, StringRef value,
                            StringRef expected) {
  emitError() << call.name << ": '" << prefix << name << "=" << value
              << "': expected " << expected;
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

void NamedArguments::take(StringRef name, std::optional<int64_t> &value) {
  const std::string *text = find(name);
  if (!text)
    return;
  if (StringRef(*text).getAsInteger(10, value.emplace()))
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

void NamedArguments::take(StringRef name, std::string &value) {
  const std::string *text = find(name);
  if (text && *text != "None")
    value = StringRef(*text).trim("'\"").str();
}

/// Splits 0.9:0.999, (0.9,0.999) or [0.9,0.999] into numbers.
static SmallVector<StringRef> splitNumbers(StringRef text) {
  bool isTuple = (text.starts_with("(") && text.ends_with(")")) ||
                 (text.starts_with("[") && text.ends_with("]"));
  if (isTuple)
    text = text.drop_front().drop_back().trim();
  SmallVector<StringRef> parts;
  text.split(parts, isTuple ? ',' : ':');
  // A tuple of one element: (0.9,).
  if (isTuple && parts.size() > 1 && parts.back().trim().empty())
    parts.pop_back();
  for (StringRef &part : parts)
    part = part.trim();
  return parts;
}

/// Reads the elements of a .npy file as numbers; an error says what is wrong
/// with it.
static polyrank::Result<std::vector<double>>
readNumbers(const std::string &path) {
  POLYRANK_ASSIGN(array, polyrank::openNpy(path));
  if (array.shape().size() != 1)
    return polyrank::Error{"'" + path + "' has " +
                           std::to_string(array.shape().size()) +
                           " dims; a row of numbers has one"};
  auto count = array.elements();
  std::vector<std::byte> stored(count * polyrank::bytesOf(array.type()));
  if (auto read = array.read(0, count, stored.data()); !read)
    return read.error();
  std::vector<double> numbers(count);
  if (auto bad = polyrank::convertValues(
          array.type(), stored.data(), count, polyrank::ElementType::F64, {},
          reinterpret_cast<std::byte *>(numbers.data())))
    return polyrank::Error{"'" + path + "' holds " + bad->value +
                           ", which is no float64"};
  return numbers;
}

void NamedArguments::take(StringRef name, SmallVectorImpl<double> &value) {
  const std::string *text = find(name);
  if (!text)
    return;
  if (StringRef(*text).ends_with(".npy")) {
    auto numbers = readNumbers(*text);
    if (numbers) {
      value.assign(numbers->begin(), numbers->end());
      return;
    }
    emitError() << call.name << ": '" << name
                << "': " << numbers.error().message;
    failed = true;
    return;
  }
  value.clear();
  for (StringRef part : splitNumbers(*text))
    if (part.getAsDouble(value.emplace_back()))
      return reject(name, *text,
                    "numbers, as in 0.2:1:3 or (0.2,1,3), or a file of them, "
                    "FILE.npy");
}

void NamedArguments::takePair(StringRef name, double &first, double &second) {
  double values[] = {first, second};
  takeTuple(name, values, "two numbers, as in (0.9,0.999)");
  first = values[0];
  second = values[1];
}

void NamedArguments::takeTuple(StringRef name, MutableArrayRef<double> values,
                               StringRef example) {
  const std::string *text = find(name);
  if (!text)
    return;
  SmallVector<StringRef> parts = splitNumbers(*text);
  bool isRight = parts.size() == values.size();
  for (auto [part, value] : llvm::zip(parts, values))
    isRight &= part == "None" || !part.getAsDouble(value);
  if (!isRight)
    reject(name, *text, example);
}

bool NamedArguments::drop(StringRef name) {
  const std::string *text = find(name);
  known.pop_back();
  return text && !StringRef(*text).equals_insensitive("false") &&
         *text != "None" && *text != "0";
}

LogicalResult NamedArguments::finish(StringRef hint) {
  for (auto &[key, value] : rest) {
    InFlightDiagnostic diagnostic = emitError();
    diagnostic << call.name << " has no option '" << key << "'; ";
    if (known.empty())
      diagnostic << "it has none";
    else
      diagnostic << "its options are: " << llvm::join(known, ", ")
                 << nearestWords(key, known);
    diagnostic << hint;
    failed = true;
  }
  return failure(failed);
}
