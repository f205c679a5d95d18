// What all reductions share: which dims they reduce, and the shape after that.

#pragma once

#include "frontends/aten/Call.h"

namespace polyrank::frontends::aten {

/// The sorted dims of the argument `dim`; all dims if it is missing or empty.
mlir::FailureOr<llvm::SmallVector<int64_t>> reducedDims(Call &c);

/// Returns `reduced`, the reduction over `dims` of `shape`, with these dims
/// kept as size 1 if the call says so (`keepdim`).
Imported finishReduction(Call &c, const Imported &reduced,
                         llvm::ArrayRef<int64_t> shape,
                         llvm::ArrayRef<int64_t> dims);

/// `self` in the type in which a sum or product is computed: `dtype` if given,
/// else int64 for integers.
mlir::FailureOr<std::pair<Imported, ElementType>> summand(Call &c);

/// Gives the result of a loss that has one number for each element of `x`,
/// reduced as the argument `reduction` (at::Reduction) says: mean, sum or none.
llvm::LogicalResult giveReduced(Call &c, const Imported &x, ElementType type);

} // namespace polyrank::frontends::aten
