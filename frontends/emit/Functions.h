// Elementary functions and reductions that are several ops.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// The nearest integer; a tie goes to the even one. Like floor, it has no
/// gradient.
Imported roundToEven(Emitter &emit, const Imported &x);

/// (e^x + e^-x) / 2, in factors that overflow only if the result does.
Imported coshOf(Emitter &emit, const Imported &x);

/// The sign of x: -1, 0 or 1.
Imported signOf(Emitter &emit, const Imported &x);

/// The remainder of integers of the same shape. It has the sign of the divisor
/// (as in Python) or, if `ofDividend`, of the dividend (as in C).
Imported remainderOf(Emitter &emit, const Imported &x, const Imported &y,
                     bool ofDividend);

/// x | y, or x ^ y if `isXor`, of integers: x + y counts the bits that both
/// have twice, x | y once, x ^ y not at all. Overflow wraps around.
Imported bitOrOf(Emitter &emit, const Imported &x, const Imported &y,
                 bool isXor);

/// The square root of a sum of squares. Its gradient at 0 is 0, as for
/// PyTorch's norms; that of a plain root would turn masked elements into NaN.
Imported rootOf(Emitter &emit, const Imported &x);
/// Returns true if `value` is a sum of squares, or a product of such sums and
/// constants.
bool isSumOfSquares(mlir::Value value);

/// (sum of |x|^p)^(1/p) over `dims`; for an infinite p the largest or smallest
/// |x|, for p = 0 the number of nonzero elements. For p = 2 the gradient at 0
/// is 0.
Imported normOf(Emitter &emit, const Imported &x, double p,
                llvm::ArrayRef<int64_t> dims);

/// The product over `dims`, computed by multiplying halves: its gradient is
/// right even where elements are 0, unlike one computed as a quotient.
Imported productOver(Emitter &emit, Imported x, llvm::ArrayRef<int64_t> dims);

/// log(sum(exp(x))) over `dims`, without overflow.
Imported logSumExpOf(Emitter &emit, const Imported &x,
                     llvm::ArrayRef<int64_t> dims);

/// log(exp(x) + exp(y)) of tensors of the same shape, without overflow; for two
/// infinities of the same sign, that infinity.
Imported logOfSum(Emitter &emit, const Imported &x, const Imported &y);

/// The log-softmax of `x` along `dim`.
Imported logSoftmaxOf(Emitter &emit, const Imported &x, int64_t dim);

} // namespace polyrank::frontends
