// Which task of which machine this process is.

#pragma once

#include "runtime/session/JoinRun.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// Finds the place of this process in its job: by the options, the variables of
/// launchers and, where these do not say it, an exchange by PMIx.
Result<JobPlace> findPlace(const RunOptions &options);

/// Completes the options of a process at this place. Returns how it joins the
/// first task of its machine, if that is another one. Fails if the place needs
/// what the options lack or exclude, such as a key.
Result<std::optional<JoinRunOptions>> takePlace(RunOptions &options,
                                                const JobPlace &place);

} // namespace polyrank::runtime
