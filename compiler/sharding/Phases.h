// What of a step is forward, and what is backward.

#pragma once

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::sharding {

/// Of the ops that a step has when this is made. The backward begins at
/// `graph.seed`; what depends on one is a cotangent, the update included.
class Phases {
public:
  explicit Phases(mlir::func::FuncOp step);

  bool isCotangent(mlir::Value value) const {
    return cotangents.contains(value);
  }
  /// Whether the op reads a cotangent.
  bool readsCotangent(mlir::Operation *op) const;
  /// Whether it reads one, and is not behind `graph.gradient` yet.
  bool isDerivative(mlir::Operation *op) const;
  /// Whether it reads one, or computes for what does alone.
  bool isBackward(mlir::Operation *op);
  /// What `op`, of the backward, can wait for: the cotangent that it reads, or
  /// else the last one in front of it. Null where there is none.
  mlir::Value findToken(mlir::Operation *op) const;

private:
  void findCotangents(mlir::Block &block);

  llvm::DenseSet<mlir::Value> cotangents;
  /// Those behind `graph.gradient`.
  llvm::DenseSet<mlir::Value> updates;
  llvm::DenseMap<mlir::Operation *, bool> backward;
};

} // namespace polyrank::sharding
