// Asks a launcher for the place of a rank.

#include "runtime/session/JoinRun.h"

#include "runtime/launch/Guest.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/report/Messages.h"

#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// The SHA-256 that the run's plan must have; empty: any.
Result<std::string> planHashOf(const JoinRunOptions &options) {
  if (options.plan.empty())
    return options.sha256;
  POLYRANK_ASSIGN(plan, readPlan(options.plan));
  std::string found = plan.sha256();
  if (!options.sha256.empty() && options.sha256 != found)
    return Error{fmt::format("plan '{}' has SHA-256 {}, not {} (--sha256): it "
                             "is another plan, or was changed on its way",
                             options.plan, found, options.sha256)};
  return found;
}

Result<Admission> join(const JoinRunOptions &options) {
  POLYRANK_ASSIGN(hash, planHashOf(options));
  GuestRequest request{options.job, options.rank, hash};
  request.patience = options.timeout > 0
                         ? std::chrono::milliseconds(
                               static_cast<int64_t>(1e3 * options.timeout))
                         : std::chrono::hours(1'000'000);
  if (!options.quiet)
    request.onWait = [&] {
      tell(fmt::format("polyrank-run: rank {} waits for run '{}' to begin\n",
                       options.rank, options.job));
    };
  return comeAsGuest(request);
}

} // namespace

int joinRun(const JoinRunOptions &options) {
  Result<Admission> admitted = join(options);
  if (admitted) {
    finishTelling(); // its thread does not survive
    return becomeRank(*admitted);
  }
  tell(fmt::format("polyrank-run: {}\n", admitted.error().message));
  return int(admitted.error().fault);
}

} // namespace polyrank::runtime
