// Parses KEY=VALUE.

#include "support/KeyValue.h"

#include <charconv>

namespace polyrank {
namespace {

template <typename Number>
std::optional<Number> parsed(std::string_view text) {
  Number number{};
  auto [end, status] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  bool isWhole = status == std::errc() && end == text.data() + text.size();
  return isWhole ? std::optional(number) : std::nullopt;
}

} // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string_view> splitList(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trim(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

Error notPair(std::string_view text, const PairForm &form) {
  return Error{"'" + std::string(text) + "' is not " + form.form + ", as in " +
               form.example};
}

Result<KeyValue> parsePair(std::string_view text, const PairForm &form,
                           Separator separator) {
  size_t equals =
      separator == Separator::First ? text.find('=') : text.rfind('=');
  if (equals == text.npos)
    return notPair(text, form);
  KeyValue pair{trim(text.substr(0, equals)), trim(text.substr(equals + 1))};
  if (pair.key.empty() || pair.value.empty())
    return notPair(text, form);
  return pair;
}

Result<std::vector<KeyValue>> parsePairs(std::string_view text,
                                         const PairForm &form) {
  std::vector<KeyValue> pairs;
  if (trim(text).empty())
    return pairs;
  for (std::string_view part : splitList(text, ',')) {
    POLYRANK_ASSIGN(pair, parsePair(part, form));
    pairs.push_back(pair);
  }
  return pairs;
}

std::optional<double> numberOf(std::string_view text) {
  return parsed<double>(text);
}

std::optional<int64_t> integerOf(std::string_view text) {
  return parsed<int64_t>(text);
}

std::optional<std::vector<double>> numbersOf(std::string_view text,
                                             size_t count) {
  std::vector<double> numbers;
  for (std::string_view part : splitList(text, ':')) {
    std::optional<double> number = numberOf(part);
    if (!number)
      return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers.size() == count ? std::optional(numbers) : std::nullopt;
}

} // namespace polyrank
