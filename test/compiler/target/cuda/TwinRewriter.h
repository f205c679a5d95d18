// Turns the code of a GPU's kernels into that of their twins.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "llvm/ADT/StringMap.h"

namespace llvm {
class Module;
} // namespace llvm

namespace polyrank::twin {

/// What a rewritten module needs, and has.
struct TwinCode {
  /// Symbols that are not in it, with their addresses.
  std::vector<std::pair<std::string, void *>> symbols;
  /// The kernels, and how many parameters they have. Kernel k is run by
  /// function twin.run.k, which takes where the values of the parameters are.
  llvm::StringMap<size_t> kernels;
};

/// The text of a GPU's module, for one address space and no machine.
std::string printWithoutSpaces(const llvm::Module &module);

/// Puts a call before each access of memory that other threads see, and calls
/// of the twin in the place of NVVM's intrinsics. Returns what cannot be
/// rewritten; empty if nothing.
std::string rewriteModule(llvm::Module &module, TwinCode &code);

} // namespace polyrank::twin
