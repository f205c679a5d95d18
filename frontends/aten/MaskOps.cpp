// Selection of elements by a mask that is computed at run time.

#include "frontends/aten/Indexing.h"
#include "frontends/emit/Masks.h"

using namespace mlir;

namespace polyrank::frontends::aten {
namespace {

/// self, with the elements where the mask is true replaced by consecutive
/// elements of the source.
LogicalResult maskedScatter(Call &c) {
  ElementType type = c.typeOf("self");
  if (c.typeOf("mask") != ElementType::BOOL)
    return c.fail("a mask of " + c["mask"].describe());
  if (c.typeOf("source") != type)
    return c.fail("elements of " + c["source"].describe() + " into " +
                  c["self"].describe());
  auto result =
      scatterTrue(c.emit, c.read("self"), c.read("mask"), c.read("source"));
  return failed(result) ? failure() : c.give(*result, type);
}

/// The elements of self where the mask is true.
LogicalResult maskedSelect(Call &c) {
  if (c.typeOf("mask") != ElementType::BOOL)
    return c.fail("a mask of " + c["mask"].describe());
  auto all = c.emit.broadcastAll({c.read("self"), c.read("mask")});
  if (failed(all))
    return failure();
  auto count = countOf(c, (*all)[1], 0);
  if (failed(count))
    return failure();
  return c.give(takeTrue(c.emit, (*all)[0], (*all)[1], 0, *count),
                c.typeOf("self"));
}

const OperatorRow rows[] = {
    {"masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
     maskedScatter},
    {"masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> "
     "Tensor(a!)",
     maskedScatter},
    {"masked_select(Tensor self, Tensor mask) -> Tensor", maskedSelect},
};

} // namespace

std::optional<ComputedMask> findComputedMask(Call &c,
                                             ArrayRef<TensorRef> indices) {
  std::optional<ComputedMask> found;
  for (auto [dim, each] : llvm::enumerate(indices)) {
    if (!each)
      continue;
    bool isMask = each->getType() == ElementType::BOOL ||
                  each->getType() == ElementType::U8;
    Imported x = each->read(c.emit);
    if (found || !isMask || x.isConstant() || x.getRank() == 0)
      return std::nullopt;
    found = {c.as(x, ElementType::BOOL), static_cast<int64_t>(dim)};
  }
  return found;
}

FailureOr<int64_t> countOf(Call &c, const Imported &mask, int64_t dim) {
  if (Imported count = countTrue(c.emit, mask); count.isConstant())
    return count.constant->integers[0];
  const std::optional<Shape> &shape = c.context.resultShape;
  if (shape && dim < static_cast<int64_t>(shape->size())) {
    int64_t count = (*shape)[dim], size = countElements(mask.getShape());
    if (count < 0 || count > size)
      return c.fail("it is said to take " + Twine(count) +
                    " elements by a "
                    "mask of " +
                    Twine(size));
    return count;
  }
  return c.fail(
      "the number of elements depends on the values of inputs or "
      "parameters, and all shapes are known when a model is compiled" +
      c.context.wayOut +
      "; or keep all elements and weigh those that do not count by 0 "
      "(torch.where)");
}

ArrayRef<OperatorRow> getMaskRows() { return rows; }

} // namespace polyrank::frontends::aten
