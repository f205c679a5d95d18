// Reads and prints the fields of options.

#include "support/OptionTable.h"

#include "support/KeyValue.h"
#include "support/LearningRate.h"
#include "support/Names.h"

#include <cctype>
#include <concepts>
#include <cstdio>
#include <limits>

namespace polyrank {
namespace {

/// Helper of std::visit: one overload for each kind of field.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

template <typename Number>
std::string setNumber(Number &field, const std::string &text) {
  if constexpr (std::integral<Number>) {
    std::optional<int64_t> number = integerOf(text);
    if (!number || std::cmp_less(*number, std::numeric_limits<Number>::min()) ||
        std::cmp_greater(*number, std::numeric_limits<Number>::max()))
      return "'" + text + "' is no whole number that is possible here";
    field = static_cast<Number>(*number);
  } else {
    std::optional<double> number = numberOf(text);
    if (!number)
      return "'" + text + "' is no number";
    field = *number;
  }
  return "";
}

std::string textOf(double number) { return numberText(number); }
template <std::integral Number>
std::string textOf(Number number) {
  return std::to_string(number);
}

} // namespace

std::string OptionRow::longName() const {
  for (std::string_view name : splitList(names, ','))
    if (isPositional() || name.starts_with("--"))
      return std::string(name);
  return names;
}

std::string setField(const OptionRow &row, std::span<const std::string> texts) {
  if (auto *field = std::get_if<TextField>(&row.field);
      field && !field->words.empty())
    if (std::string wrong = checkWord(texts.front(), field->words);
        !wrong.empty())
      return wrong;
  if (row.rules.check)
    for (const std::string &text : texts)
      if (std::string wrong = row.rules.check(text); !wrong.empty())
        return wrong;
  return std::visit(
      Overloaded{
          [&](bool *field) -> std::string {
            *field = true;
            return "";
          },
          [&](std::vector<std::string> *field) -> std::string {
            field->assign(texts.begin(), texts.end());
            return "";
          },
          [&](std::string *field) -> std::string {
            *field = texts.front();
            return "";
          },
          [&](const TextField &field) { return field.set(texts.front()); },
          [&]<typename Number>(std::optional<Number> *field) {
            return setNumber(field->emplace(), texts.front());
          },
          [&](auto *field) { return setNumber(*field, texts.front()); }},
      row.field);
}

std::vector<std::string> textsOf(const OptionRow &row) {
  using Texts = std::vector<std::string>;
  return std::visit(
      Overloaded{[](bool *field) { return *field ? Texts{"true"} : Texts(); },
                 [](std::vector<std::string> *field) { return *field; },
                 [](std::string *field) { return Texts{*field}; },
                 [](const TextField &field) {
                   std::string text = field.get();
                   return text.empty() ? Texts() : Texts{text};
                 },
                 []<typename Number>(std::optional<Number> *field) {
                   return *field ? Texts{textOf(**field)} : Texts();
                 },
                 [](auto *field) { return Texts{textOf(*field)}; }},
      row.field);
}

std::string defaultOf(const OptionRow &row) {
  std::vector<std::string> texts = textsOf(row);
  bool isShown = !row.isFlag() && !row.isRepeatable() && !texts.empty() &&
                 texts.front() != "0";
  return isShown ? texts.front() : "";
}

/// Calls `body(row, texts)` for each option whose value differs from that in
/// `standard`.
template <typename Body>
static void forEachChanged(const OptionTable &table,
                           const OptionTable &standard, const Body &body) {
  for (size_t group = 0; group < table.size(); ++group)
    for (size_t i = 0; i < table[group].rows.size(); ++i) {
      const OptionRow &row = table[group].rows[i];
      std::vector<std::string> texts = textsOf(row);
      if (table[group].isInCommand && texts != textsOf(standard[group].rows[i]))
        body(row, texts);
    }
}

std::vector<std::string> argumentsOf(const OptionTable &table,
                                     const OptionTable &standard) {
  std::vector<std::string> arguments;
  forEachChanged(
      table, standard,
      [&](const OptionRow &row, const std::vector<std::string> &texts) {
        std::string name(splitList(row.names, ',').front());
        for (const std::string &text : texts) {
          if (!row.isPositional())
            arguments.push_back(name);
          if (!row.isFlag())
            arguments.push_back(text);
        }
      });
  return arguments;
}

/// Returns a basic string of TOML.
static std::string inQuotes(const std::string &text) {
  std::string result = "\"";
  for (char letter : text)
    if (letter == '"' || letter == '\\') {
      result += std::string("\\") + letter;
    } else if (static_cast<unsigned char>(letter) < ' ') {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04X", unsigned(letter));
      result += escape;
    } else {
      result += letter;
    }
  return result + "\"";
}

std::string fileOf(const OptionTable &table, const OptionTable &standard) {
  std::string file;
  forEachChanged(
      table, standard,
      [&](const OptionRow &row, const std::vector<std::string> &texts) {
        std::string value;
        for (const std::string &text : texts)
          value += (value.empty() ? "" : ", ") +
                   (row.isFlag() ? text : inQuotes(text));
        std::string key = row.longName().substr(row.isPositional() ? 0 : 2);
        for (char &letter : key)
          letter = static_cast<char>(
              std::tolower(static_cast<unsigned char>(letter)));
        file += key + " = " + (row.isRepeatable() ? "[" + value + "]" : value) +
                "\n";
      });
  return file;
}

std::string checkWord(const std::string &text,
                      std::span<const std::string> words) {
  std::string list;
  for (const std::string &word : words) {
    if (word == text)
      return "";
    list += (list.empty() ? "" : ", ") + word;
  }
  return "'" + text + "' is none of " + list + nearestWords(text, words);
}

OptionCheck between(int64_t least, int64_t most) {
  return [=](const std::string &text) -> std::string {
    std::optional<int64_t> number = integerOf(text);
    if (number && *number >= least && *number <= most)
      return "";
    return "'" + text + "' is no whole number from " + std::to_string(least) +
           " to " + std::to_string(most);
  };
}

OptionCheck between(double least, double most) {
  return [=](const std::string &text) -> std::string {
    std::optional<double> number = numberOf(text);
    if (number && *number >= least && *number <= most)
      return "";
    return "'" + text + "' is no number from " + numberText(least) + " to " +
           numberText(most);
  };
}

OptionCheck aboveZero() {
  return [](const std::string &text) -> std::string {
    std::optional<double> number = numberOf(text);
    return number && *number > 0 ? "" : "'" + text + "' is no number above 0";
  };
}

TextField oneOfWords(std::string *field, std::vector<std::string> words) {
  return {[=](const std::string &text) {
            *field = text;
            return std::string();
          },
          [=] { return *field; }, words};
}

} // namespace polyrank
