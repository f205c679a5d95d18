// The ops around a product that its library call computes too.

#pragma once

#include "mlir/IR/Operation.h"

namespace polyrank::lowering {

/// What a product's call computes in addition to the product: users of its
/// result that are scales, and one sum. A product whose result is narrower than
/// the type in which it is added has no epilogue: the program rounds the
/// product and then the scaled product or the sum, the call would round once.
struct Epilogue {
  /// `product` is the op whose result, or a view of it, is `result`.
  Epilogue(mlir::Operation *product, mlir::Value result);

  mlir::Value result; // of the epilogue's last op
  double alpha = 1;
  /// The other operand of the sum, or null. Nothing else needs it, so the sum
  /// can happen in its buffer: a microbatch accumulator or another product.
  mlir::Value addend;
};

} // namespace polyrank::lowering
