// Checks the properties that hold for every program, from the model to the
// programs of its ranks.

#pragma once

#include <functional>
#include <optional>

#include "compiler/lowering/AttentionKind.h"
#include "test/random/Coverage.h"
#include "test/random/Layouts.h"
#include "test/random/Mutations.h"
#include "test/random/Program.h"

namespace polyrank::test {

/// Returns the `ahead` with which form-segments cuts microbatches.
int64_t drawAhead(uint64_t seed);
/// Returns how form-attention computes the attentions of a program: by calls or
/// by parts.
lowering::AttentionKind drawAttention(uint64_t seed);

/// What went wrong, and the module with which the failing part began.
struct Failure {
  /// `plan-reshards distributed`: the pass, and the check after it.
  std::string stage, message;
  /// The part to restart from (see `Checker`).
  int start = 0;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Runs the passes of the compiler on a module. After each pass the module is
/// evaluated and compared with the result before: as a whole, on devices as
/// soon as it has layouts, as ranks once it is local. There are three parts:
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

  /// Checks all parts for the program of this seed.
  std::optional<Failure> runProgram(mlir::MLIRContext &context);
  /// Checks from one part on.
  std::optional<Failure> run(mlir::ModuleOp module, Start start);

  /// Called with the module at the start of each part. The check ends there if
  /// it returns false.
  std::function<bool(mlir::ModuleOp, int start)> onPart;
  /// Only draws layouts and counts their coverage, without evaluation.
  bool onlyDraws = false;
  /// The target is GPUs. They have no call of attention, so it is always
  /// computed in parts; and arenas are not evaluated, each of which has a
  /// workspace of 32 MiB for products.
  bool isForGpus = false;
  /// Counts the contents of partitioned modules, if set.
  Coverage *coverage = nullptr;
  /// Called with each module with assigned buffers, its partitioned one, and
  /// how it was built. Returns what is wrong with it ("" if nothing).
  std::function<std::string(mlir::ModuleOp lowered, mlir::ModuleOp partitioned,
                            const Program *program)>
      onLowered;
  /// Counts of mutations of the starts and waits of collectives, if `onLowered`
  /// is set.
  MutationCounts queueMutations;
  /// The options of the last shard-updates, as text.
  std::string updateOptions;

private:
  bool runModel(mlir::ModuleOp module);
  bool runConstraints(mlir::ModuleOp module);
  bool runLayouts(mlir::ModuleOp module);
  bool runPass(mlir::ModuleOp module, llvm::StringRef name,
               std::unique_ptr<mlir::Pass> pass, bool onFunctions = false);
  /// Evaluates @step (or @forward) and compares with `reference`.
  enum Mode { Global, Distributed, Ranks, Arena };
  /// Random choices of the evaluation are drawn from `draw`, or else from
  /// `seed`.
  bool compare(mlir::ModuleOp module, Mode mode,
               std::optional<uint64_t> draw = std::nullopt);
  /// Compares the results of the ranks with those of the whole program, both
  /// rounded as the types say. Only programs with narrow floats are evaluated.
  bool compareRounded(mlir::ModuleOp whole, mlir::ModuleOp lowered);
  bool checkQueues(mlir::ModuleOp module);
  bool checkShuffled(mlir::ModuleOp constrained, mlir::ModuleOp propagated);
  bool fail(const llvm::Twine &message);

  uint64_t seed;
  std::string stage, diagnostics;
  llvm::SmallVector<graph::Tensor> reference;
  double tolerance = 0;
  /// How `compare` evaluates; the distributed evaluation is exact.
  graph::Rounding rounding = graph::Rounding::Exact;
  std::optional<Failure> failure;
  const Program *current = nullptr;
};

/// The seed and the stage in progress, for the message of a crash.
extern std::string atWork;

} // namespace polyrank::test
