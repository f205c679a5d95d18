// How a session joins the other machines of its job.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/session/Prepared.h"

#include <memory>

namespace polyrank::runtime {

/// Returns once all machines are there and agree on what they run; a spare once
/// it is needed, with the place that it has got in `run`, or null if the job is
/// done without it. Fails with what is missing, or differs, on all of them.
Result<std::unique_ptr<OtherMachines>> joinMachines(Prepared &run);

} // namespace polyrank::runtime
