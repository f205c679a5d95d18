// Parameters that devices keep in parts are gathered where they are used: ZeRO
// stage 3.

#pragma once

#include "compiler/sharding/TensorParts.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Phase.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::sharding {

/// What is gathered once and kept, instead of once by the forward and once by
/// the backward of each microbatch.
struct GatherPolicy {
  /// All, once a step.
  bool oncePerStep = false;
  /// Parameters of these names: once a microbatch.
  llvm::SmallVector<std::string> kept;

  /// `use`, `step`, or `keep=PATTERN[,PATTERN]`. Emits an error for others.
  static mlir::FailureOr<GatherPolicy>
  parse(llvm::StringRef text,
        llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
};

class ParameterGathers {
public:
  ParameterGathers(mlir::func::FuncOp step, GatherPolicy policy);

  /// Gives `uses` of `parameter`, which has the type of a part, the whole: in
  /// front of the first use in the forward, and again (behind `graph.after`) of
  /// the first in the backward. What only moves its elements is repeated there.
  void gather(mlir::BlockArgument parameter, const TensorParts &parts,
              llvm::ArrayRef<mlir::OpOperand *> uses);
  /// Emits an error where a pattern is of no parameter that was gathered.
  mlir::LogicalResult checkPatterns();

private:
  /// A use of the parameter behind ops that only move its elements.
  struct Use {
    mlir::OpOperand *operand;
    llvm::SmallVector<mlir::Operation *> chain;
  };
  void collect(mlir::OpOperand &use, llvm::SmallVector<mlir::Operation *> chain,
               llvm::SmallVectorImpl<Use> &leaves);
  void gatherFor(mlir::BlockArgument parameter, const TensorParts &parts,
                 llvm::ArrayRef<Use> uses, mlir::Operation *first,
                 bool isBackward);

  mlir::func::FuncOp step;
  GatherPolicy policy;
  graph::Phases phases;
  llvm::DenseSet<size_t> matched;
};

} // namespace polyrank::sharding
