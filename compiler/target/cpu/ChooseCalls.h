// Which of oneDNN's functions computes each product.

#pragma once

#include "dialects/rank/Rank.h"

namespace polyrank::cpu {

/// Nanoseconds that `products` products of m x k and k x n matrices take on one
/// core, estimated for the choice among forms of the same: 50 GFLOP/s, less for
/// thin matrices, and 300 ns a call.
double estimateProducts(int64_t m, int64_t n, int64_t k, int64_t products);

/// Gives each product its `call`: `sgemm`, oneDNN's BLAS function, or `matmul`,
/// its primitive, and into how many pieces the result is cut.
///
/// Without `measure` the usual winner: `matmul` for products of a batch, else
/// `sgemm`. With it, products of 100 MFLOP and more are run with both, on
/// `threads` threads of this machine, once for equal ones, cut into the usual
/// pieces and into one, two or four for each thread; another call is taken
/// where it is faster by more than 5 %.
void chooseCalls(llvm::ArrayRef<rank::GemmOp> gemms, int64_t threads,
                 bool measure);

} // namespace polyrank::cpu
