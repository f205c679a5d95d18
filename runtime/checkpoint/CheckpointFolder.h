// The folder in which the checkpoints of a run lie: their names, and which of
// them is the newest whole one.
//
//   DIR/step-000000100/               a checkpoint: it is whole, or damaged
//   DIR/.tmp-step-000000200.4711/     one that is being written
//   DIR/.trash-step-000000050.4711/   one that is being removed

#pragma once

#include "runtime/checkpoint/Manifest.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// step-000000100
std::string checkpointName(uint64_t step);
/// DIR/step-000000100
std::string checkpointPath(const std::string &folder, uint64_t step);
/// DIR/.tmp-step-000000100.4711, of the run with this number.
std::string unfinishedPath(const std::string &folder, uint64_t step,
                           int64_t run);

/// The steps of the checkpoints in a folder, the newest first, whole or not;
/// none where there is no folder. A folder that cannot be read is an error.
Result<std::vector<uint64_t>> checkpointsIn(const std::string &folder);
/// The names of those that were set aside: step-000000100.damaged.
Result<std::vector<std::string>> damagedIn(const std::string &folder);

/// A checkpoint whose manifest is right, and whose files have their sizes.
struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
};
Result<FoundCheckpoint> openCheckpoint(const std::string &path);

/// Whether a checkpoint of which this was said is damaged, or not there. Else
/// it may be whole: the system could not read it now, which fails with
/// Fault::Rank, or a newer program wrote it. Then nobody renames it, or goes on
/// from an older one instead.
bool isDamage(const Error &error);
/// The same of the error that reading one of its files has met.
Error ofCheckpoint(Error error);

/// Why a checkpoint was passed over: "DIR/step-000000200/manifest.json: ...".
struct CheckpointChoice {
  std::optional<FoundCheckpoint> found;
  std::vector<std::string> damaged;
};
/// The newest whole one, of those before step `before`. An error that is no
/// damage, of a newer one than that, is an error here.
Result<CheckpointChoice> newestCheckpoint(const std::string &folder,
                                          uint64_t before = ~uint64_t(0));

} // namespace polyrank::runtime
