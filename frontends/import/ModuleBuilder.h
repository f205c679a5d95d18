// Builds the module that an import results in: parameters and the function
// @forward.

#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "frontends/emit/Emitter.h"
#include "frontends/import/FileSpan.h"
#include "frontends/import/Inputs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace polyrank::frontends {

/// A tensor of the model's state: a `graph.parameter`, and an argument of
/// @forward.
struct ParameterSpec {
  std::string name;
  std::vector<std::string> aliases;
  /// The model's dims, and the element type that the file stores.
  mlir::RankedTensorType stored;
  /// The element type of the argument.
  mlir::Type computed;
  /// Empty if the file lacks the elements or does not store them contiguously.
  FileSpan span;
  /// The elements if they are in no span, else null.
  mlir::ElementsAttr value;
  bool trainable = true;
  bool transposed = false; // for a matrix: the file holds its transpose
  /// True if the model has complex numbers here: the last dim of `stored` then
  /// holds their real and imaginary parts and is not part of the model's shape.
  bool complex = false;

  /// The shape and number of elements in the model.
  llvm::ArrayRef<int64_t> getModelShape() const {
    return stored.getShape().drop_back(complex);
  }
  int64_t getModelElements() const {
    return stored.getNumElements() / (complex ? 2 : 1);
  }
};

/// Call `createFunction`, then create ops through `getEmitter`, then call
/// `finish`.
class ModuleBuilder {
public:
  /// `path` is the model's file; `foldingBudget`: see ImportOptions.
  ModuleBuilder(mlir::MLIRContext &context, llvm::StringRef path,
                int64_t foldingBudget);

  mlir::Location getLocation() const { return fileLocation; }
  Emitter &getEmitter() { return emit; }

  /// Creates the function, with one argument for each parameter and then for
  /// each input. Remarks list the floats that are computed in another type
  /// than they are stored in.
  void createFunction(llvm::ArrayRef<ParameterSpec> parameters,
                      llvm::ArrayRef<Input> inputs);
  mlir::Value getParameter(size_t i) {
    return function.getBody().getArgument(i);
  }
  mlir::Value getInput(size_t i) {
    return function.getBody().getArgument(numParameters + i);
  }

  /// Makes the function return the named outputs and the new values of updated
  /// parameters (Emitter::update), records the index ranges of the inputs,
  /// erases unused ops and verifies the module. Returns null, with a
  /// diagnostic, on failure.
  mlir::OwningOpRef<mlir::ModuleOp>
  finish(llvm::ArrayRef<std::pair<std::string, Imported>> outputs);

private:
  std::array<mlir::Value, 3> getRandomness();
  void eraseUnused();

  mlir::MLIRContext &context;
  mlir::Location fileLocation;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  size_t numParameters = 0;
  /// Seed, step and microbatch, if the model draws random numbers.
  std::array<mlir::Value, 3> randomness;
  Emitter emit;
};

} // namespace polyrank::frontends
