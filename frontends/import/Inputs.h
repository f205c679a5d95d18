// The inputs of a model, with the sizes that the user gives for open dims.

#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/import/Options.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

namespace polyrank::frontends {

/// A dim as the file declares it: a number, or a name that stands for one;
/// neither if the file says nothing.
struct DeclaredDim {
  std::optional<int64_t> size;
  std::string name;
};

/// An input as the file declares it.
struct DeclaredInput {
  std::string name;
  std::string dtype;      // as NumPy calls it, or what it is if it is no tensor
  mlir::Type elementType; // for computation; null: not supported
  mlir::IntegerType held; // see Imported
  /// Nullopt if the file does not even give the rank.
  std::optional<std::vector<DeclaredDim>> dims;
};

/// An argument of @forward that is neither a parameter nor state.
struct Input {
  std::string name;
  mlir::RankedTensorType type;
  mlir::IntegerType held; // see Imported
  bool hasOpenBatch;      // the file leaves dim 0 open
};

/// Returns the inputs in the order of the file, without those whose values are
/// known (ImportOptions::known). Emits an error at `location` if a size is
/// missing, or if the user's options contradict the file. `others` are dims
/// that no input has but that `--dim` may give.
mlir::FailureOr<std::vector<Input>> specialiseInputs(
    mlir::Location location, llvm::ArrayRef<DeclaredInput> declared,
    const ImportOptions &options, const std::set<std::string> &others = {});

} // namespace polyrank::frontends
