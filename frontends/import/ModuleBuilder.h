// The module that an import gives: parameters, and the function @forward.

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
  /// That of the argument.
  mlir::Type computed;
  /// Empty where the file has none, or stores the elements one by one.
  FileSpan span;
  /// The elements that lie in no span, else null.
  mlir::ElementsAttr value;
  bool trainable = true;
  bool transposed = false; // a matrix: the file holds its transpose
  /// Complex numbers in the model: the last dim of `stored` is their real and
  /// imaginary part, which the model's own shape does not have.
  bool complex = false;

  /// Shape and number of elements as the model has them.
  llvm::ArrayRef<int64_t> getModelShape() const {
    return stored.getShape().drop_back(complex);
  }
  int64_t getModelElements() const {
    return stored.getNumElements() / (complex ? 2 : 1);
  }
};

/// Use: `createFunction`, then ops through `emit`, then `finish`.
class ModuleBuilder {
public:
  /// `path` is the model's file; `foldingBudget`: see ImportOptions.
  ModuleBuilder(mlir::MLIRContext &context, llvm::StringRef path,
                int64_t foldingBudget);

  mlir::Location getLocation() const { return fileLocation; }
  Emitter &getEmitter() { return emit; }

  /// One argument for each parameter and then for each input. A remark says
  /// which floats are computed in another type than they are stored in.
  void createFunction(llvm::ArrayRef<ParameterSpec> parameters,
                      llvm::ArrayRef<Input> inputs);
  mlir::Value getParameter(size_t i) {
    return function.getBody().getArgument(i);
  }
  mlir::Value getInput(size_t i) {
    return function.getBody().getArgument(numParameters + i);
  }

  /// Returns the outputs, by name, and what replaces parameters (Emitter's
  /// updates); says which values inputs may have (its index ranges); erases ops
  /// that nothing uses, and verifies. Null, with a diagnostic, where that
  /// fails.
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
  /// Seed, step and microbatch, where the model has randomness.
  std::array<mlir::Value, 3> randomness;
  Emitter emit;
};

} // namespace polyrank::frontends
