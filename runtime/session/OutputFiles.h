// The files that a run writes at its end.

#pragma once

#include "runtime/job/Window.h"
#include "runtime/report/Progress.h"
#include "runtime/session/OutputArrays.h"
#include "runtime/session/SaveOutput.h"
#include "support/OutputFile.h"

#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime {

/// Files of weights, profile, trace and the arrays of outputs, which the
/// launcher creates and the ranks write to, and the window in which the ranks
/// assemble them. Nothing is visible under the files' names before `commit`.
class OutputFiles {
public:
  OutputFiles() = default;
  /// Creates the requested files. The ranks will share a window of
  /// `windowBytes` (Prepared::windowBytes).
  static Result<OutputFiles> create(const SessionOptions &options,
                                    const plan::Plan &plan,
                                    uint64_t windowBytes);
  /// The same without files, which another machine writes.
  static OutputFiles ofAnotherMachine(uint64_t windowBytes) {
    OutputFiles none;
    none.windowBytes = windowBytes;
    return none;
  }
  /// Creates the window, if the ranks need one.
  Result<void> createWindow();

  /// The descriptors for JobFile, -1 for what is not used.
  int windowDescriptor() const { return window ? window->descriptor() : -1; }
  std::span<std::byte> windowData() const {
    return window ? window->data() : std::span<std::byte>();
  }
  int profile() const { return numberOf(profileOutput); }
  int trace() const { return numberOf(traceOutput); }
  /// Of the files of weights, in the order of SessionOptions::saves and
  /// savedFilesOf.
  std::vector<int> weights() const;

  /// Discards all that the ranks of a failed attempt have written, so that none
  /// gets into the files of the next one.
  Result<void> clear();
  /// Gives the files of weights their names.
  Result<void> commitWeights();
  /// Gives all files their names, after writing the arrays: the tensors that
  /// the ranks have assembled, and the mean of each scalar output. Called once.
  Result<void> commit(const std::vector<OutputArray> &outputs,
                      const Progress &progress);

  /// Describes what a run that ended early has left under the names of its
  /// files of weights. With `isKept` they have the weights after `steps` steps.
  std::string describeKept(bool isKept, uint64_t steps) const;

private:
  static int numberOf(const std::optional<OutputFile> &file) {
    return file ? file->descriptor().get() : -1;
  }
  Result<void> writeArrays(const std::vector<OutputArray> &outputs,
                           const Progress &progress);

  std::vector<SaveOutput> saves;
  std::optional<OutputFile> profileOutput, traceOutput, arraysOutput;
  uint64_t windowBytes = 0;
  std::optional<Window> window;
};

} // namespace polyrank::runtime
