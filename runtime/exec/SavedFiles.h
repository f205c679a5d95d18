// The assignment of tensors to files of weights.

#pragma once

#include "runtime/exec/RankProgram.h"
#include "support/safetensors/Safetensors.h"

namespace polyrank::runtime {

/// A stored tensor under one of its names.
struct SavedEntry {
  uint32_t stored = 0; // its number in the plan
  TensorSpec tensor;
};

/// A file of weights, with its tensors in the plan's order.
struct SavedFile {
  std::string path;
  std::vector<SavedEntry> entries;
  uint64_t bytes = 0; // of their values
};

/// Returns the files to write for `path`: that file, or, if it ends in '/', the
/// files of a folder as transformers saves them. In a folder no file exceeds
/// `shardBytes`, except that a larger tensor gets a file of its own; the names
/// of a tied tensor stay in one file. If one file suffices it is called
/// model.safetensors. The same on all ranks.
std::vector<SavedFile> savedFilesOf(const plan::Plan &plan,
                                    const SavedWeights &what,
                                    const std::string &path,
                                    uint64_t shardBytes);

/// The layout of one of these files: its size, its header and the offsets of
/// its tensors.
Result<SafetensorsWriter> layoutOf(const SavedFile &file);
/// The metadata in its header.
const std::map<std::string, std::string> &savedMetadata();

/// The text of the index of a folder's files; empty if there is only one file.
std::string indexOf(const std::vector<SavedFile> &files);

uint64_t bytesOf(const std::vector<SavedFile> &files);

} // namespace polyrank::runtime
