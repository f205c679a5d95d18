// Programs of which one runs at a time.

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

/// Runs programs that wait for each other. Each has a thread, and one of them
/// the turn, so what happens does not depend on how fast they are: who is next
/// is the next one that can go on or, with a seed, any of them.
class Turns {
public:
  Turns(size_t count, std::optional<uint64_t> seed);

  /// Calls `body` for each program until all have ended, or one has failed.
  /// Where all that are left wait, an error says for what each does.
  mlir::LogicalResult
  run(llvm::function_ref<mlir::LogicalResult(size_t program)> body);

  /// Of the program whose turn it is: returns when `isThere` says so; others go
  /// on meanwhile. `what` is for the error where it never does: what the
  /// program does at `op`. Fails, without an error, where all must end.
  mlir::LogicalResult await(size_t program, mlir::Operation *op,
                            llvm::StringRef what,
                            llvm::function_ref<bool()> isThere);
  /// With a seed: others may go on now.
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
