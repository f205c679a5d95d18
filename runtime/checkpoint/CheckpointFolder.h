// The folder with the checkpoints of a run: their names, and the choice of the
// newest intact one.
//
//   DIR/step-000000100/               a checkpoint, intact or damaged
//   DIR/.tmp-step-000000200.4711/     a checkpoint that is being written
//   DIR/.trash-step-000000050.4711/   a checkpoint that is being removed

#pragma once

#include "runtime/checkpoint/Manifest.h"

#include <string>
#include <vector>

namespace polyrank::runtime {

/// step-000000100
std::string checkpointName(uint64_t step);
/// DIR/step-000000100
std::string checkpointPath(const std::string &folder, uint64_t step);
/// DIR/.tmp-step-000000100.4711, where 4711 is the number of the run.
std::string unfinishedPath(const std::string &folder, uint64_t step,
                           int64_t run);

/// Returns the steps of all checkpoints in a folder, intact or damaged, newest
/// first. A folder that does not exist has none; one that cannot be read is an
/// error.
Result<std::vector<uint64_t>> checkpointsIn(const std::string &folder);
/// Returns the names of the checkpoints that were set aside as damaged:
/// step-000000100.damaged.
Result<std::vector<std::string>> damagedIn(const std::string &folder);

/// A checkpoint with a valid manifest, whose files have the sizes that it
/// states.
struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
};
Result<FoundCheckpoint> openCheckpoint(const std::string &path);

/// Returns true if this error, met in opening or reading a checkpoint, means
/// that the checkpoint is damaged or missing. Otherwise it may be intact: the
/// system could not read it now (Fault::Rank), or a newer program wrote it.
/// Then nobody renames it or resumes from an older checkpoint instead.
bool isDamage(const Error &error);
/// Turns an error from reading a file of a checkpoint into an error of the
/// checkpoint, for `isDamage`.
Error ofCheckpoint(Error error);

/// The chosen checkpoint, if any, and why newer ones were passed over:
/// "DIR/step-000000200/manifest.json: ...".
struct CheckpointChoice {
  std::optional<FoundCheckpoint> found;
  std::vector<std::string> damaged;
};
/// Returns the newest intact checkpoint of a step before `before`. If a newer
/// one fails with an error that is not damage, that error is returned.
Result<CheckpointChoice> newestCheckpoint(const std::string &folder,
                                          uint64_t before = ~uint64_t(0));

} // namespace polyrank::runtime
