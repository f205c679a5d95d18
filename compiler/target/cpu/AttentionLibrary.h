// Attention as a library call: the tiles in which it is computed, and how much
// scratch it needs.

#pragma once

#include "dialects/rank/Rank.h"
#include "support/Result.h"

namespace polyrank::runtime::plan {
struct CallT;
} // namespace polyrank::runtime::plan

namespace polyrank::cpu {

/// True for attention and its gradient, of which the functions below are.
bool isAttention(rank::LibraryCallOp call);

/// Fails if the library does not compute such elements.
Result<void> checkAttention(rank::LibraryCallOp call);
/// Returns true if the call is faster than the products and kernels of its
/// parts.
bool isFasterThanParts(rank::LibraryCallOp call);
/// Gives the call its `call`: the sizes of a tile.
void chooseAttentionCall(rank::LibraryCallOp call);
/// The bytes of scratch for a team of `threads`.
int64_t getAttentionScratch(rank::LibraryCallOp call, int64_t threads);
/// Writes the body of the call in the plan. Emits an error if no call is
/// chosen.
mlir::LogicalResult writeAttention(rank::LibraryCallOp call,
                                   runtime::plan::CallT &written);

} // namespace polyrank::cpu
