// Matrix products.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Looks through a transpose of two dims, which only changes the contracted
/// dim: the product takes the matrix as stored. Adjusts `contracted`.
Imported withoutTranspose(const Imported &x, int64_t &contracted);

/// A graph.matmul that contracts one dim of each side.
Imported productOf(Emitter &emit, const Imported &lhs, const Imported &rhs,
                   llvm::ArrayRef<int64_t> lhsBatch,
                   llvm::ArrayRef<int64_t> rhsBatch, int64_t lhsContract,
                   int64_t rhsContract);

/// NumPy's matmul of floats. A batch dim that one side lacks (or has with size
/// 1) is a free dim of the other side, so nothing is broadcast.
mlir::FailureOr<Imported> matrixProduct(Emitter &emit, Imported lhs,
                                        Imported rhs);

/// A grouped GEMM: row s of `rows` [rows, in] times matrix e of `matrices`
/// [groups, in, out], where ends[e - 1] <= s < ends[e]; rows from the last end
/// on give zeros. The groups can be split over devices.
Imported groupedProduct(Emitter &emit, const Imported &rows,
                        const Imported &matrices, const Imported &ends);

} // namespace polyrank::frontends
