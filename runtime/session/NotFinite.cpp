// Describes what is not finite, and what to do.

#include "runtime/session/NotFinite.h"

#include "runtime/session/SessionData.h"

#include <fmt/format.h>

namespace polyrank::runtime {

bool stopsAtNan(const SessionOptions &options, const plan::Plan &plan) {
  return plan.mode() == plan::Mode::Train && !options.allowNan;
}

/// Returns the error for a step in which `what` happened, with the NaN in the
/// data that it read.
static Error describeNotFinite(const SessionOptions &options,
                               const plan::Plan &plan, uint64_t step,
                               const std::string &what, const DataSource *data,
                               uint64_t origin) {
  std::string place =
      data ? data->findNan(splitOf(options, plan), step - 1 - origin) : "";
  return Error{
      fmt::format("step {}: {}{}; {}, or go on with --allow-nan", step, what,
                  place.empty() ? "" : ", and so is what it reads: " + place,
                  place.empty() ? "lower the learning rate" : "mend the data"),
      Error::Fault::NotFinite};
}

std::optional<Error> findNotFinite(const SessionOptions &options,
                                   const plan::Plan &plan,
                                   const StepReport &report,
                                   const DataSource *data, uint64_t origin) {
  if (!stopsAtNan(options, plan) || !report.lossIsNan())
    return std::nullopt;
  return describeNotFinite(options, plan, report.step, "the loss is NaN", data,
                           origin);
}

Error describeStuck(const SessionOptions &options, const plan::Plan &plan,
                    uint64_t step, const std::string &where,
                    const DataSource *data, uint64_t origin) {
  return describeNotFinite(
      options, plan, step,
      where + " is not finite, and the loss scale is as small as it may be",
      data, origin);
}

} // namespace polyrank::runtime
