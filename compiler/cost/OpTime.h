// The time of an op of the dialects `graph` and `sharding` on one device, by
// its local shapes: for decisions that are made before there are commands.

#pragma once

#include "compiler/cost/Machine.h"

namespace polyrank::cost {

/// True if the op takes no time: it computes nothing, or is computed together
/// with its readers.
bool isFree(mlir::Operation *op);

/// Picoseconds of one execution of the op on one device.
///
/// A `graph` op takes the larger of its FLOPs and the bytes of its local
/// operands and results, each at the rate of the machine
/// (Machine::getCommandTime). The axes that split
/// an operand or a result divide its FLOPs; of a table only the rows that are
/// looked up are read. A movement takes what its
/// collective takes over the links of `model`. The types may have no layouts;
/// `model` may be null if no op is a movement.
double getOpTime(mlir::Operation *op, const Machine &machine,
                 const CostModel *model = nullptr);

} // namespace polyrank::cost
