// What a document of JSON may take of a file's budget.

#pragma once

#include "support/Budget.h"

#include <string_view>

namespace polyrank {

/// Takes, before it is parsed, what a document of `text` takes at most: its
/// texts, and for each value a node of a table and what is made of it later. (A
/// value follows a bracket, a comma or a colon; those in texts count too.)
[[nodiscard]] inline bool takeJson(Budget &budget, std::string_view text) {
  constexpr uint64_t bytesOfValue = 64;
  uint64_t values = 1;
  for (char c : text)
    values += c == '[' || c == '{' || c == ',' || c == ':';
  return budget.take(text.size() + values * bytesOfValue);
}

} // namespace polyrank
