// Short notation for formulas of tensors and numbers.

#pragma once

#include "frontends/emit/Emitter.h"

namespace polyrank::frontends {

/// Elementwise ops on floats. Two tensors are broadcast to their common shape,
/// which must exist; a number takes the shape and element type of the other
/// operand.
struct Arithmetic {
  Emitter &emit;

  Imported number(double value, const Imported &like) const {
    return emit.broadcast(emit.scalar(like.getElementType(), value),
                          like.getShape(), !like.isConstant());
  }

  Imported add(const Imported &x, const Imported &y) const {
    return together<graph::AddOp>(x, y);
  }
  Imported sub(const Imported &x, const Imported &y) const {
    return together<graph::SubOp>(x, y);
  }
  Imported mul(const Imported &x, const Imported &y) const {
    return together<graph::MulOp>(x, y);
  }
  Imported div(const Imported &x, const Imported &y) const {
    return together<graph::DivOp>(x, y);
  }
  Imported add(const Imported &x, double y) const {
    return add(x, number(y, x));
  }
  Imported mul(const Imported &x, double y) const {
    return mul(x, number(y, x));
  }
  /// `x` minus each element of `y`.
  Imported sub(double x, const Imported &y) const {
    return sub(number(x, y), y);
  }
  Imported square(const Imported &x) const { return mul(x, x); }
  Imported neg(const Imported &x) const { return emit.unary<graph::NegOp>(x); }
  Imported floor(const Imported &x) const {
    return emit.unary<graph::FloorOp>(x);
  }
  Imported is(const Imported &x, graph::Comparison comparison, double y) const {
    return emit.binary<graph::CompareOp>(x, number(y, x), comparison);
  }
  Imported is(const Imported &x, graph::Comparison comparison,
              const Imported &y) const {
    return together<graph::CompareOp>(x, y, comparison);
  }
  Imported both(const Imported &x, const Imported &y) const {
    return together<graph::AndOp>(x, y);
  }
  /// `x` where `condition` is true, else `otherwise`.
  Imported where(const Imported &condition, const Imported &x,
                 double otherwise) const {
    return emit.select(condition, x, number(otherwise, x));
  }
  Imported sum(const Imported &x, llvm::ArrayRef<int64_t> dims) const {
    return emit.reduce(sharding::ReductionKind::Sum, x, dims);
  }

private:
  template <typename Op, typename... Args>
  Imported together(const Imported &x, const Imported &y,
                    Args &&...args) const {
    if (x.getShape() == y.getShape())
      return emit.binary<Op>(x, y, args...);
    auto operands = emit.broadcastAll({x, y});
    if (failed(operands))
      return x; // The emitter keeps the error, which is the node's.
    return emit.binary<Op>((*operands)[0], (*operands)[1], args...);
  }
};

} // namespace polyrank::frontends
