// Runs several programs, one at a time.

#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "mlir/IR/Operation.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace polyrank::evaluate {

/// Runs programs that wait for each other. Each has a thread, and only the
/// program whose turn it is runs, so the outcome does not depend on the speed
/// of the threads. The turn passes to the next program that can continue or,
/// with a seed, to a random one of these.
class Interleaving {
public:
  Interleaving(size_t count, std::optional<uint64_t> seed);

  /// Calls `body` for each program, until all have ended or one has failed. If
  /// all remaining programs wait, emits an error that says for what each waits.
  mlir::LogicalResult
  run(llvm::function_ref<mlir::LogicalResult(size_t program)> body);

  /// Called by the program whose turn it is: returns once `isThere` is true;
  /// other programs run meanwhile. `what` describes, for a deadlock's error,
  /// what the program does at `op`. Fails without an error if all programs must
  /// end.
  mlir::LogicalResult await(size_t program, mlir::Operation *op,
                            llvm::StringRef what,
                            llvm::function_ref<bool()> isThere);
  /// With a seed: sometimes passes the turn to another program.
  mlir::LogicalResult pause(size_t program);

private:
  struct Waiting {
    mlir::Operation *op;
    std::string what;
    llvm::function_ref<bool()> isThere;
  };
  using Lock = std::unique_lock<std::mutex>;

  void passOn();
  mlir::LogicalResult waitForTurn(Lock &lock, size_t program);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Waiting>> waiting;
  std::vector<bool> hasEnded;
  size_t turn = 0;
  bool isOver = false, isStuck = false;
  std::optional<std::mt19937_64> random;
};

} // namespace polyrank::evaluate
