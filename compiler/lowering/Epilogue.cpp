// Finds the ops around a product that its library call computes too.

#include "compiler/lowering/Epilogue.h"

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

/// The only use of `value`, if it is of type OpTy in the op's block.
template <typename OpTy>
static OpTy getOnlyUser(Value value, Operation *op) {
  auto user = value.hasOneUse() ? dyn_cast<OpTy>(*value.user_begin()) : OpTy();
  return user && user->getBlock() == op->getBlock() ? user : OpTy();
}

/// `user`'s operand that is not `value`.
template <typename OpTy>
static Value getOther(OpTy user, Value value) {
  return user.getLhs() == value ? user.getRhs() : user.getLhs();
}

Epilogue::Epilogue(Operation *product, Value given) : result(given) {
  Type element = getElementTypeOrSelf(result);
  if (graph::accumulatorOf(element) != element)
    return;
  while (auto scale = getOnlyUser<graph::MulOp>(result, product)) {
    std::optional<double> factor = graph::getSplat(getOther(scale, result));
    if (!factor)
      break;
    alpha *= *factor;
    result = scale.getResult();
  }
  auto sum = getOnlyUser<graph::AddOp>(result, product);
  if (!sum)
    return;
  Value other = getOther(sum, result);
  if (!other.hasOneUse() || other == result ||
      other.getParentBlock() != product->getBlock() ||
      (!rank::isSum(other) && !other.getDefiningOp<rank::GemmOp>()))
    return;
  addend = other;
  result = sum.getResult();
}
