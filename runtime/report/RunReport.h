// The report "run" of docs/reports.md: what a run did.

#pragma once

#include "runtime/report/Progress.h"

#include <optional>

namespace polyrank::runtime {

/// The files that polyrank-run was asked to read and write; empty if not given.
struct RunFiles {
  std::string plan, data, init, save, saveTrained, saveEma, outputs, log,
      profile, trace, rehearse;
};

/// Returns the report of a run that came to its end. `links` are the --link
/// options, `rehearsedSeconds` is the planned time of a step in a rehearsal,
/// and `restarts` counts the restarts after failures of ranks. The mean loss of
/// a forward run may be NaN.
nlohmann::ordered_json
reportOf(const PlanReport &plan, const Mesh &mesh, const Progress &progress,
         const std::vector<RankUse> &uses, const RunFiles &files,
         const std::vector<std::string> &links,
         std::optional<double> rehearsedSeconds, uint32_t restarts = 0);

/// Returns the report of a run that failed after `steps` steps.
nlohmann::ordered_json reportOfFailure(const Error &error, uint64_t steps,
                                       const RunFiles &files);

} // namespace polyrank::runtime
