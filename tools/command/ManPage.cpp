// Writes a man page from a command line, with the texts of --help.

#include "support/Version.h"
#include "tools/command/Documents.h"

#include <cctype>
#include <sstream>

namespace polyrank {
namespace {

/// Escapes a text so that roff finds no commands in it.
std::string escaped(const std::string &line) {
  std::string text;
  for (char letter : line)
    text += letter == '\\'  ? "\\e"
            : letter == '-' ? "\\-"
                            : std::string(1, letter);
  return text.starts_with('.') || text.starts_with('\'') ? "\\&" + text : text;
}

/// Wraps paragraphs into lines that are short enough for readers of the source.
std::string filled(const std::string &text) {
  constexpr size_t width = 76;
  std::string page, line;
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    std::istringstream words(paragraph);
    for (std::string word; words >> word;) {
      std::string longer = line + (line.empty() ? "" : " ") + escaped(word);
      if (!line.empty() && longer.size() > width) {
        page += line + "\n";
        longer = escaped(word);
      }
      line = longer;
    }
    page += line + "\n";
    line.clear();
  }
  return page;
}

std::string upper(std::string text) {
  for (char &letter : text)
    letter =
        static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

std::string inQuotes(const std::string &text) { return "\"" + text + "\""; }

/// Formats the example: "polyrank-run model.plan --steps 3" under a line that
/// ends in a colon.
std::string example(const std::string &footer) {
  std::string page;
  std::istringstream lines(footer);
  bool isCode = false;
  for (std::string line; std::getline(lines, line);) {
    bool wasCode = isCode;
    isCode = line.starts_with("  ");
    if (isCode != wasCode && (isCode || !page.empty()))
      page += isCode ? ".RS\n.nf\n" : ".fi\n.RE\n";
    // The heading says it already.
    if (line != "Example:")
      page += escaped(isCode ? line.substr(2) : line) + "\n";
  }
  return page + (isCode ? ".fi\n.RE\n" : "");
}

std::string describe(const CLI::Option &option) {
  std::string names, type = option.get_type_name();
  for (const std::string &name : option.get_snames())
    names += (names.empty() ? "" : ", ") + ("\\fB\\-" + escaped(name) + "\\fR");
  // The other long names are former ones.
  if (!option.get_lnames().empty())
    names += (names.empty() ? "" : ", ") +
             ("\\fB\\-\\-" + escaped(option.get_lnames().front()) + "\\fR");
  if (option.get_expected_max() != 0)
    names += " \\fI" + escaped(type.substr(0, type.find(':'))) + "\\fR";
  if (!option.get_default_str().empty())
    names += " (default " + escaped(option.get_default_str()) + ")";
  return ".TP\n" + names + "\n" + filled(option.get_description());
}

} // namespace

std::string manPage(const CLI::App &app) {
  std::string about, status;
  std::istringstream lines(app.get_description());
  constexpr const char *statusMark = "Exit status: ";
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(statusMark))
      status = line.substr(std::string(statusMark).size());
    else
      about += filled(line);
  std::string name = app.get_name(), positionals, arguments;
  for (const CLI::Option *option : app.get_options())
    if (option->get_positional() && !option->get_group().empty()) {
      std::string argument = option->get_name(true);
      arguments += " \\fI" + escaped(argument) + "\\fR";
      positionals += ".TP\n\\fI" + escaped(argument) + "\\fR\n" +
                     filled(option->get_description());
    }
  std::string commands;
  for (const CLI::App *command : app.get_subcommands({}))
    commands += ".TP\n\\fB" + escaped(command->get_name()) + "\\fR\n" +
                filled(command->get_description());
  if (!commands.empty())
    arguments += " \\fICOMMAND\\fR";
  // The first sentence of the description.
  std::string brief = app.get_description();
  brief = brief.substr(0, brief.find_first_of(".:"));
  brief.front() = static_cast<char>(
      std::tolower(static_cast<unsigned char>(brief.front())));
  std::string page =
      ".\\\" Printed by " + name + " --man.\n.TH " + escaped(upper(name)) +
      " 1 " + versionDate + " " +
      inQuotes("Polyrank " + std::string(versionText)) + " " +
      inQuotes("Polyrank") + "\n.SH NAME\n" + escaped(name) + " \\-\n" +
      filled(brief) + ".SH SYNOPSIS\n\\fB" + escaped(name) + "\\fR" +
      arguments + " [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n" + about +
      (positionals.empty() ? "" : ".SH ARGUMENTS\n" + positionals) +
      (commands.empty() ? "" : ".SH COMMANDS\n" + commands) + ".SH OPTIONS\n";
  for (const std::string &group : app.get_groups()) {
    std::string options;
    for (const CLI::Option *option : app.get_options())
      if (!option->get_positional() && option->get_group() == group)
        options += describe(*option);
    if (!options.empty())
      page +=
          (group == "Options" ? "" : ".SS " + inQuotes(group) + "\n") + options;
  }
  if (!status.empty())
    page += ".SH EXIT STATUS\n" + filled(status);
  if (std::string footer = app.get_footer(); !footer.empty())
    page += ".SH EXAMPLE\n" + example(footer);
  page += ".SH SEE ALSO\n";
  const char *separator = "";
  for (const char *other :
       {"polyrank", "polyrank-compile", "polyrank-inspect", "polyrank-run"})
    if (other != name) {
      page += separator + (".BR " + escaped(other)) + " (1)";
      separator = ",\n";
    }
  return page + "\n";
}

} // namespace polyrank
