// Compiles LLVM IR to an object file for one CPU.

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
  /// The features beyond x86-64 that its code uses, by LLVM's names: those of
  /// the psABI's levels. Other features of the CPU (bdver4's four-operand fma)
  /// are not used, so that these decide where the code runs.
  std::vector<std::string> features;

  /// Returns the machine that `#cpu.target` names. Fails if LLVM does not know
  /// the CPU or it lacks AVX2 and FMA.
  static Result<Machine> find(const std::string &name);

  /// Optimises the module and returns the object file. `assembly`, if not
  /// null, gets the text.
  mlir::FailureOr<std::string> compile(llvm::Module &module,
                                       std::string *assembly) const;

private:
  /// The psABI level that contains all features.
  llvm::StringRef getLevel() const;
  std::unique_ptr<llvm::TargetMachine> createTargetMachine() const;
};

} // namespace polyrank::cpu
