// A plan whose ranks several machines share out: what cannot be done yet, and
// what must be alike on all.

#pragma once

#include "runtime/session/Prepared.h"

#include <optional>
#include <string>

namespace polyrank::runtime {

/// Fails if the options want what ranks of several machines cannot do. The
/// error says what to do instead.
Result<void> checkShared(const Prepared &run);

/// Fails unless fewer machines can go on with each of the plans of --plan-if.
Result<void> checkPlansIf(const Prepared &run);

/// What decides what the ranks compute and write, as "name=value" parts that
/// commas separate: it must be the same on all machines.
Result<std::string> settingsOf(const Prepared &run);
/// Step and digest of a checkpoint's manifest, which has the checksums of all
/// its files; "none" without a checkpoint.
Result<std::string>
describeWithDigest(const std::optional<FoundCheckpoint> &checkpoint);
/// The fingerprints of the samples; empty if there are none.
Result<std::string> dataOf(const Prepared &run);

} // namespace polyrank::runtime
