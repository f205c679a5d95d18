// CUDA's assembler, `ptxas`, which makes machine code of PTX.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/Result.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::cuda {

/// What the assembler says of a kernel's code (`ptxas -v`), for each thread.
struct CodeReport {
  int64_t registers = 0, stackBytes = 0;
  int64_t spillStores = 0, spillLoads = 0; // bytes
  int64_t sharedBytes = 0;                 // of a block
};

/// Reads what `ptxas -v` prints, by the symbols of kernels.
std::map<std::string, CodeReport> parseReports(llvm::StringRef text);

/// One text of PTX to be assembled, and what becomes of it.
struct Assembly {
  std::string architecture, ptx;
  std::string cubin;
  std::map<std::string, CodeReport> reports; // by symbol
  /// The assembler's own words if it fails; empty if it does not.
  std::string failure;
};

class Assembler {
public:
  /// Finds `ptxas`: at `path` if that is not empty, else in PATH, in
  /// $CUDA_HOME/bin and in /usr/local/cuda/bin. Fails if there is none at
  /// `path`; nullopt if there is none anywhere.
  static Result<std::optional<Assembler>> find(const std::string &path);

  /// Assembles all texts side by side, each in a process of its own. Fails if
  /// no process can be started, or files cannot be written; what the assembler
  /// itself refuses is in `failure`.
  Result<void> assemble(std::vector<Assembly> &assemblies) const;

  const std::string &getPath() const { return path; }

private:
  explicit Assembler(std::string path) : path(std::move(path)) {}

  std::string path;
};

/// The line of the PTX that the first error of a failure names; 0 if none.
int64_t lineOfFailure(llvm::StringRef failure);

} // namespace polyrank::cuda
