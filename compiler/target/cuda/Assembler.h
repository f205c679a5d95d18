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

/// What an assembler makes of a text.
struct Assembled {
  std::string cubin;
  std::string report; // parseReports reads it
};

class Assembler {
public:
  /// Finds `ptxas`: at `path` if that is not empty, else in PATH, in
  /// $CUDA_HOME/bin and in /usr/local/cuda/bin. Fails if there is none at
  /// `path`; nullopt if there is none anywhere.
  static Result<std::optional<Assembler>> find(const std::string &path);

  /// Assembles PTX in a process of its own. Several threads may call it. Fails
  /// with the assembler's own words, or with the reason why there are none.
  Result<Assembled> assemble(llvm::StringRef architecture,
                             llvm::StringRef ptx) const;

  /// What the program says of its version; empty if it says nothing.
  std::string getVersion() const;

  const std::string &getPath() const { return path; }

private:
  explicit Assembler(std::string path) : path(std::move(path)) {}

  std::string path;
};

/// The line of the PTX that the first error of a failure names; 0 if none.
int64_t lineOfFailure(llvm::StringRef failure);

} // namespace polyrank::cuda
