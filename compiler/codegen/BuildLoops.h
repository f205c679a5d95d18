// Lowers graph ops on local tensors to one set of loops over their elements.

#pragma once

#include <string>

#include "dialects/graph/Graph.h"
#include "dialects/kernel/Kernel.h"

namespace polyrank::codegen {

using kernel::Affine;
using kernel::Variable;
using kernel::VariableSplit;

/// The body of a kernel or of a group of ops that may become one: `results` as
/// functions of `arguments`.
struct Body {
  llvm::ArrayRef<mlir::Value> arguments, results;
};

/// Returns true if the target has code for an op of `arith` or `math` on its
/// types.
using HasCode = llvm::function_ref<bool(mlir::Operation *)>;

/// Builds one set of loops that computes the body, at the builder's insertion
/// point, from scalar ops that the target has code for. A builder without an
/// insertion point makes loops in no block, which the caller owns. If one set
/// of loops cannot compute the body it fails, and `reason` says why, for error
/// messages. Composites must have been decomposed.
mlir::FailureOr<kernel::LoopsOp> buildLoops(mlir::OpBuilder &builder,
                                            mlir::Location location, Body body,
                                            HasCode hasCode,
                                            std::string &reason);

} // namespace polyrank::codegen
