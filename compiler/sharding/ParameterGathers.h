// ZeRO stage 3: gathers parameters, of which each device stores a part, where
// they are used.

#pragma once

#include "compiler/sharding/TensorParts.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Phase.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::sharding {

/// Selects the parameters that are gathered once and kept. All others are
/// gathered twice per microbatch, by the forward and by the backward.
struct GatherPolicy {
  /// All parameters are gathered once per step.
  bool oncePerStep = false;
  /// Patterns of parameters that are gathered once per microbatch.
  llvm::SmallVector<std::string> kept;

  /// Parses `use`, `step`, or `keep=PATTERN[,PATTERN]`. Emits an error for
  /// other texts.
  static mlir::FailureOr<GatherPolicy>
  parse(llvm::StringRef text,
        llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
};

class ParameterGathers {
public:
  ParameterGathers(mlir::func::FuncOp step, GatherPolicy policy);

  /// Replaces `uses` of `parameter`, which has the type of a part, by the
  /// gathered whole. It is gathered before the first use in the forward and
  /// again, after a `graph.after`, before the first use in the backward. Ops
  /// that only move its elements are cloned after each gather. A conversion of
  /// the parameter comes before the gather.
  void gather(mlir::BlockArgument parameter, const TensorParts &parts,
              llvm::ArrayRef<mlir::OpOperand *> uses);
  /// Emits an error if a pattern matches no parameter that was gathered.
  mlir::LogicalResult checkPatterns();

private:
  /// A use of the parameter, and the ops before it that only move elements.
  struct Use {
    mlir::OpOperand *operand;
    llvm::SmallVector<mlir::Operation *> chain;
  };
  void collect(mlir::OpOperand &use, llvm::SmallVector<mlir::Operation *> chain,
               llvm::SmallVectorImpl<Use> &leaves);
  /// `part` is the parameter, or is computed from its elements one by one.
  void gatherUses(mlir::BlockArgument parameter, mlir::Value part,
                  const TensorParts &parts,
                  llvm::ArrayRef<mlir::OpOperand *> uses);
  void gatherFor(mlir::Value part, const TensorParts &parts,
                 llvm::ArrayRef<Use> uses, mlir::Operation *first,
                 bool isBackward);

  mlir::func::FuncOp step;
  GatherPolicy policy;
  graph::Phases phases;
  llvm::DenseSet<size_t> matched;
};

} // namespace polyrank::sharding
