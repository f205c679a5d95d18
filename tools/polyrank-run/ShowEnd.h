// Shows what a run has done.

#pragma once

#include "runtime/session/Run.h"

namespace polyrank::runtime {

/// Shows the end of a run that has written its files: a summary on standard
/// error, and its results on standard output. Fails if that cannot be written,
/// or with what has failed without ending the run.
Result<void> showEnd(const Run &run);

} // namespace polyrank::runtime
