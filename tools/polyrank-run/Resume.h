// Which checkpoint a run goes on from, and whether it can.

#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// The checkpoint that --resume names: just that one, or the newest whole one
/// of a folder that is older than step `before`. Tells the user about those
/// that are passed over, with the reason. Nothing with `auto` and no checkpoint
/// there.
Result<std::optional<FoundCheckpoint>>
findResumed(const CheckpointOptions &options, uint64_t before = ~uint64_t(0));
/// Whether --resume names a folder, in which there may be others.
bool resumesFromFolder(const CheckpointOptions &options);

/// What a manifest of this run says of its samples; `data` may be null.
Result<ManifestData> dataOf(const RunOptions &options, const plan::Plan &plan,
                            const DataSource *data);

/// Whether a run with these data goes on where the checkpoint ended: the same
/// samples in the same order, and as many a step. Sets `now.origin`. The error
/// names both and the way out.
Result<void> continueData(const RunOptions &options,
                          const FoundCheckpoint &found, ManifestData &now);

/// Fails where the folder of --checkpoint has checkpoints that this run would
/// write again: whole ones of later steps than `step`, from which it starts.
Result<void> checkFolder(const CheckpointOptions &options, uint64_t step);

} // namespace polyrank::runtime
