// LLVM IR to an object file for one CPU.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mlir/Support/LogicalResult.h"
#include "support/Result.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Target/TargetMachine.h"

namespace llvm {
class Module;
} // namespace llvm

namespace polyrank::cpu {

/// A CPU to compile for.
struct Machine {
  std::string cpu;
  /// The features that code for it uses beyond x86-64, by LLVM's names: those
  /// of the psABI's levels. What else the CPU has (bdver4's four-operand fma)
  /// is left alone, so that these decide where the code runs.
  std::vector<std::string> features;

  /// By what `#rank.cpu` says. Fails where LLVM does not know the CPU or it
  /// lacks AVX2 and FMA.
  static Result<Machine> find(const std::string &name);

  /// Optimises the module and returns the object file. `assembly`, if not
  /// null, gets the text.
  mlir::FailureOr<std::string> compile(llvm::Module &module,
                                       std::string *assembly) const;

private:
  /// The psABI's level that holds all features.
  llvm::StringRef getLevel() const;
  std::unique_ptr<llvm::TargetMachine> createTargetMachine() const;
};

} // namespace polyrank::cpu
