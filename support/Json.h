// What all JSON reports share (docs/reports.md describes each), and strict
// parsing of JSON files.

#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace polyrank {

/// The version of most reports. That of one report is incremented if a field is
/// removed or changes its meaning, not for a new field.
constexpr int reportVersion = 1;

/// A report of a kind: compile, describe, plan, run or profile.
inline nlohmann::ordered_json newReport(const char *kind,
                                        int version = reportVersion) {
  return {{"report", kind}, {"version", version}};
}

/// A callback for nlohmann::json::parse that finds duplicate keys in an object:
/// the parsed document keeps only the last one, without an error.
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

  std::string second; // a duplicate key; empty: there is none
  int deepest = 0;    // nesting depth

private:
  std::vector<std::set<std::string>> keys; // of the enclosing objects
};

/// The printed form. Bytes of the user's names that are not UTF-8 are replaced.
inline std::string toText(const nlohmann::ordered_json &report) {
  return report.dump(2, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

} // namespace polyrank
