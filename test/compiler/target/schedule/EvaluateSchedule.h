// What a scheduled kernel computes, to the bit.
//
// `LoopsOp::evaluate` says what loops mean in exact numbers. This evaluation
// computes in the types of the elements, with the functions of `math` as they
// are expanded, and adds in the order that the schedule states. So each bit of
// a target's code can be compared with it. It shares no code with an emitter.

#pragma once

#include <vector>

#include "test/compiler/target/schedule/ReductionOrder.h"

namespace polyrank::target {

/// A dense tensor as kernels see it: booleans are bytes.
using Bytes = std::vector<unsigned char>;

/// Replaces the functions of `math` in the body of loops by the arithmetic that
/// all targets expand them to. Other code does not see such loops: their
/// schedule counts ops that are no longer there.
void expandFunctions(kernel::LoopsOp loops);

/// Evaluates expanded loops. `results` have the sizes of the loops' results; a
/// scatter writes all of its result. With `flushesDenormals` denormal operands
/// and results of ops on f32, and of no others, are zero. Emits an error if an
/// element outside of a tensor is read or written, or if there is no meaning
/// for an op.
mlir::LogicalResult evaluateSchedule(kernel::LoopsOp loops,
                                     const ReductionOrder &order,
                                     bool flushesDenormals,
                                     llvm::ArrayRef<Bytes> arguments,
                                     llvm::MutableArrayRef<Bytes> results);

/// The first element in which two tensors differ, as text; empty if there is
/// none. Any NaN equals any other: its bits are a matter of the instructions.
std::string findDifference(mlir::Type element, const Bytes &found,
                           const Bytes &expected);

} // namespace polyrank::target
