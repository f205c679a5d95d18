// The rank dialect: what one device runs, on local tensors.

#pragma once

#include "dialects/graph/AttentionForm.h"
#include "dialects/graph/Graph.h"
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

namespace polyrank::rank {
/// Parses a number without a type, 25.0.
mlir::FailureOr<mlir::FloatAttr> parseNumber(mlir::AsmParser &parser);
} // namespace polyrank::rank

#define GET_ATTRDEF_CLASSES
#include "dialects/rank/RankAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/rank/RankTypes.h.inc"

namespace polyrank::rank {
/// Consecutive bytes of an operand: from byte `begin` on or, with `axes`, the
/// device's block if the operand is a sequence of adjacent blocks.
struct View {
  unsigned operand = 0;
  int64_t begin = 0;
  AxesAttr axes = {};
};

/// The verifier of all commands.
mlir::LogicalResult verifyBuffers(mlir::Operation *op);

/// The defaults of `LibraryCallOp`: the bytes of all operands and results, and
/// a key of the op's name, types and attributes without buffers, scratch and
/// the target's choice.
int64_t getOperandAndResultBytes(mlir::Operation *op);
mlir::Attribute getCallKey(mlir::Operation *op);
} // namespace polyrank::rank

#include "dialects/rank/CommandInterface.h.inc"

#include "dialects/rank/LibraryCallInterface.h.inc"

#include "dialects/rank/CollectiveInterface.h.inc"

#define GET_OP_CLASSES
#include "dialects/rank/RankOps.h.inc"

namespace polyrank::rank {

/// Argument and result attribute of a function in local shapes: the global
/// type, layout included (TypeAttr).
inline constexpr llvm::StringLiteral globalAttrName = "rank.global";
/// Argument attribute (BufferAttr), present after buffers are assigned.
inline constexpr llvm::StringLiteral bufferAttrName = "rank.buffer";
/// Function attribute (ArenaAttr), present after buffers are assigned.
inline constexpr llvm::StringLiteral arenaAttrName = "rank.arena";
/// Function attribute (DictionaryAttr of axis names to I64Attr): the
/// coordinates of the ranks that run it. All ranks run a function without it.
inline constexpr llvm::StringLiteral placeAttrName = "rank.at";
/// Argument and result attribute (I64Attr) of functions with a place: the
/// number that the argument or result has globally.
inline constexpr llvm::StringLiteral numberAttrName = "rank.number";
/// Module attribute (MachineAttr): what its programs run on.
inline constexpr llvm::StringLiteral machineAttrName = "rank.machine";

/// The machine of the module around `op`; null if it has none.
MachineAttr getMachine(mlir::Operation *op);
/// Verifies `attribute` as `rank.machine` of `op`.
mlir::LogicalResult verifyMachine(mlir::Operation *op,
                                  mlir::Attribute attribute);

/// Null before buffers are assigned.
ArenaAttr getArena(mlir::Operation *function);

/// The buffer of a value in a function with buffers; null if it has none.
BufferAttr getBuffer(mlir::Value value);

/// Returns true if microbatches sum up the value: a result of rank.microbatches
/// that is neither a stash nor carried, or the block argument by which a
/// segment takes such a result.
bool isSum(mlir::Value value);

/// Replaces `shape` by one of `groupSize` equal blocks along dim `dim`, or
/// emits an error if they are not equal.
mlir::LogicalResult takeBlock(mlir::Operation *op,
                              llvm::SmallVectorImpl<int64_t> &shape,
                              int64_t dim, int64_t groupSize);

/// The tensor type `type` itself, or that of a tensor in flight.
mlir::RankedTensorType getTensorType(mlir::Type type);

/// Size in bytes of a dense row-major tensor of this type, which may be in
/// flight; booleans take a byte.
int64_t getByteSize(mlir::Type type);
int64_t getElementByteSize(mlir::Type elementType);

} // namespace polyrank::rank
