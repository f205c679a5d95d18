// A model's inputs, with the sizes that the user gives to open dims.

#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

namespace polyrank::frontends {

/// A dim as a file has it: a number, or a name that stands for one; neither
/// where the file says nothing.
struct DeclaredDim {
  std::optional<int64_t> size;
  std::string name;
};

/// An input as a file has it.
struct DeclaredInput {
  std::string name;
  std::string dtype;      // as NumPy calls it, or what it is that is no tensor
  mlir::Type elementType; // in which it is computed; null: not supported
  mlir::IntegerType held; // see Imported
  /// Nullopt where the file does not even say how many there are.
  std::optional<std::vector<DeclaredDim>> dims;
};

/// What @forward takes beside parameters and state.
struct Input {
  std::string name;
  mlir::RankedTensorType type;
  mlir::IntegerType held; // see Imported
  bool hasOpenBatch;      // the file leaves dim 0 open
};

/// In the file's order, without those whose values are known now
/// (ImportOptions::known). An error at `location` where a size is missing, or
/// what the user says is not so. `others` are dims that no input has, and that
/// `--dim` may give all the same.
mlir::FailureOr<std::vector<Input>> specialiseInputs(
    mlir::Location location, llvm::ArrayRef<DeclaredInput> declared,
    const ImportOptions &options, const std::set<std::string> &others = {});

} // namespace polyrank::frontends
