// Writes completions for each shell: the options and their possible values.

#include "tools/command/Config.h"
#include "tools/command/Documents.h"

#include <algorithm>
#include <map>

namespace polyrank {
namespace {

enum class Value { None, Words, File, Folder, Other };

/// One option as the shells need it.
struct Item {
  explicit Item(const CLI::Option &option)
      : longName(option.get_lnames().front()),
        repeatable(option.get_multi_option_policy() ==
                   CLI::MultiOptionPolicy::TakeAll) {
    if (!option.get_snames().empty())
      shortName = option.get_snames().front();
    std::string text = option.get_description();
    // In "NAME=SIZE: the size of a dim" the description follows the colon.
    if (size_t colon = text.find(": "); colon < text.find(' '))
      text = text.substr(colon + 2);
    // Keeps the first sentence, up to its details.
    size_t end = std::min({text.find(". "), text.find(": "), text.find("; "),
                           text.find(" ("), text.size()});
    about = text.substr(0, end);
    if (option.get_expected_max() == 0)
      return;
    type = option.get_type_name();
    type = type.substr(0, type.find(':'));
    optional = option.get_expected_min() == 0;
    // For "FILE|FOLDER/" the first type counts.
    std::string first = type.substr(0, type.find('|'));
    value = first == "FILE" || first == "PLAN" || first == "TRACE" ? Value::File
            : first == "DIR" || first == "FOLDER" ? Value::Folder
                                                  : Value::Other;
    try {
      words = const_cast<CLI::Option &>(option) // its getter is not const
                  .get_validator("one of")
                  ->get_description();
      value = Value::Words;
    } catch (const CLI::OptionNotFound &) {
      // Any value is possible.
    }
  }

  std::string longName, shortName, about, type, words;
  bool repeatable = false, optional = false;
  Value value = Value::None;
};

std::vector<Item> itemsOf(const CLI::App &app) {
  std::vector<Item> items;
  for (const CLI::Option *option : app.get_options())
    if (!option->get_lnames().empty() && !option->get_group().empty())
      items.emplace_back(*option);
  return items;
}

/// Returns the text in single quotes, for all three shells.
std::string inQuotes(const std::string &text) {
  std::string result = "'";
  for (char letter : text)
    result += letter == '\'' ? "'\\''" : std::string(1, letter);
  return result + "'";
}

/// Returns the name of the function by which bash completes a tool.
std::string bashFunction(std::string tool) {
  std::replace(tool.begin(), tool.end(), '-', '_');
  return "_" + tool;
}

/// Completes the commands of a tool; after a command, what the command's own
/// tool completes: `polyrank run` as polyrank-run.
std::string bashCommands(const CLI::App &app) {
  std::string names, commands, tool = app.get_name();
  for (const CLI::App *command : app.get_subcommands({})) {
    names += (names.empty() ? "" : " ") + command->get_name();
    if (command->get_group() == toolCommands)
      commands += (commands.empty() ? "" : "|") + command->get_name();
  }
  for (const Item &item : itemsOf(app))
    names += " --" + item.longName;
  return "# bash completion for " + tool + ", printed by " + tool +
         " --completions bash\n" + bashFunction(tool) + "() {\n" +
         R"(  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W ')" +
         names + R"(' -- "${COMP_WORDS[1]}")
    return
  fi
  local command=${COMP_WORDS[1]}
  case $command in
    )" + commands +
         R"() ;;
    *) return ;;
  esac
  # The command's own tool says how it is completed.
  declare -F ")" +
         bashFunction(tool) + R"(_$command" > /dev/null ||
    source <("${COMP_WORDS[0]}" "$command" --completions bash)
  COMP_WORDS=(")" +
         tool + R"(-$command" "${COMP_WORDS[@]:2}")
  COMP_CWORD=$((COMP_CWORD - 1))
  ")" + bashFunction(tool) +
         R"(_$command"
}
complete -F )" +
         bashFunction(tool) + " " + tool + "\n";
}

std::string bash(const CLI::App &app) {
  if (!app.get_subcommands({}).empty())
    return bashCommands(app);
  std::string names, files, folders, others;
  std::string cases;
  auto add = [](std::string &list, const std::string &name) {
    list += (list.empty() ? "" : "|") + name;
  };
  for (const Item &item : itemsOf(app)) {
    names += (names.empty() ? "--" : " --") + item.longName;
    std::string spelled = "--" + item.longName;
    if (!item.shortName.empty())
      spelled += "|-" + item.shortName;
    if (item.value == Value::Words)
      cases +=
          "    " + spelled + ") offer -W " + inQuotes(item.words) + " ;;\n";
    else if (item.value == Value::File)
      add(files, spelled);
    else if (item.value == Value::Folder)
      add(folders, spelled);
    else if (item.value == Value::Other && !item.optional)
      add(others, spelled);
  }
  if (!files.empty())
    cases += "    " + files + ") names -f ;;\n";
  if (!folders.empty())
    cases += "    " + folders + ") names -d ;;\n";
  if (!others.empty())
    cases += "    " + others + ") ;; # nobody can guess it\n";
  std::string function = bashFunction(app.get_name());
  return "# bash completion for " + app.get_name() + ", printed by " +
         app.get_name() + " --completions bash\n" + function + "() {\n" +
         R"(  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  # bash takes --name=value for three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  offer() { mapfile -t COMPREPLY < <(compgen "$@" -- "$word"); }
  names() { compopt -o filenames 2>/dev/null; offer "$@"; }
  COMPREPLY=()
  case $before in
)" + cases +
         "    *)\n      if [[ $word == -* ]]; then\n        offer -W " +
         inQuotes(names) +
         "\n      else\n        names -f\n      fi ;;\n  esac\n"
         "  unset -f offer names\n}\n"
         "complete -F " +
         function + " " + app.get_name() + "\n";
}

