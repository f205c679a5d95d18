// How --help looks: lines of at most 80 columns.

#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <sstream>

namespace polyrank {

class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter() { column_width(indent); }

  std::string make_option_desc(const CLI::Option *option) const override {
    return wrap(CLI::Formatter::make_option_desc(option), 80 - indent);
  }
  std::string make_description(const CLI::App *app) const override {
    return wrap(CLI::Formatter::make_description(app), 80) + "\n\n";
  }
  /// The name for what is given and the default; the description has the rest.
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

/// A command line whose errors and help look alike in every tool.
inline void useHelpFormatter(CLI::App &app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.failure_message([](const CLI::App *self, const CLI::Error &error) {
    return self->get_name() + ": " + error.what() + " (see --help)\n";
  });
}

} // namespace polyrank
