// What the user asks of layouts, and what passes note about them: attributes of
// the sharding dialect on arguments, ops and modules.
//
//   sharding.mesh        of the module: the mesh that the strategy chose
//   sharding.constraint  of an argument or op: the layout that it shall have
//   sharding.composite   of an op that is to be decomposed: what splits it; of
//                        the reshards around it: a mark
//   sharding.objective   of a function: what its layouts cost

#pragma once

#include "dialects/sharding/Layout.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace polyrank::sharding {

/// Null where the module has none.
MeshAttr getMesh(mlir::ModuleOp module);
void setMesh(mlir::ModuleOp module, MeshAttr mesh);

/// Null where there is none; setting null removes it.
/// @{
ConstraintAttr getConstraint(mlir::FunctionOpInterface function,
                             unsigned argument);
void setConstraint(mlir::FunctionOpInterface function, unsigned argument,
                   ConstraintAttr constraint);
ConstraintAttr getConstraint(mlir::Operation *op);
void setConstraint(mlir::Operation *op, ConstraintAttr constraint);
/// @}

/// Marks a composite that decompose-composites shall take apart, for the reason
/// given, or a reshard to or from it.
/// @{
void markComposite(mlir::Operation *op, llvm::StringRef reason = {});
bool isMarkedComposite(mlir::Operation *op);
llvm::StringRef getCompositeReason(mlir::Operation *op);
/// @}

/// As propagation wrote it; null before.
ObjectiveAttr getObjective(mlir::Operation *function);
void setObjective(mlir::Operation *function, ObjectiveAttr objective);

} // namespace polyrank::sharding
