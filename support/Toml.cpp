// Parses TOML, and finds the line of a fault for which toml++ has no message.

#include "support/Toml.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace polyrank {
namespace {

/// Returns true if the beginning of a text fails no assertion. What else is
/// wrong with it may be completed by later lines, or is the fault of the whole.
bool reads(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
  } catch (const toml::parse_error &) {
  } catch (const NotToml &) {
    return false;
  }
  return true;
}

/// Returns the first line, from 1, with which the text fails an assertion.
uint32_t findLine(std::string_view text) {
  std::vector<size_t> ends;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n' || i + 1 == text.size())
      ends.push_back(i + 1);
  auto line = std::partition_point(ends.begin(), ends.end(), [&](size_t size) {
    return reads(text.substr(0, size));
  });
  return static_cast<uint32_t>(line - ends.begin() + 1);
}

} // namespace

std::variant<toml::table, TomlFault> parseToml(const std::string &text,
                                               const std::string &names) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error &error) {
    return TomlFault{error.source().begin.line,
                     std::string(error.description())};
  } catch (const NotToml &) {
    return TomlFault{findLine(text),
                     "the name of " + names + " is missing or no name in TOML"};
  }
}

} // namespace polyrank
