// Reads and writes TOML with toml++; CLI11 decides between file and command
// line.

#include "tools/command/Config.h"

#include "support/Names.h"
#include "support/Toml.h"
#include "support/Version.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

namespace polyrank {
namespace {

std::string lowered(std::string text) {
  for (char &letter : text)
    letter =
        static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

/// Returns the name of an option in a file; empty if a file cannot have it.
std::string keyOf(const CLI::Option &option) {
  if (!option.get_configurable())
    return "";
  return option.get_lnames().empty() ? lowered(option.get_name(true))
                                     : option.get_lnames().front();
}

bool isFlag(const CLI::Option &option) {
  return option.get_expected_max() == 0;
}

bool isRepeatable(const CLI::Option &option) {
  return option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}

/// Returns a text or a number as on the command line; nothing if it is neither.
std::optional<std::string> textOf(const toml::node &node) {
  if (auto text = node.value_exact<std::string>())
    return *text;
  if (auto number = node.value_exact<int64_t>())
    return std::to_string(*number);
  if (auto number = node.value_exact<double>())
    return fmt::format("{}", *number);
  return std::nullopt;
}

class TomlConfig : public CLI::Config {
public:
  explicit TomlConfig(const CLI::App &app) : app(app) {}

  std::string to_config(const CLI::App *, bool, bool,
                        std::string) const override {
    return "";
  }

  std::vector<CLI::ConfigItem> from_config(std::istream &input) const override {
    // Reads the whole input first: toml++ would seek to the start, which a pipe
    // cannot.
    std::string whole(std::istreambuf_iterator<char>(input), {});
    constexpr size_t longest = 1 << 20;
    if (whole.size() > longest)
      throw CLI::ConfigError(
          fmt::format("{}: has {} bytes, and a file of options at most {}",
                      fileName(), whole.size(), longest));
    auto parsed = parseToml(whole, "a table or option");
    if (auto *fault = std::get_if<TomlFault>(&parsed))
      throw CLI::ConfigError(
          fmt::format("{}: {}", place(fault->line), fault->message));
    const auto &table = std::get<toml::table>(parsed);
    std::vector<CLI::ConfigItem> items;
    std::map<uint32_t, std::string> mistakes; // by line
    for (auto &[key, value] : table) {
      uint32_t line = key.source().begin.line;
      try {
        read(std::string(key.str()), value, line, items);
      } catch (const CLI::ConfigError &error) {
        std::string &text = mistakes[line];
        text += (text.empty() ? "" : "; ") + std::string(error.what());
      }
    }
    std::string all;
    for (auto &[line, text] : mistakes)
      all +=
          fmt::format("{}{}: {}", all.empty() ? "" : "\n", place(line), text);
    if (!all.empty())
      throw CLI::ConfigError(all);
    return items;
  }

  /// Returns the line of the option of this name ("--steps"), if the file sets
  /// it.
  std::optional<uint32_t> lineOf(const std::string &name) const {
    auto found = lines.find(name);
    return found == lines.end() ? std::nullopt : std::optional(found->second);
  }

  std::string fileName() const {
    return app.get_config_ptr()->results().front();
  }

private:
  std::string place(uint32_t line) const {
    return fmt::format("{}, line {}", fileName(), line);
  }

  /// Finds the option of a name, which may be a former one.
  const CLI::Option *find(const std::string &key) const {
    for (const CLI::Option *option : app.get_options())
      if (std::string name = keyOf(*option);
          name == key || (!name.empty() && option->check_lname(key)))
        return option;
    return nullptr;
  }

  CLI::ConfigError unknown(const std::string &key) const {
    std::vector<std::string> known;
    for (const CLI::Option *option : app.get_options()) {
      if (std::string name = keyOf(*option); !name.empty())
        known.push_back(name);
      else if (option->check_lname(key))
        return CLI::ConfigError(fmt::format(
            "'{}' is for the command line; a file cannot have it", key));
    }
    return CLI::ConfigError(fmt::format("there is no option '{}'{}", key,
                                        nearestWords(key, known)));
  }

  /// Throws a ConfigError that does not name the place.
  void read(const std::string &key, const toml::node &value, uint32_t line,
            std::vector<CLI::ConfigItem> &items) const {
    const CLI::Option *option = find(key);
    if (value.is_table() || value.is_array_of_tables())
      throw CLI::ConfigError(fmt::format(
          "'{}' is a section, and options have none: write them without, one a "
          "line",
          key));
    if (!option)
      throw unknown(key);
    CLI::ConfigItem item;
    item.name = option->get_lnames().empty() ? option->get_name(true) : key;
    if (isFlag(*option)) {
      std::optional<bool> given = value.value_exact<bool>();
      if (!given)
        throw CLI::ConfigError(
            fmt::format("'{}' is a flag: write {} = true or false", key, key));
      // A flag that is false counts as not given: it must not exclude others.
      if (!*given)
        return;
      item.inputs = {"true"};
    } else if (const toml::array *array = value.as_array()) {
      if (!isRepeatable(*option))
        throw CLI::ConfigError(
            fmt::format("'{}' takes one value, and no list", key));
      for (const toml::node &each : *array)
        item.inputs.push_back(text(key, each, *option));
      if (item.inputs.empty())
        return;
    } else {
      item.inputs = {text(key, value, *option)};
    }
    if (option->empty())
      lines.emplace(option->get_name(), line);
    items.push_back(std::move(item));
  }

  static std::string text(const std::string &key, const toml::node &node,
                          const CLI::Option &option) {
    if (std::optional<std::string> text = textOf(node))
      return *text;
    std::ostringstream kind;
    kind << node.type();
    throw CLI::ConfigError(fmt::format(
        "'{}' takes a text or a number{}, not a value of type {}", key,
        isRepeatable(option) ? ", or a list of them" : "", kind.str()));
  }

  const CLI::App &app;
  mutable std::map<std::string, uint32_t> lines; // by the option's name
};

/// Returns true if this value in a file is read as this text of the command
/// line.
bool reads(const std::string &value, const std::string &text) {
  try {
    toml::table table = toml::parse("x = " + value);
    return table.size() == 1 && textOf(*table.get("x")) == text;
  } catch (const toml::parse_error &) {
    return false;
  }
}

/// Returns the text as a number if that reads back as the same text, else
/// quoted.
std::string tomlOf(const std::string &name, const std::string &text) {
  bool mayBeNumber = !text.empty() && text.find_first_not_of("0123456789.-") ==
                                          std::string::npos;
  if (mayBeNumber && reads(text, text))
    return text;
  std::ostringstream out;
  out << toml::toml_formatter(toml::value<std::string>(text),
                              toml::format_flags::none);
  // Fails, for example, for a file name that is not UTF-8.
  if (!reads(out.str(), text))
    throw CLI::ValidationError(
        "--write-config",
        fmt::format("TOML cannot have the value of '{}': {}", name, text));
  return out.str();
}

std::string configOf(const CLI::App &app) {
  std::string text =
      fmt::format("# {} {}: {} --config FILE reads this; names without a\n"
                  "# folder are relative to where that is called.\n",
                  app.get_name(), versionText, app.get_name());
  for (bool positional : {true, false})
    for (const CLI::Option *option : app.get_options()) {
      std::string key = keyOf(*option);
      if (key.empty() || option->empty() ||
          option->get_lnames().empty() != positional)
        continue;
      if (isFlag(*option)) {
        text += key + " = true\n";
        continue;
      }
      const std::vector<std::string> &values = option->results();
      if (values.size() == 1) {
        text += fmt::format("{} = {}\n", key, tomlOf(key, values.front()));
        continue;
      }
      text += key + " = [\n";
      for (const std::string &value : values)
        text += fmt::format("  {},\n", tomlOf(key, value));
      text += "]\n";
    }
  return text;
}

} // namespace

void addConfigOptions(CLI::App &app) {
  app.set_config("--config", "",
                 "Read options from this TOML file, each under its name "
                 "without dashes (steps = 100); a flag is true or false, what "
                 "is repeatable may be a list. The command line wins "
                 "(docs/installing.md)")
      ->check(CLI::ExistingFile)
      ->group("The command line")
      ->type_name("FILE");
  app.config_formatter(std::make_shared<TomlConfig>(app));
  app.add_flag("--write-config")
      ->description("Print the options of this call, those of --config too, as "
                    "such a file, and do nothing")
      ->group("The command line")
      ->configurable(false);
}

void refuseEmptyPaths(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options()) {
    std::string type = option->get_type_name();
    bool takesPath = type.find("FILE") != std::string::npos ||
                     type.find("FOLDER") != std::string::npos ||
                     type.find("DIR") != std::string::npos;
    if (takesPath && !option->empty() &&
        std::ranges::find(option->results(), "") != option->results().end())
      throw CLI::ValidationError(
          option->get_name(),
          fmt::format("the path is empty, so nothing could be read or written; "
                      "give a {}, or leave the option out",
                      type));
  }
}

void printAndEnd(const CLI::App &app, const std::string &text) {
  std::cout << text << std::flush;
  if (std::cout)
    throw CLI::RuntimeError(0);
  std::cerr << app.get_name()
            << ": cannot write to standard output: " << std::strerror(errno)
            << "\n";
  throw CLI::RuntimeError(1);
}

void writeConfigIfAsked(const CLI::App &app) {
  if (app.count("--write-config"))
    printAndEnd(app, configOf(app));
}

std::vector<std::string> effectiveArguments(const CLI::App &app,
                                            const std::string &program) {
  std::vector<std::string> arguments{program}, positionals;
  for (const CLI::Option *option : app.get_options()) {
    if (keyOf(*option).empty() || option->empty())
      continue;
    if (option->get_lnames().empty()) {
      positionals.insert(positionals.end(), option->results().begin(),
                         option->results().end());
      continue;
    }
    std::string name = "--" + option->get_lnames().front();
    if (isFlag(*option))
      arguments.push_back(name);
    else
      for (const std::string &value : option->results()) {
        // CLI11 takes the argument after "--name=" as its value if it is empty.
        if (value.empty())
          arguments.insert(arguments.end(), {name, value});
        else
          arguments.push_back(name + "=" + value);
      }
  }
  arguments.push_back("--");
  arguments.insert(arguments.end(), positionals.begin(), positionals.end());
  return arguments;
}

std::string placeInConfig(const CLI::App &app, const std::string &message) {
  auto config =
      std::dynamic_pointer_cast<TomlConfig>(app.get_config_formatter());
  std::string name = message.substr(0, message.find_first_of(": "));
  std::optional<uint32_t> line = config ? config->lineOf(name) : std::nullopt;
  return line ? fmt::format(" ({}, line {})", config->fileName(), *line) : "";
}

} // namespace polyrank
