// The rank dialect: what one device runs, on local tensors.

#pragma once

#include "dialects/graph/Tensor.h"
#include "dialects/sharding/Layout.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "runtime/plan/Collectives.h"

#include "dialects/rank/RankEnums.h.inc"

#include "dialects/rank/RankDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/rank/RankAttrs.h.inc"

#include "dialects/rank/CollectiveInterface.h.inc"

#define GET_OP_CLASSES
#include "dialects/rank/RankOps.h.inc"

namespace polyrank::rank {

/// Argument and result attribute of a function in local shapes: the global
/// type, layout included (TypeAttr).
inline constexpr llvm::StringLiteral globalAttrName = "rank.global";
/// Argument attribute (BufferAttr) and op attribute (array of BufferAttr, one
/// per result) where buffers are assigned.
inline constexpr llvm::StringLiteral bufferAttrName = "rank.buffer";
inline constexpr llvm::StringLiteral buffersAttrName = "rank.buffers";
/// Of a product: the buffer that its library call computes in.
inline constexpr llvm::StringLiteral scratchAttrName = "rank.scratch";
/// Of a loop over microbatches: the buffers of the arguments of its regions.
inline constexpr llvm::StringLiteral firstBuffersAttrName =
                                         "rank.first_buffers",
                                     restBuffersAttrName = "rank.rest_buffers";
/// Function attribute: sizes in bytes of the `shared` and `private` regions, of
/// what is `persistent` in them, and the `lower_bound` of their sum.
inline constexpr llvm::StringLiteral arenaAttrName = "rank.arena";

/// Whether a slice's result lies where it is in the operand: no command.
bool isInPlace(SliceOp op, BufferAttr operand, BufferAttr result);

/// Makes `shape` one of `groupSize` blocks of its dim `dim`, or emits an error
/// where they are not equal.
mlir::LogicalResult takeBlock(mlir::Operation *op,
                              llvm::SmallVectorImpl<int64_t> &shape,
                              int64_t dim, int64_t groupSize);

/// Size in bytes of a dense row-major tensor of this type; booleans take a byte.
int64_t getByteSize(mlir::Type type);
int64_t getElementByteSize(mlir::Type elementType);

} // namespace polyrank::rank
