// What all reports in JSON have in common. docs/reports.md describes each.

#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace polyrank {

/// Raised when a field goes or changes its meaning; a new field does not.
constexpr int reportVersion = 1;

/// An object that says what it is: compile, describe, plan, run or profile.
inline nlohmann::ordered_json newReport(const char *kind) {
  return {{"report", kind}, {"version", reportVersion}};
}

/// As it is printed. Bytes of the user's names that are no UTF-8 are replaced.
inline std::string toText(const nlohmann::ordered_json &report) {
  return report.dump(2, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

} // namespace polyrank
