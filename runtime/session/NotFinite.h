// The errors of steps that are not finite.

#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/report/Progress.h"
#include "runtime/session/SessionOptions.h"

#include <optional>
#include <string>

namespace polyrank::runtime {

/// True if a NaN ends the run.
bool stopsAtNan(const SessionOptions &options, const plan::Plan &plan);
/// Returns the error for a step whose loss is NaN, with what the step read
/// (`data` may be null): a NaN spreads from the loss to all weights and stays
/// there. If no target counted, the loss is a mean over nothing, and the
/// gradients are zero. `origin` is the step after which the order of the
/// samples began.
std::optional<Error> findNotFinite(const SessionOptions &options,
                                   const plan::Plan &plan,
                                   const StepReport &report,
                                   const DataSource *data, uint64_t origin);

/// Returns the error for a step that could neither be applied nor skipped.
/// `where` names the first parameter whose gradient was not finite, and its
/// rank; the other arguments are as above.
Error describeStuck(const SessionOptions &options, const plan::Plan &plan,
                    uint64_t step, const std::string &where,
                    const DataSource *data, uint64_t origin);

} // namespace polyrank::runtime
