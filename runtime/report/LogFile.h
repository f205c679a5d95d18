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

/// Returns the step of a step, evaluation or checkpoint record; nothing for the
/// first record of a start.
std::optional<uint64_t> stepOfRecord(const nlohmann::json &record);

/// Removes the records of steps after `step` from a log, for a run that resumes
/// there, and with `evaluatesAgain` also the record of the evaluation after
/// `step`. The log is replaced atomically. An incomplete last line, from a
/// writer that was killed, is removed too. A missing log is no error; a log
/// with any other invalid line is.
Result<void> dropRecordsAfter(const std::string &path, uint64_t step,
                              bool evaluatesAgain = false);

/// Calls body(record) for each record of a log, except an incomplete last line.
Result<void>
forEachRecord(const std::string &path,
              const std::function<void(const nlohmann::json &)> &body);

/// The contents of the first record of a start, besides the plan.
struct RunStart {
  std::string plan; // the file
  std::vector<std::string> commandLine;
  int64_t seed = 0;
  uint64_t firstStep = 1, steps = 0; // `steps` is the last step's number
};

/// Returns {"run": {..}}, with a random id, the machine and the time:
/// docs/reports.md.
nlohmann::ordered_json recordOf(const RunStart &start, const PlanReport &plan);

} // namespace polyrank::runtime
