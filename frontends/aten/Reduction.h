// What all reductions have in common: which dims, and what becomes of them.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// The sorted dims of the argument `dim`; all where it is missing or empty.
mlir::FailureOr<llvm::SmallVector<int64_t>> reducedDims(Call &c);

/// What was reduced over `dims` of `shape`, with these dims as 1 where the call
/// says so.
Imported finishReduction(Call &c, const Imported &reduced,
                         llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<int64_t> dims);

/// self in the type of a sum or product: `dtype`, else int64 for integers.
mlir::FailureOr<std::pair<Imported, ScalarType>> summand(Call &c);

/// Gives a loss that has one number for each element of `x`: reduced as the
/// argument `reduction` (at::Reduction) says, to their mean, their sum or not.
llvm::LogicalResult giveReduced(Call &c, const Imported &x, ScalarType type);

} // namespace polyrank::frontends::aten
