// The files of one --save, as the launcher makes them.

#pragma once

#include "runtime/exec/SavedFiles.h"
#include "support/OutputFile.h"
#include "support/Outputs.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// What `save` writes, for checkOutputs; an error where its folder has weights
/// that would stay beside the new ones, as another set.
Result<std::vector<OutputUse>> outputsOf(const SaveFile &save,
                                         const std::vector<SavedFile> &files);

/// A file of weights, or a folder of them with its index. Until `commit`
/// nothing of it can be seen but the folder, which goes again where it was made
/// in vain.
class SaveOutput {
public:
  static Result<SaveOutput> create(const SaveFile &save,
                                   std::vector<SavedFile> files);
  SaveOutput(SaveOutput &&other) noexcept;
  SaveOutput &operator=(SaveOutput &&) = delete;
  ~SaveOutput();

  /// For ranks to write to, in the order of the files.
  const std::vector<OutputFile> &files() const { return outputs; }
  /// Nothing counts that ranks have written so far.
  Result<void> clear();

  /// Gives all files their names, the index last. An older index goes first, so
  /// that there is none as long as the files are not all of one set. Fails
  /// before any of that where one of them has not its size and header.
  Result<void> commit();

private:
  explicit SaveOutput(std::string folder) : folder(std::move(folder)) {}

  std::string folder; // empty: a file alone
  bool madeFolder = false;
  std::string index; // its text; empty: none
  std::vector<OutputFile> outputs;
  std::vector<SafetensorsWriter> layouts; // of each
  std::optional<OutputFile> indexOutput;
};

} // namespace polyrank::runtime
