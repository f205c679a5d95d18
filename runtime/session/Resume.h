// Finds the checkpoint from which a run resumes, and checks that it can.

#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/session/SessionData.h"

namespace polyrank::runtime {

/// The order of samples in the checkpoint of a run with a feed, and if the feed
/// could not go on where it was.
/// @{
inline constexpr const char *feedOrder = "feed";
inline constexpr const char *inexactFeedOrder = "feed, not exact";
/// @}

/// Returns the checkpoint that --resume names, or the newest intact one in the
/// folder it names, of a step before `before`. Tells the user which ones are
/// passed over and why. Returns nothing for `auto` if there is no checkpoint.
Result<std::optional<FoundCheckpoint>>
findResumed(const CheckpointOptions &options, uint64_t before = ~uint64_t(0));
/// True if --resume names a folder, which may have other checkpoints.
bool resumesFromFolder(const CheckpointOptions &options);

/// Returns the description of this run's samples for a manifest; `data` may be
/// null.
Result<ManifestData> dataOf(const SessionOptions &options,
                            const plan::Plan &plan, const DataSource *data);

/// Fails unless a run with the data `now` can continue where the checkpoint
/// ended: with the same samples in the same order, and the same number per
/// step. Sets `now.origin`. The error names both and the remedy.
Result<void> continueData(const SessionOptions &options,
                          const FoundCheckpoint &found, ManifestData &now);

/// Fails if the folder of --checkpoint has checkpoints that this run would
/// write again: intact ones of steps after `step`, from which it starts.
Result<void> checkFolder(const CheckpointOptions &options, uint64_t step);

} // namespace polyrank::runtime
