// The part of a training step that an op is of: forward, backward or update.
//
// The backward begins at `graph.seed`, the update at `graph.gradient`. What
// depends on one of these is behind it, and what only ops behind it read is
// computed for them: it is of their phase too. So each phase is a closed part
// of the program: none reads what a later one computes.
//
//   %t = graph.mul %y, %y           backward: only %d reads it
//   %s = graph.seed 1.0             backward
//   %d = graph.mul %s, %t           backward
//   %g = graph.gradient %d of @w    update
//   %n = graph.sub %w, %g           update
//
// `shard-updates` erases `graph.gradient`, and lowering all that is left of
// these ops. What they say is then in `graph.phase` (Phase.td), which
// `mark-phases` writes and what is built from an op takes over (Provenance.h).

#pragma once

#include "dialects/graph/Boundary.h"

namespace polyrank::graph {

/// Of the ops that a function has when this is made.
class Phases {
public:
  explicit Phases(mlir::FunctionOpInterface step);

  /// What the op is marked with, or else what follows from the ops around it.
  /// What ends a block or holds others (`graph.microbatches`) has no phase of
  /// its own, and counts as the first.
  Phase getPhase(mlir::Operation *op) const { return phases.lookup(op); }
  /// Whether the value depends on a seed; those that the update computes do.
  bool isCotangent(mlir::Value value) const {
    return cotangents.contains(value);
  }
  bool readsCotangent(mlir::Operation *op) const;
  /// Whether the op is of the backward and reads a cotangent: it cannot be
  /// computed before the backward comes to it.
  bool needsCotangent(mlir::Operation *op) const {
    return getPhase(op) == Phase::Backward && readsCotangent(op);
  }
  /// What `op`, of the backward, can wait for: the cotangent that it reads, or
  /// else the last one in front of it. Null where there is none.
  mlir::Value findToken(mlir::Operation *op) const;

private:
  void readOperands(mlir::Block &block);
  void readUsers(mlir::Block &block);
  Phase getPhaseOfUse(mlir::OpOperand &use) const;

  mlir::FunctionOpInterface step;
  llvm::DenseSet<mlir::Value> cotangents;
  /// Of values behind a seed, a gradient or a marked op.
  llvm::DenseMap<mlir::Value, Phase> reached;
  llvm::DenseMap<mlir::Operation *, Phase> phases;
};

/// Writes `graph.phase` to all ops of the backward and of the update.
void markPhases(mlir::FunctionOpInterface step);

} // namespace polyrank::graph
