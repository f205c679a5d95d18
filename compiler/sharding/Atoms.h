// What follows from the nodes and constraints of a side table as a whole.

#pragma once

#include "compiler/sharding/SideTable.h"

namespace polyrank::sharding {

/// Gives constraints their levels, cuts the mesh axes that they name into
/// atoms, orders these, and hashes the nodes, once all have been read. Emits an
/// error at `where` where there are too many levels, or where cuts of one axis
/// do not divide each other.
mlir::LogicalResult completeTable(SideTable &table, mlir::Operation *where);

} // namespace polyrank::sharding
