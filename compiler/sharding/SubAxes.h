// Completes a side table once all nodes and constraints have been read.

#pragma once

#include "compiler/sharding/SideTable.h"

namespace polyrank::sharding {

/// Gives constraints their levels, cuts the mesh axes that they name into
/// sub-axes, orders the sub-axes, and hashes the nodes. Called after everything
/// has been read. Emits an error at `where` if there are too many levels, or if
/// cuts of one axis do not divide each other.
mlir::LogicalResult completeTable(SideTable &table, mlir::Operation *where);

} // namespace polyrank::sharding
