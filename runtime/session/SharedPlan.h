// A plan whose ranks several machines share out: what cannot be done yet, and
// what must be alike on all.

#pragma once

#include "runtime/job/OtherMachines.h"
#include "runtime/session/Prepared.h"

#include <functional>
#include <string>

namespace polyrank::runtime {

/// Fails if the options want what ranks of several machines cannot do. The
/// error says what to do instead.
Result<void> checkShared(const Prepared &run);

/// What decides what the ranks compute and write, as "name=value" parts that
/// commas separate: it must be the same on all machines.
Result<std::string> settingsOf(const Prepared &run);
/// The fingerprints of the samples; empty if there are none.
Result<std::string> dataOf(const Prepared &run);

/// Fails, on all machines, unless each sees in the folder of --checkpoint what
/// the others write there. The error names those that do not.
Result<void> checkFolderIsShared(const Prepared &run, OtherMachines &others,
                                 const std::function<bool()> &isInterrupted);

} // namespace polyrank::runtime
