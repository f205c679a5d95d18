// The phase of an op in a training step: forward, backward or update.
//
// The backward begins at `graph.seed`, the update at `graph.gradient`. An op
// that depends on a seed is in the backward, one that depends on a gradient in
// the update; an op whose result only such ops read is computed for them and is
// in their phase too. So each phase is a closed part of the program: no phase
// reads what a later one computes.
//
//   %t = graph.mul %y, %y           backward: only %d reads it
//   %s = graph.seed 1.0             backward
//   %d = graph.mul %s, %t           backward
//   %g = graph.gradient %d of @w    update
//   %n = graph.sub %w, %g           update
//
// `shard-updates` erases `graph.gradient`, and lowering erases all remaining
// ops of this kind. After that the phases are in `graph.phase` (Phase.td):
// `mark-phases` writes it, and ops that are built from an op inherit it
// (Provenance.h).

#pragma once

#include "dialects/graph/Boundary.h"

namespace polyrank::graph {

/// The phases of the ops that a function has at the time of construction.
class Phases {
public:
  explicit Phases(mlir::FunctionOpInterface step);

  /// The phase that the op is marked with, or else the one that follows from
  /// the ops around it. An op that ends a block or holds others
  /// (`graph.microbatches`) has no phase of its own, and counts as forward.
  Phase getPhase(mlir::Operation *op) const { return phases.lookup(op); }
  /// Returns true if the value depends on a seed, as the values of the update
  /// do.
  bool isCotangent(mlir::Value value) const {
    return cotangents.contains(value);
  }
  bool readsCotangent(mlir::Operation *op) const;
  /// Returns true if the op is in the backward and reads a cotangent: it cannot
  /// be computed before the backward comes to it.
  bool needsCotangent(mlir::Operation *op) const {
    return getPhase(op) == Phase::Backward && readsCotangent(op);
  }
  /// The value that `op`, of the backward, can wait for: the cotangent that it
  /// reads, or else the last cotangent before it. Null if there is none.
  mlir::Value findToken(mlir::Operation *op) const;

private:
  void readOperands(mlir::Block &block);
  void readUsers(mlir::Block &block);
  Phase getPhaseOfUse(mlir::OpOperand &use) const;

  mlir::FunctionOpInterface step;
  llvm::DenseSet<mlir::Value> cotangents;
  /// The phases of values that depend on a seed, a gradient or a marked op.
  llvm::DenseMap<mlir::Value, Phase> reached;
  llvm::DenseMap<mlir::Operation *, Phase> phases;
};

/// Writes `graph.phase` on all ops of the backward and of the update.
void markPhases(mlir::FunctionOpInterface step);

} // namespace polyrank::graph
