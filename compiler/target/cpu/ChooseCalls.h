// Chooses which of oneDNN's functions computes each product.

#pragma once

#include "compiler/target/cpu/GemmLibrary.h"

namespace polyrank::cpu {

/// The estimated nanoseconds of `products` products of m x k and k x n matrices
/// on one core, for the choice among equivalent forms: 50 GFLOP/s, less for
/// thin matrices, and 300 ns a call.
double estimateProducts(int64_t m, int64_t n, int64_t k, int64_t products);

/// The call for each of `shapes`, which have the default choice and differ from
/// each other: `sgemm`, oneDNN's BLAS function, or `matmul`, its primitive, and
/// the number of pieces into which the result is cut. For narrow elements it is
/// `matmul` or `widened`.
///
/// Without `measure` this is the call that usually wins: `matmul` for batched
/// products, else `sgemm`; for narrow elements `matmul` where they may be left
/// to it, else `widened`. With it, products of at least 100 MFLOP are run with
/// both, on `threads` threads of this machine, cut into the usual number of
/// pieces and into one, two or four pieces for each thread. Another call is
/// taken if it is faster by more than 5 %.
std::vector<GemmCall> chooseCalls(llvm::ArrayRef<runtime::GemmShape> shapes,
                                  int64_t threads, bool measure);

} // namespace polyrank::cpu
