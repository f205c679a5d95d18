// What a run tells its user before the first step.

#pragma once

#include "runtime/session/Prepared.h"

#include <optional>

namespace polyrank::runtime {

/// Returns the planned seconds of a step by the times of a rehearsal and its
/// links; nothing without a rehearsal.
Result<std::optional<double>> rehearsedSecondsOf(const Prepared &run);

/// Tells what runs, and on which samples.
void tellStart(const Prepared &run);
/// Tells from which checkpoint the ranks begin, if they do.
void tellResumed(const Prepared &run);
/// Tells what is to be known of the options, before the ranks are started.
Result<void> tellNotes(const Prepared &run,
                       std::optional<double> rehearsedSeconds);

} // namespace polyrank::runtime
