// What a command may write to: never what it reads, nor what another of its
// outputs goes to, nor a file of another kind that somebody else made.

#pragma once

#include "support/Result.h"

#include <span>
#include <string>

namespace polyrank {

/// What a file holds, as far as its first bytes say, or a folder.
enum class FileKind {
  Plan,
  Safetensors,
  WeightsIndex, // of a folder of safetensors
  Npz,
  Log,
  Profile,
  Trace,
  Times,
  Svg,
  Folder // that takes files which are outputs too
};

/// A file that a command reads.
struct InputUse {
  std::string what; // "the data (--data)"
  std::string path;
};

/// A file that a command makes.
struct OutputUse {
  std::string option; // "--save"
  std::string path;
  FileKind kind;
};

/// Refuses, before anything is opened for writing, an output
///   - that is an input, or another output, under whatever name: by device and
///     inode, through links and mounts; what is not there yet by its folder;
///   - whose name says another format than it will have ("--save x.pt");
///   - that exists and holds something else than such an output (an empty file
///     holds nothing): an old plan is replaced, a model is not.
/// Inputs that are not there are somebody else's to report.
Result<void> checkOutputs(std::span<const InputUse> inputs,
                          std::span<const OutputUse> outputs);

} // namespace polyrank
