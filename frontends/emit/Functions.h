// Elementary functions and reductions that are several ops.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// The nearest integer; of two the even one. Like floor it has no gradient.
Imported roundToEven(Emitter &emit, const Imported &x);

/// (e^x + e^-x) / 2, in factors that overflow only where the result does.
Imported coshOf(Emitter &emit, const Imported &x);

/// -1, 0 or 1.
Imported signOf(Emitter &emit, const Imported &x);

/// The remainder of integers of one shape, with the sign of the divisor
/// (Python's), or else of the dividend (C's).
Imported remainderOf(Emitter &emit, const Imported &x, const Imported &y,
                     bool ofDividend);

/// x | y, or x ^ y, of integers: x + y adds the bits that both have twice, x |
/// y has them once, x ^ y not at all. What overflows comes round.
Imported bitOrOf(Emitter &emit, const Imported &x, const Imported &y,
                 bool isXor);

/// The square root of a sum of squares. At 0 its gradient is 0, as PyTorch's
/// norms have it, where that of a root would make NaN of what is left out.
Imported rootOf(Emitter &emit, const Imported &x);
/// Whether `value` is a sum of squares, or a product of such and constants.
bool isSumOfSquares(mlir::Value value);

/// (sum of |x|^p)^(1/p) over `dims`; with an infinite p the largest or smallest
/// |x|, with p = 0 the number of elements that are not 0. With p = 2 there is
/// no gradient at 0.
Imported normOf(Emitter &emit, const Imported &x, double p,
                llvm::ArrayRef<int64_t> dims);

/// The product over `dims`, halves times halves: its gradient is right where
/// elements are 0, which that of a quotient would not be.
Imported productOver(Emitter &emit, Imported x, llvm::ArrayRef<int64_t> dims);

/// log(sum(exp(x))) over `dims`, without overflow.
Imported logSumExpOf(Emitter &emit, const Imported &x,
                     llvm::ArrayRef<int64_t> dims);

/// log(exp(x) + exp(y)) of tensors of one shape, without overflow; of two
/// infinities of one sign that infinity.
Imported logOfSum(Emitter &emit, const Imported &x, const Imported &y);

/// The logarithm of the softmax of `x` along `dim`.
Imported logSoftmaxOf(Emitter &emit, const Imported &x, int64_t dim);

} // namespace polyrank::frontends
