// What holds of every program, from the model to the programs of its ranks.

#pragma once

#include "test/random/Mutations.h"
#include <functional>
#include <optional>

#include "test/random/Coverage.h"
#include "test/random/Layouts.h"
#include "test/random/Program.h"

namespace polyrank::test {

/// With which `ahead` form-segments cuts microbatches.
int64_t drawAhead(uint64_t seed);

/// What went wrong, and the module that the failing part of the way began with.
struct Failure {
  /// `plan-reshards distributed`: the pass, and what was asked then.
  std::string stage, message;
  /// Where the way can be taken up again (see `Checker`).
  int start = 0;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Takes a module through the passes of the compiler. After each pass it is
/// evaluated and compared with what came before: whole, with real devices as
/// soon as it has layouts, as ranks when it is local. The way has three parts:
///
///   Model       @forward, through raise-composites, unflatten,
///               find-logical-parameters
///   Constraints @step with constraints: propagation, decomposition; the same
///               layouts whatever the order of ops
///   Layouts     @step with layouts and reshards: plan-reshards to check-ranks
class Checker {
public:
  enum Start { Model, Constraints, Layouts };

  Checker(uint64_t seed) : seed(seed) {}

  /// The whole way of the program of this seed.
  std::optional<Failure> runProgram(mlir::MLIRContext &context);
  /// From one part on.
  std::optional<Failure> run(mlir::ModuleOp module, Start start);

  /// Is shown the module at the start of each part; the way ends there where
  /// it says false.
  std::function<bool(mlir::ModuleOp, int start)> onPart;
  /// Draws layouts and counts what they cover, and evaluates nothing.
  bool onlyDraws = false;
  /// Counts what partitioned modules have, if set.
  Coverage *coverage = nullptr;
  /// Is shown each module with its buffers assigned, its partitioned one, and
  /// how it was built, and says what is wrong with it ("" nothing).
  std::function<std::string(mlir::ModuleOp lowered, mlir::ModuleOp partitioned,
                            const Program *program)>
      onLowered;
  /// Of the starts and waits of collectives, where `onLowered` is set.
  MutationCounts queueMutations;

private:
  bool runModel(mlir::ModuleOp module);
  bool runConstraints(mlir::ModuleOp module);
  bool runLayouts(mlir::ModuleOp module);
  bool runPass(mlir::ModuleOp module, llvm::StringRef name,
               std::unique_ptr<mlir::Pass> pass, bool onFunctions = false);
  /// Evaluates @step (or @forward) and compares with `reference`.
  enum Mode { Global, Distributed, Ranks, Arena };
  /// What is random in the evaluation is drawn from `draw`, or else from
  /// `seed`.
  bool compare(mlir::ModuleOp module, Mode mode,
               std::optional<uint64_t> draw = std::nullopt);
  bool checkQueues(mlir::ModuleOp module);
  bool checkShuffled(mlir::ModuleOp constrained, mlir::ModuleOp propagated);
  bool fail(const llvm::Twine &message);

  uint64_t seed;
  std::string stage, diagnostics;
  llvm::SmallVector<graph::Tensor> reference;
  double tolerance = 0;
  std::optional<Failure> failure;
  const Program *current = nullptr;
};

/// Where a crash says it is: the seed and stage at work.
extern std::string atWork;

} // namespace polyrank::test
