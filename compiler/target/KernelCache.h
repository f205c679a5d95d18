// Compiled kernels that a folder keeps, for plans that have them again.

#pragma once

#include <atomic>
#include <string>

#include "mlir/Support/LogicalResult.h"
#include "support/Result.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace polyrank::target {

/// A folder with one file for each kernel, named by a digest of all that its
/// machine code depends on: the program that compiles (the build ids of the
/// executable and of its libraries), and the texts that the target gives.
///
/// Files get their names when they are complete, so that several compilers can
/// use a folder at once. What has not been used for a week is removed, and so
/// is what has been unused for longest while all is larger than `mostBytes`.
class KernelCache {
public:
  static constexpr uint64_t mostBytes = uint64_t(1) << 30;

  /// Uses the folder, which is made if it is not there. Fails, naming it, if it
  /// cannot be written to, or if others than this user can: its files are code
  /// that a plan will run.
  static Result<KernelCache> open(const std::string &folder);
  KernelCache(KernelCache &&other) noexcept;

  /// Returns the code that the folder keeps for these texts, or else what
  /// `compile` returns, which the folder keeps from now on. Several threads may
  /// call it. What does not work about the folder (a damaged file, a full disk)
  /// is said to `warn`, and the kernel is compiled.
  mlir::FailureOr<std::string>
  get(llvm::ArrayRef<llvm::StringRef> texts,
      llvm::function_ref<mlir::FailureOr<std::string>()> compile,
      llvm::function_ref<void(const std::string &)> warn);

  /// Removes what the folder is to keep no longer. It looks at most every 20
  /// minutes, whichever process asks.
  void prune() const;

  /// How many kernels came from the folder, and how many were compiled.
  int64_t numFound() const { return found; }
  int64_t numCompiled() const { return compiled; }

private:
  KernelCache(std::string folder, std::string compiler)
      : folder(std::move(folder)), compiler(std::move(compiler)) {}
  std::string pathOf(llvm::ArrayRef<llvm::StringRef> texts) const;

  std::string folder;
  std::string compiler; // the build ids
  std::atomic<int64_t> found = 0, compiled = 0;
};

} // namespace polyrank::target
