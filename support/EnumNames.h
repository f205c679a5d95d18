// The names of enumerators, for comparing enums that mirror each other at
// compile time.

#pragma once

#include <string_view>
#include <utility>

namespace polyrank {

/// The name of an enumerator: "AllReduce" for CollectiveKind::AllReduce.
template <auto enumerator>
constexpr std::string_view enumeratorName() {
  // clang's ends "[enumerator = ns::Kind::AllReduce]"; g++'s goes on after it
  // with "; std::string_view = ...".
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(text.find("enumerator = "));
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

/// Returns true if `name` is the snake_case form of `enumerator`: "all_reduce"
/// for "AllReduce".
constexpr bool isCalled(std::string_view name, std::string_view enumerator) {
  for (char c : name) {
    if (c == '_')
      continue;
    if (enumerator.empty() || (enumerator.front() | 0x20) != c)
      return false;
    enumerator.remove_prefix(1);
  }
  return enumerator.empty();
}

/// Returns true if two enums have the same names for 0 .. count - 1.
template <typename Left, typename Right, int... number>
constexpr bool agree(std::integer_sequence<int, number...>) {
  return ((enumeratorName<static_cast<Left>(number)>() ==
           enumeratorName<static_cast<Right>(number)>()) &&
          ...);
}
template <typename Left, typename Right, int count>
constexpr bool agreeOn =
    agree<Left, Right>(std::make_integer_sequence<int, count>());

} // namespace polyrank
