// Chooses what the backward recomputes instead of reading what the forward
// kept.

#pragma once

#include <string>

#include "dialects/graph/Phase.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace polyrank::sharding {

/// The ops that may be recomputed.
struct RecomputePolicy {
  enum Kind { None, Full, Selective, Modules };
  Kind kind = None;
  /// Globs over modules.
  llvm::SmallVector<std::string> patterns;
  /// True if communication may be repeated too.
  bool withCollectives = false;

  /// Parses `none`, `full`, `selective` or PATTERN[,PATTERN]. Emits an error
  /// for an invalid pattern.
  static mlir::FailureOr<RecomputePolicy>
  parse(llvm::StringRef text, bool withCollectives,
        llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
};

/// The choice for the ops of one block of a step.
///
/// The forward is cut into segments: the instances of a repeated block
/// (`transformer.h.3`), the modules that patterns name, or, in a chain without
/// blocks, about as many segments as the square root of the number of values to
/// keep (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016).
/// Values that leave a segment are kept. `selective` has no segments: an op may
/// be recomputed if that takes few FLOPs per byte of its result.
///
/// Of all choices of kept values that suffice for the backward, the one with
/// the fewest bytes is a minimum cut between what must be kept and what the
/// backward reads; of several, the one that recomputes least is chosen.
class RecomputeChoice {
public:
  RecomputeChoice(mlir::Block &block, const graph::Phases &phases,
                  const RecomputePolicy &policy);

  /// Returns true if the backward shall recompute the value.
  bool isComputedAgain(mlir::Value value) const {
    return again.contains(value);
  }
  /// Bytes on one device. Before: of the forward's values that the backward
  /// reads. After: of the values that are kept instead, from which it can
  /// compute them.
  int64_t getBytesBefore() const { return before; }
  int64_t getBytesAfter() const { return after; }
  /// The numbers of the patterns that name some module.
  const llvm::DenseSet<size_t> &getMatched() const { return matched; }

private:
  bool isForward(mlir::Value value) const;
  void findForward(mlir::Block &block);
  void findSegments(const RecomputePolicy &policy);
  void findBlocks();
  void findRoots();
  void cut();

  const graph::Phases &phases;
  llvm::SmallVector<mlir::Operation *> forward;
  /// The segment of each op that may be recomputed.
  llvm::DenseMap<mlir::Operation *, std::string> segments;
  llvm::SmallVector<mlir::Value> needed;
  llvm::DenseSet<mlir::Value> again;
  llvm::DenseSet<size_t> matched;
  int64_t before = 0, after = 0;
};

} // namespace polyrank::sharding
