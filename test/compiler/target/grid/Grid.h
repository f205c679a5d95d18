// The grid dialect: a second target, for tests.

#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"

#include "test/compiler/target/grid/GridDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "test/compiler/target/grid/GridAttrs.h.inc"

namespace polyrank::grid {

/// Makes `#grid.target` a target in every context with these dialects, and the
/// one of modules that name none.
void registerTarget(mlir::DialectRegistry &registry);

} // namespace polyrank::grid
