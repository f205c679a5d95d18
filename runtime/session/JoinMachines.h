// How a session joins the other machines of its job.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/session/Prepared.h"

#include <memory>

namespace polyrank::runtime {

/// Returns once all machines are there and agree on what they run. Fails with
/// what is missing, or differs, on all of them.
Result<std::unique_ptr<OtherMachines>> joinMachines(const Prepared &run);

} // namespace polyrank::runtime
