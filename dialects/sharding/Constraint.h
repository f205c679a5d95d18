// Attributes of the sharding dialect on arguments, ops and modules: what the
// user asks of layouts, and what passes note about them.
//
//   sharding.constraint  of an argument or op: the layout that it shall have
//   sharding.mesh        on the module: the mesh that the strategy chose
//   sharding.constraint  on an argument or op: the layout that it must have
//   sharding.composite   on an op that will be decomposed: what splits it; on
//                        the reshards around it: a mark
//   sharding.objective   on a function: the cost of its layouts

#pragma once

#include "dialects/sharding/Layout.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace polyrank::sharding {

/// Null if the module has none.
MeshAttr getMesh(mlir::ModuleOp module);
void setMesh(mlir::ModuleOp module, MeshAttr mesh);

/// Null if there is none; setting null removes it.
/// @{
ConstraintAttr getConstraint(mlir::FunctionOpInterface function,
                             unsigned argument);
void setConstraint(mlir::FunctionOpInterface function, unsigned argument,
                   ConstraintAttr constraint);
ConstraintAttr getConstraint(mlir::Operation *op);
void setConstraint(mlir::Operation *op, ConstraintAttr constraint);
/// @}

/// Marks a composite that decompose-composites must decompose, for the given
/// reason, or a reshard to or from such a composite.
/// @{
void markComposite(mlir::Operation *op, llvm::StringRef reason = {});
bool isMarkedComposite(mlir::Operation *op);
llvm::StringRef getCompositeReason(mlir::Operation *op);
/// @}

/// The objective that propagation wrote; null before that.
ObjectiveAttr getObjective(mlir::Operation *function);
void setObjective(mlir::Operation *function, ObjectiveAttr objective);

} // namespace polyrank::sharding
