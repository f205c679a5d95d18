// Matrix products.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// A two-dim transpose is a choice of contracted dim: a product takes the
/// matrix as it is stored. `contracted` is adjusted.
Imported withoutTranspose(const Imported &x, int64_t &contracted);

/// graph.matmul that contracts one dim of each side.
Imported productOf(Emitter &emit, const Imported &lhs, const Imported &rhs,
                   llvm::ArrayRef<int64_t> lhsBatch,
                   llvm::ArrayRef<int64_t> rhsBatch, int64_t lhsContract,
                   int64_t rhsContract);

/// NumPy's matmul of floats. A batch dim that one side lacks (or has as 1) is a
/// free dim of the other side, so nothing is broadcast.
mlir::FailureOr<Imported> matrixProduct(Emitter &emit, Imported lhs,
                                        Imported rhs);

/// Row s of `rows` [rows, in] times matrix e of `matrices` [groups, in, out],
/// where ends[e - 1] <= s < ends[e]; zeros behind the last end. The groups can
/// be split over devices.
Imported groupedProduct(Emitter &emit, const Imported &rows,
                        const Imported &matrices, const Imported &ends);

} // namespace polyrank::frontends
