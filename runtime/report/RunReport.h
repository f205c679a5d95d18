// What a run did, as the report "run" of docs/reports.md.

#pragma once

#include "runtime/report/Progress.h"

#include <optional>

namespace polyrank::runtime {

/// What polyrank-run was asked to read and write; empty: not asked for.
struct RunFiles {
  std::string plan, data, init, save, saveTrained, saveEma, outputs, log,
      profile, trace, rehearse;
};

/// Of a run that came to its end, with the --link that were in force; of a
/// rehearsal with the seconds that a step takes by its times; `restarts` after
/// failures of ranks. A forward run may find a mean loss of NaN.
nlohmann::ordered_json
reportOf(const PlanReport &plan, const Mesh &mesh, const Progress &progress,
         const std::vector<RankUse> &uses, const RunFiles &files,
         const std::vector<std::string> &links,
         std::optional<double> rehearsedSeconds, uint32_t restarts = 0);

/// Of a run that failed after `steps` steps.
nlohmann::ordered_json reportOfFailure(const Error &error, uint64_t steps,
                                       const RunFiles &files);

} // namespace polyrank::runtime