/// Escapes a part of a specification of _arguments, in which : and [ ] are
/// special.
std::string zshText(const std::string &text) {
  std::string result;
  for (char letter : text)
    result += (letter == ':' || letter == '[' || letter == ']' || letter == '\\'
                   ? "\\"
                   : "") +
              std::string(1, letter);
  return result;
}

std::string zsh(const CLI::App &app) {
  std::string text = "#compdef " + app.get_name() +
                     "\n# zsh completion, printed by " + app.get_name() +
                     " --completions zsh\n_arguments -s -S";
  for (const Item &item : itemsOf(app)) {
    std::string value;
    if (item.value != Value::None)
      value = (item.optional ? "::" : ":") + zshText(item.type) + ":" +
              (item.value == Value::Words    ? "(" + item.words + ")"
               : item.value == Value::File   ? "_files"
               : item.value == Value::Folder ? "_files -/"
                                             : "");
    std::string tail = "[" + zshText(item.about) + "]" + value;
    std::string name = "--" + item.longName, star = item.repeatable ? "*" : "";
    // An optional value is accepted only after "=".
    const char *joint = item.value == Value::None ? ""
                        : item.optional           ? "=-"
                                                  : "=";
    if (item.shortName.empty()) {
      text += " \\\n  " + inQuotes(star + name + joint + tail);
      continue;
    }
    std::string brief = "-" + item.shortName;
    std::string others = item.repeatable ? "*" : "(" + brief + " " + name + ")";
    text += " \\\n  " +
            inQuotes(others + brief + (item.value == Value::None ? "" : "+") +
                     tail) +
            " \\\n  " + inQuotes(others + name + joint + tail);
  }
  for (const CLI::Option *option : app.get_options())
    if (option->get_positional() && !option->get_group().empty())
      text += " \\\n  " + inQuotes(":" + option->get_name(true) + ":_files");
  std::string commands;
  for (const CLI::App *command : app.get_subcommands({}))
    commands += " \\\n      " + inQuotes(command->get_name() + ":" +
                                         zshText(command->get_description()));
  if (commands.empty())
    return text + "\n";
  // After a command: what the command's own tool completes.
  return text + R"( -C '1:COMMAND:->command' '*:: :->rest'
case $state in
  command)
    local -a offered=()" +
         commands + R"()
    _describe command offered ;;
  rest)
    words[1]=)" +
         app.get_name() + R"(-$words[1]
    _normal ;;
esac
)";
}

std::string fish(const CLI::App &app) {
  std::string tool = app.get_name();
  std::string text = "# fish completion for " + tool + ", printed by " + tool +
                     " --completions fish\n";
  std::string options = "complete -c " + tool;
  for (const CLI::App *command : app.get_subcommands({})) {
    std::string name = command->get_name();
    text += options + " -n __fish_use_subcommand -f -a " + name + " -d " +
            inQuotes(command->get_description()) + "\n";
    if (command->get_group() != toolCommands)
      continue;
    // After a command: what the command's own tool completes.
    text += options + " -n '__fish_seen_subcommand_from " + name +
            "' -x -a '(complete -C (string replace -r \"^\\s*\\S+\\s+" + name +
            "\\s\" \"" + tool + "-" + name + " \" (commandline -cp)))'\n";
  }
  if (!app.get_subcommands({}).empty())
    options += " -n __fish_use_subcommand";
  for (const Item &item : itemsOf(app)) {
    text += options + " -l " + item.longName;
    if (!item.shortName.empty())
      text += " -s " + item.shortName;
    switch (item.value) {
    case Value::None:
      break;
    case Value::Words:
      text += " -x -a " + inQuotes(item.words);
      break;
    case Value::File:
      text += " -r -F";
      break;
    case Value::Folder:
      text += " -x -a '(__fish_complete_directories)'";
      break;
    case Value::Other:
      text += item.optional ? " -f" : " -x";
      break;
    }
    // In single quotes fish has only the escapes \' and \\.
    std::string about;
    for (char letter : item.about)
      about += (letter == '\'' || letter == '\\' ? "\\" : "") +
               std::string(1, letter);
    text += " -d '" + about + "'\n";
  }
  return text;
}

} // namespace

std::string completions(const CLI::App &app, const std::string &shell) {
  static const std::map<std::string, std::string (*)(const CLI::App &)> shells{
      {"bash", bash}, {"fish", fish}, {"zsh", zsh}};
  return shells.at(shell)(app);
}

} // namespace polyrank
