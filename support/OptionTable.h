// The options of a command as a table.
//
// A row has all that is written about an option: its names, the field that it
// fills, its texts and its rules. The command line, --help, the file of
// --config, completions and the man page (tools/command/OptionRows.h), the
// command that is printed (argumentsOf) and docs/options.md follow from it.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace polyrank {

/// A field whose value is not its text, such as a choice between two words.
struct TextField {
  /// Stores the value of a text, one of `words` if there are any. Returns the
  /// reason why there is none; empty if it is stored.
  std::function<std::string(const std::string &)> set;
  /// Returns the text of the value; empty if the field has none.
  std::function<std::string()> get;
  /// All possible texts, if they are few.
  std::vector<std::string> words = {};
};

/// The field that an option fills. A bool is a flag, and a list is an option
/// that may be repeated.
using OptionField =
    std::variant<bool *, int *, int64_t *, uint32_t *, uint64_t *, double *,
                 std::optional<double> *, std::optional<int64_t> *,
                 std::string *, std::vector<std::string> *, TextField>;

/// Returns what is wrong with the text of a value; empty if nothing is.
using OptionCheck = std::function<std::string(const std::string &)>;

struct OptionRules {
  OptionCheck check = {};
  /// Another option, without which this one is an error.
  std::string needs = {};
  /// Other options, with which this one is an error.
  std::vector<std::string> excludes = {};
  /// Returns the reason why the option cannot be given with the values that all
  /// fields have; empty if it can.
  std::function<std::string()> refuse = {};
  /// The value of an option that is given without one.
  std::string otherwise = {};
};

struct OptionRow {
  /// "-o,--output". Further long names are former ones, which work and are not
  /// shown. A name without dashes is that of a positional argument.
  std::string names;
  /// The name of the value in --help: "FILE". Empty for flags.
  std::string value;
  OptionField field;
  std::string help;
  OptionRules rules = {};

  /// "--output", or the name of a positional argument.
  std::string longName() const;
  bool isPositional() const { return !names.starts_with('-'); }
  bool isFlag() const { return std::holds_alternative<bool *>(field); }
  bool isRepeatable() const {
    return std::holds_alternative<std::vector<std::string> *>(field);
  }
};

/// Rows under one headline of --help.
struct OptionGroup {
  std::string title;
  std::vector<OptionRow> rows;
  /// False if the options say what is printed, and not what is made.
  bool isInCommand = true;
};

/// The options of one command, whose rows refer to the fields of one object.
using OptionTable = std::vector<OptionGroup>;

/// Stores texts in the field of a row; several only if it may be repeated.
/// Returns what is wrong with them; empty if they are stored.
std::string setField(const OptionRow &row, std::span<const std::string> texts);

/// Returns the texts by which a command line sets the row's field to its value:
/// "true" or nothing for a flag, one for each element of a list.
std::vector<std::string> textsOf(const OptionRow &row);

/// Returns the default that --help shows: the text of the field's value, which
/// must be the default. Empty if that is 0 or empty, which mean that there is
/// none, and for flags and lists.
std::string defaultOf(const OptionRow &row);

/// Returns the arguments of a command line that sets the fields of `table` to
/// their values. It lacks the options that have their value in `standard` too,
/// which is the same table over an object with the default values.
std::vector<std::string> argumentsOf(const OptionTable &table,
                                     const OptionTable &standard);

/// Returns the same options as a file of --config.
std::string fileOf(const OptionTable &table, const OptionTable &standard);

/// Returns the error that a text is none of these words, with the nearest one;
/// empty if it is one.
std::string checkWord(const std::string &text,
                      std::span<const std::string> words);

/// Checks of one value.
/// @{
OptionCheck between(int64_t least, int64_t most);
OptionCheck between(double least, double most);
OptionCheck aboveZero();
/// @}

/// A field that holds one of these words.
TextField oneOfWords(std::string *field, std::vector<std::string> words);

/// A field that holds one of the values that these words stand for.
template <typename Value>
TextField choice(Value *field,
                 std::vector<std::pair<std::string, Value>> values) {
  std::vector<std::string> words;
  for (const auto &[word, value] : values)
    words.push_back(word);
  return {[=](const std::string &text) {
            for (const auto &[word, value] : values)
              if (word == text)
                *field = value;
            return std::string();
          },
          [=]() -> std::string {
            for (const auto &[word, value] : values)
              if (value == *field)
                return word;
            return "";
          },
          words};
}

} // namespace polyrank
