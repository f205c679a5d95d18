// The format of --help: lines of at most 80 columns.

#pragma once

#include "runtime/plan/PlanFile.h"
#include "support/Names.h"
#include "support/OptionTable.h"
#include "support/Version.h"
#include "tools/command/Config.h"
#include "tools/command/Documents.h"
#include "tools/command/OtherNames.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <sstream>

namespace polyrank {

/// Returns "-o,--output": the short name and the first of the long ones. The
/// others are former names, which still work.
inline std::string shownNames(const CLI::Option &option) {
  std::string names;
  if (!option.get_snames().empty())
    names = "-" + option.get_snames().front();
  if (!option.get_lnames().empty())
    names += (names.empty() ? "--" : ",--") + option.get_lnames().front();
  return names;
}

class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter() {
    column_width(indent);
    label("SUBCOMMAND", "COMMAND [..]");
  }

  std::string make_option_desc(const CLI::Option *option) const override {
    return wrap(CLI::Formatter::make_option_desc(option), 80 - indent);
  }
  std::string make_description(const CLI::App *app) const override {
    return wrap(CLI::Formatter::make_description(app), 80) + "\n\n";
  }
  /// An option's other long names are former ones, which nobody is shown.
  std::string make_option_name(const CLI::Option *option,
                               bool isPositional) const override {
    return isPositional ? option->get_name(true) : shownNames(*option);
  }
  /// Shows the placeholder of the value and the default; the description has
  /// the rest.
  std::string make_option_opts(const CLI::Option *option) const override {
    std::string text;
    if (option->get_type_size() != 0) {
      std::string name = option->get_type_name();
      text = " " + name.substr(0, name.find(':'));
      if (!option->get_default_str().empty())
        text += " = " + option->get_default_str();
    }
    return text;
  }

private:
  static constexpr size_t indent = 24;

  static std::string wrap(const std::string &text, size_t width) {
    std::istringstream lines(text);
    std::string result;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      size_t column = 0;
      for (std::string word; words >> word; column += word.size()) {
        if (column > 0 && column + 1 + word.size() > width)
          result += "\n", column = 0;
        else if (column > 0)
          result += " ", ++column;
        result += word;
      }
      result += "\n";
    }
    if (!result.empty())
      result.pop_back();
    return result;
  }
};

/// Accepts one of a few words. Completions find them by the validator's name.
inline CLI::Validator oneOf(std::vector<std::string> words) {
  CLI::Validator validator(
      [words](const std::string &given) { return checkWord(given, words); },
      CLI::detail::join(words, " "));
  validator.name("one of");
  return validator;
}

/// Returns an error's message, with the option that may have been meant.
inline std::string explain(const CLI::App &app, const CLI::Error &error) {
  if (error.get_exit_code() != int(CLI::ExitCodes::ExtrasError))
    return error.what() + placeInConfig(app, error.what());
  std::vector<std::string> known;
  for (const CLI::Option *option : app.get_options())
    if (!option->get_lnames().empty() && !option->get_group().empty())
      known.push_back("--" + option->get_lnames().front());
  std::string text;
  for (const std::string &extra : app.remaining()) {
    std::string name = extra.substr(0, extra.find('='));
    bool isOption = name.starts_with("-");
    text += (text.empty() ? "" : "; ") +
            std::string(isOption ? "there is no option '" : "nothing takes '") +
            name + "'";
    if (isOption) {
      std::string other = explainOtherName(name);
      text += other.empty() ? nearestWords(name, known) : other;
    }
  }
  return text;
}

/// Returns the options that have a value from the command line or --config,
/// without their dashes.
inline std::set<std::string> givenOptions(const CLI::App &app) {
  std::set<std::string> given;
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && !option->get_lnames().empty())
      given.insert(option->get_lnames().front());
  return given;
}

/// Gives errors and help the same format in every tool.
inline void useHelpFormatter(CLI::App &app) {
  app.set_version_flag("--version",
                       app.get_name() + " " + versionText +
                           " (plans of version " +
                           std::to_string(runtime::planSchemaVersion) + ")",
                       "Print the version of this program and of its plans");
  app.formatter(std::make_shared<HelpFormatter>());
  app.failure_message([](const CLI::App *self, const CLI::Error &error) {
    return self->get_name() + ": " + explain(*self, error) + " (see --help)\n";
  });
}

} // namespace polyrank
