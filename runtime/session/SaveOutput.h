// The files of one --save, which the launcher creates.

#pragma once

#include "runtime/exec/SavedFiles.h"
#include "runtime/session/SessionOptions.h"
#include "support/OutputFile.h"
#include "support/Outputs.h"

namespace polyrank::runtime {

/// Returns the files that `save` writes, for checkOutputs. Fails if its folder
/// has weights of another set, which would remain beside the new ones.
Result<std::vector<OutputUse>> outputsOf(const SaveFile &save,
                                         const std::vector<SavedFile> &files);

/// A file of weights, or a folder of them with its index. Until `commit` only
/// the folder is visible; it is removed again if it was created and nothing is
/// committed.
class SaveOutput {
public:
  static Result<SaveOutput> create(const SaveFile &save,
                                   std::vector<SavedFile> files);
  SaveOutput(SaveOutput &&other) noexcept;
  SaveOutput &operator=(SaveOutput &&) = delete;
  ~SaveOutput();

  /// The files that the ranks write to, in the order of `create`.
  const std::vector<OutputFile> &files() const { return outputs; }
  /// Discards all that ranks have written so far.
  Result<void> clear();

  /// Gives all files their names, the index last. An older index is removed
  /// first, so that no index exists while the files are not all of one set.
  /// Fails before all this if a file lacks its size and header.
  Result<void> commit();

private:
  explicit SaveOutput(std::string folder) : folder(std::move(folder)) {}

  std::string folder; // empty: a single file
  bool madeFolder = false;
  std::string index; // its text; empty: none
  std::vector<OutputFile> outputs;
  std::vector<SafetensorsWriter> layouts; // of each
  std::optional<OutputFile> indexOutput;
};

} // namespace polyrank::runtime
