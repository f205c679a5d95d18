// The inputs that the user of a program gives.

#pragma once

#include <string>
#include <vector>

#include "frontends/aten/ElementTypes.h"
#include "frontends/exported_program/Program.h"
#include "frontends/import/Inputs.h"

namespace polyrank::frontends::exported_program {

struct UserInput {
  std::string name;      // in the graph
  bool isTensor = false; // else a number, text or None fixed in the nodes
  ElementType type = ElementType::F32;
  DeclaredInput declared;
};

/// The inputs in the order of the graph. An open size is named by its symbol;
/// an expression of symbols has a size if `--dim` gives all of them.
std::vector<UserInput> findInputs(mlir::MLIRContext *context,
                                  const Program &program,
                                  const ImportOptions &options);

/// Fails, at `location`, if sizes contradict the program (the same symbol in
/// two inputs, or an expression of it), or if `--dim` gives a symbol a value
/// that the model does not allow. Fills `symbols`.
mlir::LogicalResult checkInputs(mlir::Location location, const Program &program,
                                llvm::ArrayRef<Input> inputs,
                                const ImportOptions &options,
                                llvm::StringMap<int64_t> &symbols);

} // namespace polyrank::frontends::exported_program
