// Evaluation of programs on host tensors: the oracle of every pass.
//
// One program, three evaluations:
//  - *global* takes every tensor whole and every `sharding` op as the
//    identity. It cannot see a wrong layout.
//  - *distributed* runs the same program, before it is localized, with one
//    local tensor per device and real collectives. After each op it reassembles
//    the global value and compares it with the global evaluation. Partial
//    inputs are split into random summands, padding is NaN, replicas must be
//    bit-equal. It uses types, `localize` and `evaluate` only, never a sharding
//    rule or the verifier, so that it can judge both.
//  - *ranks* runs the localized program on all devices, with its collectives.
//    Where ranks have several programs, these run by themselves and wait for
//    each other in sends, receives and collectives, one at a time.
//  - *arena* runs it by its buffers: a command finds what lies where it reads,
//  and
//    a collective in flight happens at a random time. Of several programs a
//    random one goes on.

#pragma once

#include "compiler/evaluate/Joint.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::evaluate {

using graph::Tensor;

/// One local tensor per device of the mesh. A device at which the value does
/// not live (`at`) holds an empty tensor.
using Devices = llvm::SmallVector<Tensor>;

/// Splits a global value as its layout says. Padding holds the layout's fill or
/// NaN (integers: 1, a valid index); a partial sum is random summands, a
/// partial extremum is the value on a random device and worse values elsewhere.
Devices scatter(const Tensor &value, sharding::LayoutAttr layout,
                uint64_t seed);
/// Reassembles the global value. Fails, with `reason`, where replicas differ
/// in a bit, a local shape is wrong, or declared padding does not hold its
/// fill.
mlir::FailureOr<Tensor> assemble(const Devices &devices,
                                 mlir::RankedTensorType type,
                                 std::string &reason);

/// The same value under a layout with other blocks, of the same partial.
mlir::FailureOr<Devices> changeBlocks(const Devices &devices,
                                      mlir::RankedTensorType type,
                                      sharding::LayoutAttr to,
                                      std::string &reason);
/// All devices' blocks under `layout`, dim `d` of which has borders: with these
/// where they are copies (`halo`), without them where they are sums (`spill`).
Devices moveBorders(const Devices &devices, sharding::LayoutAttr layout,
                    int64_t d);
/// The layout with a dim as it is without borders.
sharding::LayoutAttr withoutBorders(sharding::LayoutAttr layout, int64_t dim);

/// What two orders of the same fp64 sums may differ by.
constexpr double roundingTolerance = 1e-9;
/// The same for a whole program. Where it converts fp64 to fp32, another order
/// of sums can give the next number of fp32, and what follows make more of it.
double getRoundingTolerance(mlir::Operation *program);
/// Whether two values agree: |a - b| <= tolerance (1 + |b|), NaN equal to NaN,
/// integers equal. Else `reason` names the first difference. Programs whose
/// constants differ need a larger tolerance than layouts of one program.
bool agree(const Tensor &left, const Tensor &right, std::string &reason,
           double tolerance = roundingTolerance);

/// Runs one graph op on every device: localizes it, checks the local ops, and
/// evaluates them. Fails where `localize` fails, a local op is invalid, or a
/// local result has another type than the layout says; diagnostics tell.
mlir::FailureOr<llvm::SmallVector<Devices>>
runOnDevices(graph::GraphOp op, llvm::ArrayRef<Devices> operands,
             sharding::MeshAttr mesh);
/// Runs one sharding op on every device: real data movement.
mlir::FailureOr<llvm::SmallVector<Devices>>
moveOnDevices(mlir::Operation *op, llvm::ArrayRef<Devices> operands);
/// What a pipeline op makes of one tensor per device; nullopt for other ops.
std::optional<Devices> changeStage(mlir::Operation *op,
                                   llvm::ArrayRef<Devices> operands);

/// The results of `function` on these arguments.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateGlobal(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments);
/// The same, distributed; emits an error at the first op that disagrees.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateDistributed(mlir::func::FuncOp function,
                    llvm::ArrayRef<Tensor> arguments, uint64_t seed = 0);

/// The results of localized functions (compiler/lowering), as global tensors:
/// arguments are scattered, the ranks of each function run in step, results are
/// reassembled. Emits an error where all functions wait for each other, with
/// what each waits for, or return something else as the same result.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateRanks(const JointFunction &joint, llvm::ArrayRef<Tensor> arguments,
              uint64_t seed = 0);
/// The same of functions with buffers: each command reads and writes the arenas
/// of its ranks, and what is sent lies in the sender's until it is received.
/// What a collective that is started reads and writes, it does at a time
/// between its start and its wait that is drawn from `seed`, as is which
/// function goes on.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateArena(const JointFunction &joint, llvm::ArrayRef<Tensor> arguments,
              uint64_t seed = 0);

/// The global type of an argument or result: what a localized function
/// recorded, or else its type.
mlir::RankedTensorType getGlobalType(mlir::func::FuncOp function,
                                     unsigned number, bool isResult);

/// Evaluates one op (global): graph ops, `sharding` ops, regions.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateOp(mlir::Operation *op, llvm::ArrayRef<Tensor> operands);

/// Arguments for functions drawn from `seed`: floats normal with deviation 0.5
/// (state its initial value), integers below their range (default 4).
llvm::SmallVector<Tensor> randomArguments(const JointFunction &joint,
                                          uint64_t seed);

} // namespace polyrank::evaluate
