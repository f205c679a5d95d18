// Writes the options of a command as a section of docs/options.md.

#include "tools/Help.h"
#include "tools/command/Documents.h"

#include <fmt/format.h>

namespace polyrank {
namespace {

/// Returns a text for a cell of a table, in which | is special.
std::string cell(const std::string &text) {
  std::string result;
  for (char letter : text)
    result += letter == '|'   ? "\\|"
              : letter == '*' ? "\\*"
              : letter == '<' ? "&lt;"
                              : std::string(1, letter);
  return result;
}

/// Returns "`-o`, `--output PLAN`".
std::string namesOf(const CLI::Option &option) {
  std::string type = option.get_type_name(), names;
  type = type.substr(0, type.find(':'));
  if (!option.get_snames().empty())
    names = "`-" + option.get_snames().front() + "`, ";
  names += option.get_positional() ? "`" + option.get_name(true)
                                   : "`--" + option.get_lnames().front();
  if (option.get_expected_max() != 0 && !option.get_positional())
    names += " " + type;
  return names + "`";
}

} // namespace

std::string optionsPage(const CLI::App &app) {
  std::string page = fmt::format("\n## {}\n", app.get_name());
  for (const std::string &group : app.get_groups()) {
    std::string rows;
    for (const CLI::Option *option : app.get_options())
      if (option->get_group() == group) {
        std::string standard = option->get_default_str();
        rows += fmt::format("| {} | {} | {} |\n", cell(namesOf(*option)),
                            option->get_expected_min() == 0 || standard.empty()
                                ? ""
                                : "`" + cell(standard) + "`",
                            cell(option->get_description()));
      }
    if (!group.empty() && !rows.empty())
      page += fmt::format(
          "\n### {}: {}\n\n| option | default | |\n|---|---|---|\n{}",
          app.get_name(), group, rows);
  }
  return page;
}

} // namespace polyrank
