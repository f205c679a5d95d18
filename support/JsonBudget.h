// The share of a file's budget that a JSON document takes.

#pragma once

#include "support/Budget.h"

#include <string_view>

namespace polyrank {

/// Takes, before parsing, an upper bound of the memory for a document of
/// `text`: its strings, and for each value a table node and what is made of it
/// later. (A value follows a bracket, a comma or a colon; those in strings are
/// counted too.)
[[nodiscard]] inline bool takeJson(Budget &budget, std::string_view text) {
  constexpr uint64_t bytesOfValue = 64;
  uint64_t values = 1;
  for (char c : text)
    values += c == '[' || c == '{' || c == ',' || c == ':';
  return budget.take(text.size() + values * bytesOfValue);
}

} // namespace polyrank
