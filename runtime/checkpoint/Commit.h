// Makes what the ranks have written a checkpoint, and removes older ones.

#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/FileOperations.h"

#include <functional>

namespace polyrank::runtime {

/// Gives the files of `unfinished` (unfinishedPath), each of which is durable
/// there, a manifest, and the folder the name of its step:
///
///   write manifest.json, sync it, sync the unfinished folder,
///   rename it to DIR/step-N, sync DIR.
///
/// Power may fail at any point: the new checkpoint is whole or has no name. One
/// that is there already under this name, and is damaged, is set aside as
/// step-N.damaged; a whole one is an error.
Result<void> commitCheckpoint(FileOperations &files, const std::string &folder,
                              const std::string &unfinished,
                              const Manifest &manifest);

/// Gives a checkpoint that was committed another manifest, which differs from
/// its own in what came to be known since (metrics, evaluation): whatever
/// happens meanwhile, it has the one or the other, and is whole.
///
///   write manifest.json.new, sync it, rename it to manifest.json, sync the
///   folder
Result<void> amendCheckpoint(FileOperations &files, const std::string &folder,
                             const Manifest &manifest);

/// Renames a damaged checkpoint to step-N.damaged, or .damaged-2 and so on.
Result<void> setAside(FileOperations &files, const std::string &checkpoint);

/// Removes what a save that failed has left: shards and manifest, and the
/// folder where nothing else is in it.
Result<void> removeUnfinished(FileOperations &files,
                              const std::string &unfinished);

/// Removes what runs that are gone have left in a folder, which the caller has
/// to itself.
Result<void> removeLeftovers(FileOperations &files, const std::string &folder);

/// Which checkpoints stay.
struct Retention {
  uint64_t keep = 0;    // the newest so many; 0: all
  std::string best;     // and the one with the best value of this metric
  bool highest = false; // which is the highest, else the lowest
};

/// Removes the others, each by renaming it to .trash-step-N first, so that no
/// half of one is ever found. Called after a newer one is committed. Damaged
/// ones stay, and so does everything that is no checkpoint.
Result<void> applyRetention(FileOperations &files, const std::string &folder,
                            const Retention &retention, int64_t run);

} // namespace polyrank::runtime
