// What stands around a product and belongs to its library call.

#pragma once

#include "mlir/IR/Operation.h"

namespace polyrank::lowering {

/// What a product's call computes beside the product: the users of its result
/// that are scales and one sum.
struct Absorbed {
  /// `product` is the op whose result, or a view of it, is `result`.
  Absorbed(mlir::Operation *product, mlir::Value result);

  mlir::Value result; // of the last user that is absorbed
  double alpha = 1;
  /// Null, or a value that nobody else needs, in whose buffer the sum can
  /// happen: a microbatch accumulator or another product.
  mlir::Value addend;
};

/// Emits an error where the library does not multiply what the operands of
/// `product`, a graph op, hold.
mlir::LogicalResult verifyElements(mlir::Operation *product);

} // namespace polyrank::lowering
