// Checks the files that a command is to write: an output must not be an input,
// another output, or a file of another kind that somebody else made.

#pragma once

#include "support/Result.h"

#include <span>
#include <string>

namespace polyrank {

/// The contents of a file, according to its first bytes, or a folder.
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
  Machine, // measured by polyrank-run --calibrate
  Folder   // that receives other output files
};

/// A file that a command reads.
struct InputUse {
  std::string what; // "the data (--data)"
  std::string path;
};

/// A file that a command writes.
struct OutputUse {
  std::string option; // "--save"
  std::string path;
  FileKind kind;
};

/// Refuses, before anything is opened for writing, an output
/// - that is an input or another output, under any name: compared by device and
///   inode, through links and mounts; a file that does not exist yet by its
///   folder;
/// - whose name suggests another format than it will have ("--save x.pt");
/// - that exists and holds anything else than such an output (or nothing): an
///   old plan is replaced, a model is not.
/// Missing inputs are not reported here.
Result<void> checkOutputs(std::span<const InputUse> inputs,
                          std::span<const OutputUse> outputs);

} // namespace polyrank
