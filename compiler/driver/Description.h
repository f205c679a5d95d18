// What --describe found out, and how it is shown.

#pragma once

#include "compiler/driver/Driver.h"
#include "frontends/onnx/Describe.h"
#include "frontends/onnx/Import.h"
#include "support/Names.h"

namespace polyrank::driver {

/// A dim of the inputs that the export left open.
struct OpenDim {
  std::string name;
  int64_t size; // the user's, or one that the model takes; 0: none was found
  bool isGiven;
  bool isBatch; // dim 0
};

/// Parameters that differ in the numbers of layers only.
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
  /// Why there are no FLOPs or no command, where it is not for unsupported
  /// nodes.
  std::string problem;
  /// For the sizes of `dims`, which the user may not have given.
  std::optional<int64_t> forwardFlops, stepFlops;
  std::vector<std::string> notes;
  /// The losses that fit the outputs, those of an output one after the other,
  /// where the user gave none. The command has the first.
  std::vector<std::string> losses;
  /// The arguments of the command that compiles the model; empty: none does.
  std::vector<std::string> command;
};

/// The arguments by which polyrank-compile does what `options` say.
std::vector<std::string> commandFor(const Options &options);

/// For a terminal of 80 columns.
std::string toText(const Description &description);
/// The report "describe" of docs/reports.md.
std::string toJson(const Description &description);

} // namespace polyrank::driver
