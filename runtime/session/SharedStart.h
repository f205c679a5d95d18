// What machines that share the ranks of a plan settle before each start.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/session/Prepared.h"

#include <functional>

namespace polyrank::runtime {

/// Called on all machines before each start of the ranks. Fails, on all of
/// them, unless each sees in the folder of --checkpoint what the others write
/// there; the error names those that do not. After that `run` begins on all
/// machines from the checkpoint that machine 0 has chosen: the others cannot
/// know it, since they may have come later, or see another state of the folder.
Result<void> settleStart(Prepared &run, OtherMachines &others,
                         const std::function<bool()> &isInterrupted);

/// The number of the run at this start, for the names of unfinished files.
inline int64_t numberOf(const OtherMachines &others) {
  return int64_t(others.incarnation() >> 1);
}

} // namespace polyrank::runtime
