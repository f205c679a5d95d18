// Evaluation of programs on host tensors: the oracle of every pass.
//
// One program, four evaluations:
//  - *global* takes every tensor whole and every `sharding` op as the identity.
//    It cannot see a wrong layout.
//  - *distributed* runs the same program, before it is localized, with one
//    local tensor per device and real collectives. After each op it reassembles
//    the global value and compares it with the global evaluation. Partial
//    inputs are split into random summands, padding is NaN, replicas must be
//    bit-equal. It uses types, `localize` and `evaluate` only, never a sharding
//    rule or the verifier, so that it can judge both.
//  - *ranks* runs the localized program on all devices, with its collectives.
//    If ranks have different programs, one of these runs at a time, until it
//    has to wait for another in a send, receive or collective.
//  - *arena* runs the localized program by its buffers: a command reads what
//    the arena contains at its operands' addresses, and a collective in flight
//    is executed at a random time. Of several programs, a random one runs next.

#pragma once

#include "compiler/evaluate/Joint.h"
#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace polyrank::evaluate {

using graph::Rounding;
using graph::Tensor;

/// One local tensor per device of the mesh. A device at which the value does
/// not live (the layout's `at`) holds an empty tensor.
using Devices = llvm::SmallVector<Tensor>;

/// Splits a global value as its layout says. Padding holds the layout's fill or
/// NaN (integers: 1, a valid index). A partial sum becomes random summands; of
/// a partial extremum a random device holds the value and the others hold
/// values that lose against it.
Devices scatter(const Tensor &value, sharding::LayoutAttr layout,
                uint64_t seed);
/// Reassembles the global value. Fails, with `reason`, if replicas differ in a
/// bit, a local shape is wrong, or declared padding does not hold its fill.
mlir::FailureOr<Tensor> assemble(const Devices &devices,
                                 mlir::RankedTensorType type,
                                 std::string &reason);

/// Returns the value in the layout `to`, which has other blocks but is partial
/// over the same axes with the same kind.
mlir::FailureOr<Devices> changeBlocks(const Devices &devices,
                                      mlir::RankedTensorType type,
                                      sharding::LayoutAttr to,
                                      std::string &reason);
/// Adds or removes the borders of dim `d` of `layout` on all devices: borders
/// that are copies (`halo`) are fetched, borders that are sums (`spill`) are
/// added to the neighbours' blocks.
Devices moveBorders(const Devices &devices, sharding::LayoutAttr layout,
                    int64_t d);
/// Returns the layout with dim `dim` stripped of its borders.
sharding::LayoutAttr withoutBorders(sharding::LayoutAttr layout, int64_t dim);

/// The relative error that two orders of the same fp64 sums may have.
constexpr double roundingTolerance = 1e-9;
/// The tolerance for two evaluations of a whole program. If results are rounded
/// as their types say, another order of sums can round to the neighbouring
/// number, and later ops magnify the difference: it is then eight times what
/// two results of the narrowest float type and the longest sum may differ by
/// (graph::getTolerance).
double getRoundingTolerance(mlir::Operation *program, Rounding rounding);
/// Returns true if two values agree: |a - b| <= tolerance (1 + |b|), NaN equal
/// to NaN, integers equal. Otherwise `reason` names the first difference.
/// Programs whose constants differ need a larger tolerance than layouts of one
/// program.
bool agree(const Tensor &left, const Tensor &right, std::string &reason,
           double tolerance = roundingTolerance);

/// Runs one graph op on every device: localizes it, checks the local ops, and
/// evaluates them. Emits an error if `localize` fails, a local op is invalid,
/// or a local result has another type than the layout says.
mlir::FailureOr<llvm::SmallVector<Devices>>
runOnDevices(graph::GraphOp op, llvm::ArrayRef<Devices> operands,
             sharding::MeshAttr mesh);
/// Runs one sharding op on every device: real data movement.
mlir::FailureOr<llvm::SmallVector<Devices>>
moveOnDevices(mlir::Operation *op, llvm::ArrayRef<Devices> operands);
/// Runs one pipeline op on one tensor per device; nullopt for other ops.
std::optional<Devices> changeStage(mlir::Operation *op,
                                   llvm::ArrayRef<Devices> operands);

/// The results of `function` on these arguments.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateGlobal(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments,
               Rounding rounding = Rounding::Exact);
/// Evaluates the same program on devices that hold blocks; emits an error at
/// the first op that disagrees with the global evaluation.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateDistributed(mlir::func::FuncOp function,
                    llvm::ArrayRef<Tensor> arguments, uint64_t seed = 0);

/// The results of localized functions (compiler/lowering), as global tensors:
/// arguments are scattered, the ranks of each function run in lockstep, results
/// are reassembled. Emits an error if all functions wait for each other (saying
/// what each waits for), or if they return different values for the same
/// result.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateRanks(const JointFunction &joint, llvm::ArrayRef<Tensor> arguments,
              uint64_t seed = 0, Rounding rounding = Rounding::Exact);
/// The same for functions with buffers: each command reads and writes the
/// arenas of its ranks, and a sent value stays in the sender's arena until it
/// is received. A started collective reads and writes at a time between its
/// start and its wait that is drawn from `seed`, as is the choice of the
/// function that runs next.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateArena(const JointFunction &joint, llvm::ArrayRef<Tensor> arguments,
              uint64_t seed = 0, Rounding rounding = Rounding::Exact);

/// The global type of an argument or result: the one that a localized function
/// recorded, or else the value's own type.
mlir::RankedTensorType getGlobalType(mlir::func::FuncOp function,
                                     unsigned number, bool isResult);

/// Evaluates one op on whole tensors: graph ops, `sharding` ops, ops with
/// regions.
mlir::FailureOr<llvm::SmallVector<Tensor>>
evaluateOp(mlir::Operation *op, llvm::ArrayRef<Tensor> operands,
           Rounding rounding = Rounding::Exact);

/// Arguments for functions, drawn from `seed`: floats are normal with deviation
/// 0.5, integers are below the input's range (default 4). A state takes its
/// initial value, a learning rate that of step 0.
llvm::SmallVector<Tensor> randomArguments(const JointFunction &joint,
                                          uint64_t seed);

} // namespace polyrank::evaluate
