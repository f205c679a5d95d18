// The file of --log: JSON lines, each flushed as it is written.

#pragma once

#include "runtime/plan/PlanReport.h"
#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// The step that a record belongs to: its own, or that of the evaluation or
/// checkpoint that it is. Nothing of the first record of a start.
std::optional<uint64_t> stepOfRecord(const nlohmann::json &record);

/// Takes the records of steps after `step` out of a log, for a run that goes on
/// from there, and, where it evaluates after that step again, the record of
/// that. What is left is written beside it and takes its place at once. A last
/// line that is not whole goes too: whoever wrote it was ended. A log that is
/// not there is no error; one with another line that is no record is.
Result<void> dropRecordsAfter(const std::string &path, uint64_t step,
                              bool evaluatesAgain = false);

/// Calls body(record) for each record of a log; a last line that is not whole
/// is left out.
Result<void>
forEachRecord(const std::string &path,
              const std::function<void(const nlohmann::json &)> &body);

/// What the first record of a start says, besides the plan.
struct RunStart {
  std::string plan; // the file
  std::vector<std::string> commandLine;
  int64_t seed = 0;
  uint64_t firstStep = 1, steps = 0; // the latter: the last step's number
};

/// {"run": {..}}, with a random id, the machine and the time: docs/reports.md.
nlohmann::ordered_json recordOf(const RunStart &start, const PlanReport &plan);

} // namespace polyrank::runtime
