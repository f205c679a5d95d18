// The findings of --describe, and how they are printed.

#pragma once

#include "compiler/driver/Driver.h"
#include "frontends/onnx/Describe.h"
#include "frontends/onnx/Import.h"
#include "support/Names.h"

namespace polyrank::driver {

/// A dim of the inputs that the export left open.
struct OpenDim {
  std::string name;
  int64_t size; // given by the user or found by trial; 0: none found
  bool isGiven;
  bool isBatch; // dim 0
};

/// Parameters whose names differ only in the numbers of layers.
struct ParameterGroup {
  frontends::DescribedParameter first;
  LayerNames names;
  int64_t count;
};

struct Description {
  std::string model;
  frontends::ModelDescription file;
  std::vector<OpenDim> dims;
  std::vector<ParameterGroup> groups;
  std::vector<frontends::UnsupportedNodes> unsupported;
  /// The reason why there are no FLOPs or no command, other than unsupported
  /// nodes.
  std::string problem;
  /// FLOPs for the sizes of `dims`, which the user may not have given.
  std::optional<int64_t> forwardFlops, stepFlops;
  std::vector<std::string> notes;
  /// The losses that fit the outputs, grouped by output, if the user gave no
  /// loss. The command uses the first.
  std::vector<std::string> losses;
  /// The arguments of the command that compiles the model; empty if none does.
  std::vector<std::string> command;
};

/// The arguments with which polyrank-compile is run for `options`: those that
/// differ from the defaults.
std::vector<std::string> commandFor(Options options);

/// Formats the description for a terminal of 80 columns.
std::string toText(const Description &description);
/// The report "describe" of docs/reports.md.
std::string toJson(const Description &description);

} // namespace polyrank::driver
