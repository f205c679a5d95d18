// Turns what the ranks have written into a checkpoint, and removes older ones.

#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/FileOperations.h"

#include <functional>

namespace polyrank::runtime {

/// Adds the manifest to the folder `unfinished` (unfinishedPath), whose files
/// must all be durable, and renames the folder to the name of its step:
///
///   write manifest.json, sync it, sync the unfinished folder,
///   rename it to DIR/step-N, sync DIR.
///
/// Power may fail at any point: the new checkpoint is complete or does not
/// exist under its name. A damaged checkpoint that already has this name is set
/// aside as step-N.damaged; an intact one is an error.
Result<void> commitCheckpoint(FileOperations &files, const std::string &folder,
                              const std::string &unfinished,
                              const Manifest &manifest);

/// Replaces the manifest of a committed checkpoint by one with what has become
/// known since (metrics, evaluation). Even if power fails, the checkpoint stays
/// intact, with either the old or the new manifest.
///
///   write manifest.json.new, sync it, rename it to manifest.json, sync the
///   folder
Result<void> amendCheckpoint(FileOperations &files, const std::string &folder,
                             const Manifest &manifest);

/// Renames a damaged checkpoint to step-N.damaged, or .damaged-2 and so on.
Result<void> setAside(FileOperations &files, const std::string &checkpoint);

/// Removes what a failed save has left: shards, manifest, and the folder if
/// nothing else is in it.
Result<void> removeUnfinished(FileOperations &files,
                              const std::string &unfinished);

/// Removes what earlier runs have left in a folder. The caller must have locked
/// it.
Result<void> removeLeftovers(FileOperations &files, const std::string &folder);

/// The checkpoints that are retained.
struct Retention {
  uint64_t keep = 0;    // how many of the newest; 0: all
  std::string best;     // also the best by this metric
  bool highest = false; // "best" is the highest value, else the lowest
};

/// Removes the checkpoints that are not retained. Each is first renamed to
/// .trash-step-N, so that a half-removed checkpoint is never found. Called
/// after a newer one is committed. Damaged checkpoints and everything that is
/// not a checkpoint stay.
Result<void> applyRetention(FileOperations &files, const std::string &folder,
                            const Retention &retention, int64_t run);

} // namespace polyrank::runtime
