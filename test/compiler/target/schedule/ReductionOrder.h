// In which order a kernel schedule combines the values of a reduction.
//
// The bits of a sum depend on its order, and the order is a matter of the
// schedule. Each target says here what its schedules mean, in one function that
// reads the attribute on the loops and nothing of the target's emitter.

#pragma once

#include "dialects/kernel/Kernel.h"

namespace polyrank::target {

/// The values of a reduction are numbered as the reduced variables run.
///
///   Value i is added to partial result (i % run) % slots, in ascending order:
///   the first `part` values of a partial result, then the next ones, and the
///   parts one after another. Then for each distance d partial result i + d, if
///   there is one, is added to partial result i, for each i without d's bit.
///   Partial result 0 is the reduction's.
///
/// Parts and partial results begin with the reduction's identity. With slots =
/// 4 and distances [2, 1] the sum of seven values a to g, all of one run, is
///
///   ((a + e) + (c + g)) + ((b + f) + d)
struct ReductionOrder {
  /// The reduced variables, the outermost first.
  llvm::SmallVector<int64_t> variables = {};
  /// The number of values after which partial results are dealt from the first
  /// again; 0: never.
  int64_t run = 0;
  int64_t slots = 1;
  llvm::SmallVector<int64_t> distances = {};
  /// The number of values in each part of a partial result; 0: all.
  int64_t part = 0;

  /// Checks that the order is one of these loops:
  /// 1. `variables` are the reduced variables, each once.
  /// 2. The distances add each partial result once: they are the powers of two
  ///    below `slots`, in any order.
  /// 3. Runs and parts are not negative.
  /// Emits an error with the number of the rule.
  mlir::LogicalResult verify(kernel::LoopsOp loops) const;
};

/// The order that `#cpu.schedule` of these loops states. Emits an error if they
/// have none.
mlir::FailureOr<ReductionOrder> getCpuOrder(kernel::LoopsOp loops);
/// The same of `#cuda.schedule`.
mlir::FailureOr<ReductionOrder> getCudaOrder(kernel::LoopsOp loops);

} // namespace polyrank::target
