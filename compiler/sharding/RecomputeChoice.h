// What the backward computes again, instead of what the forward keeps for it.

#pragma once

#include <string>

#include "dialects/graph/Phase.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace polyrank::sharding {

/// Which ops may be computed again.
struct RecomputePolicy {
  enum Kind { None, Full, Selective, Modules };
  Kind kind = None;
  /// Globs over modules.
  llvm::SmallVector<std::string> patterns;
  /// Whether what communicates may be.
  bool withCollectives = false;

  /// `none`, `full`, `selective` or PATTERN[,PATTERN]. Emits an error for what
  /// is no pattern.
  static mlir::FailureOr<RecomputePolicy>
  parse(llvm::StringRef text, bool withCollectives,
        llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
};

/// The choice for the ops of one block of a step.
///
/// The forward is cut into segments: the instances of a repeated block
/// (`transformer.h.3`), the modules that patterns name, or, in a chain without
/// blocks, about the square root of as many as there are values to keep (Chen
/// et al., Training Deep Nets with Sublinear Memory Cost, 2016). What leaves a
/// segment is kept. `selective` has no segments: an op may be computed again
/// where that takes few FLOPs for each byte of its result.
///
/// Of all ways to keep enough for the backward, the one that keeps the fewest
/// bytes is a minimum cut between what must be kept and what the backward
/// reads; of several the one that computes least again.
class RecomputeChoice {
public:
  RecomputeChoice(mlir::Block &block, const graph::Phases &phases,
                  const RecomputePolicy &policy);

  /// Whether the backward shall compute the value again.
  bool isComputedAgain(mlir::Value value) const {
    return again.contains(value);
  }
  /// Bytes on one device: of the values of the forward that the backward reads,
  /// and of those that are kept, from which it can compute them.
  int64_t getBytesBefore() const { return before; }
  int64_t getBytesAfter() const { return after; }
  /// Which patterns name some module.
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
  /// The segment of each op that may be computed again.
  llvm::DenseMap<mlir::Operation *, std::string> segments;
  llvm::SmallVector<mlir::Value> needed;
  llvm::DenseSet<mlir::Value> again;
  llvm::DenseSet<size_t> matched;
  int64_t before = 0, after = 0;
};

} // namespace polyrank::sharding
