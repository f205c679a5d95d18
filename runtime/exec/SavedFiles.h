// Which tensors go to which file of weights.

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

/// What is written for `path`: that file, or, where it ends in '/', the files
/// of a folder as transformers saves them. There a file takes no further tensor
/// that would make it larger than `shardBytes`, and one that is larger by
/// itself gets a file of its own; the names of a tied tensor stay together.
/// What fits one file is called model.safetensors. The same on all ranks.
std::vector<SavedFile> savedFilesOf(const plan::Plan &plan,
                                    const SavedWeights &what,
                                    const std::string &path,
                                    uint64_t shardBytes);

/// The layout of one of these files: what is written to it has this size, with
/// its header.
Result<SafetensorsWriter> layoutOf(const SavedFile &file);
/// The metadata in its header.
const std::map<std::string, std::string> &savedMetadata();

/// The index of the files of a folder; empty where there is only one.
std::string indexOf(const std::vector<SavedFile> &files);

uint64_t bytesOf(const std::vector<SavedFile> &files);

} // namespace polyrank::runtime
