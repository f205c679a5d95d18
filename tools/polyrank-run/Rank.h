// What polyrank-run does in the process of one rank.

#pragma once

#include "runtime/launch/Launcher.h"
#include "tools/polyrank-run/Options.h"

namespace polyrank::runtime {

/// The order of LaunchOptions::descriptors. The second is memory: the outputs of
/// a forward run, or what a training run saves with.
enum JobFile { planFile, memoryFile, saveFile, profileFile };

/// The outputs of a forward plan for `samples` samples, one after the other in
/// one memory, each aligned to 64 bytes.
struct OutputArray {
  size_t number; // in the program
  std::string name;
  DType dtype;
  std::vector<int64_t> shape; // [samples, ...]
  uint64_t offset, bytes;
};
std::vector<OutputArray> outputArraysOf(const plan::Plan &plan,
                                        uint64_t samples);

/// Runs the rank to its end; the exit status of the process.
int rankMain(const RunOptions &options, const RankConnection &connection);

} // namespace polyrank::runtime
