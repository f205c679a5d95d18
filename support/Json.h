// What all reports in JSON have in common (docs/reports.md describes each), and
// what reads files of JSON strictly.

#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace polyrank {

/// Raised when a field goes or changes its meaning; a new field does not.
constexpr int reportVersion = 1;

/// An object that says what it is: compile, describe, plan, run or profile.
inline nlohmann::ordered_json newReport(const char *kind) {
  return {{"report", kind}, {"version", reportVersion}};
}

/// Sees, as a callback of nlohmann::json::parse, what a document that it makes
/// does not show: keys that stand twice in an object, of which it keeps the
/// last without a word.
class UniqueKeys {
public:
  bool operator()(int depth, nlohmann::json::parse_event_t event,
                  nlohmann::json &value) {
    using Event = nlohmann::json::parse_event_t;
    deepest = std::max(deepest, depth);
    if (event == Event::object_start)
      keys.emplace_back();
    else if (event == Event::object_end)
      keys.pop_back();
    else if (event == Event::key &&
             !keys.back().insert(value.get<std::string>()).second)
      second = value.get<std::string>();
    return true;
  }

  std::string second; // such a key; empty: there is none
  int deepest = 0;    // nesting

private:
  std::vector<std::set<std::string>> keys; // of the objects around
};

/// As it is printed. Bytes of the user's names that are no UTF-8 are replaced.
inline std::string toText(const nlohmann::ordered_json &report) {
  return report.dump(2, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

} // namespace polyrank
