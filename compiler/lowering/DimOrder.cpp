// Orders of a tensor's dims in memory, and how ops map them.

#include "compiler/lowering/DimOrder.h"

#include <numeric>

#include "dialects/graph/Graph.h"
#include "dialects/graph/Parts.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;
using graph::getShape;

DimOrder lowering::identityOrder(size_t rank) {
  DimOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

SmallVector<int64_t> lowering::inOrder(ArrayRef<int64_t> shape,
                                       ArrayRef<int64_t> order) {
  return llvm::map_to_vector(order, [&](int64_t d) { return shape[d]; });
}

SmallVector<int64_t> lowering::permutationBetween(ArrayRef<int64_t> from,
                                                  ArrayRef<int64_t> to) {
  return llvm::map_to_vector(to, [&](int64_t d) -> int64_t {
    return llvm::find(from, d) - from.begin();
  });
}

DimOrder lowering::canonicalOrder(ArrayRef<int64_t> order,
                                  ArrayRef<int64_t> shape) {
  auto isUnit = [&](int64_t d) { return shape[d] == 1; };
  DimOrder result(order), wide(order);
  llvm::erase_if(wide, isUnit);
  if (llvm::is_sorted(wide))
    return identityOrder(order.size());
  llvm::erase_if(result, [&](int64_t d) { return !isUnit(d); });
  llvm::sort(result);
  llvm::append_range(result, wide);
  return result;
}

static std::optional<DimOrder>
follow(const DimParts::Dims &from, ArrayRef<int64_t> order,
       const DimParts::Dims &to, ArrayRef<int64_t> shape, bool hasWindows) {
  llvm::DenseSet<int64_t> wanted;
  for (const auto &parts : to)
    wanted.insert(parts.begin(), parts.end());
  llvm::DenseMap<int64_t, int64_t> places; // of parts in memory
  for (int64_t d : order)
    for (int64_t part : from[d])
      if (wanted.contains(part))
        places.try_emplace(part, places.size());
  DimOrder units, windows;
  SmallVector<std::pair<int64_t, int64_t>> placed; // with the dim
  for (auto [dim, parts] : llvm::enumerate(to)) {
    auto known = [&](int64_t part) { return places.contains(part); };
    if (llvm::none_of(parts, known)) {
      if (shape[dim] != 1 && (!hasWindows || dim + 1 != to.size()))
        return std::nullopt;
      (shape[dim] == 1 ? units : windows).push_back(dim);
      continue;
    }
    for (auto [i, part] : llvm::enumerate(parts))
      if (!known(part) ||
          places[part] != places[parts[0]] + static_cast<int64_t>(i))
        return std::nullopt;
    placed.push_back({places[parts[0]], dim});
  }
  llvm::sort(placed);
  DimOrder result = units;
  for (auto [place, dim] : placed)
    result.push_back(dim);
  llvm::append_range(result, windows);
  return result;
}

std::optional<DimOrder> DimParts::toResult(ArrayRef<int64_t> order,
                                           ArrayRef<int64_t> shape) const {
  return follow(operand, order, result, shape, hasWindows);
}

std::optional<DimOrder> DimParts::toOperand(ArrayRef<int64_t> order,
                                            ArrayRef<int64_t> shape) const {
  return follow(result, order, operand, shape, hasWindows);
}

/// Splits the dims of both shapes at each other's boundaries; nullopt if these
/// do not nest, as those of [2, 3] and [3, 2].
static std::optional<DimParts> reshapeParts(ArrayRef<int64_t> operand,
                                            ArrayRef<int64_t> result) {
  DimParts parts;
  parts.operand.resize(operand.size());
  parts.result.resize(result.size());
  int64_t number = 0, left = 1, right = 1; // to be cut of dims i - 1 and j - 1
  size_t i = 0, j = 0;
  while (true) {
    // Dims of size 1 are parts of their own.
    for (; left == 1 && i < operand.size(); ++i)
      if ((left = operand[i]) == 1)
        parts.operand[i].push_back(number++);
    for (; right == 1 && j < result.size(); ++j)
      if ((right = result[j]) == 1)
        parts.result[j].push_back(number++);
    int64_t size = std::min(left, right);
    if (size <= 1)
      return left == right ? std::optional(parts) : std::nullopt;
    if (left % size || right % size)
      return std::nullopt;
    parts.operand[i - 1].push_back(number);
    parts.result[j - 1].push_back(number++);
    left /= size;
    right /= size;
  }
}

std::optional<DimParts> lowering::dimPartsOf(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return std::nullopt;
  auto ofRank = [](Value value) {
    DimParts::Dims dims;
    for (size_t d = 0; d < getShape(value).size(); ++d)
      dims.push_back({static_cast<int64_t>(d)});
    return dims;
  };
  DimParts parts;
  parts.operand = ofRank(op->getOperand(0));
  parts.result = ofRank(op->getResult(0));
  if (op->hasTrait<graph::Elementwise>() ||
      isa<graph::PadOp, graph::SliceOp, graph::ConcatOp>(op))
    return parts;
  return llvm::TypeSwitch<Operation *, std::optional<DimParts>>(op)
      .Case([&](graph::TransposeOp op) {
        for (auto [dim, from] :
             llvm::zip_equal(parts.result, op.getPermutation()))
          dim = {from};
        return parts;
      })
      .Case([&](graph::ReduceOp op) {
        parts.result.clear();
        for (auto [d, dim] : llvm::enumerate(parts.operand))
          if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(d)))
            parts.result.push_back(dim);
        return parts;
      })
      .Case([&](graph::BroadcastOp op) {
        for (auto [dim, at] : llvm::zip_equal(parts.operand, op.getDims()))
          dim = {at};
        return parts;
      })
      .Case([&](graph::UnfoldOp) {
        parts.hasWindows = true;
        return parts;
      })
      .Case([&](graph::FoldOp op) {
        // A window of one element is a dim of size 1, which an order may put
        // anywhere; the op needs it last.
        parts.hasWindows = true;
        return getShape(op.getInput()).back() > 1 ? std::optional(parts)
                                                  : std::nullopt;
      })
      .Case([&](graph::ReshapeOp op) {
        return reshapeParts(getShape(op.getInput()), getShape(op.getResult()));
      })
      .Default(std::nullopt);
}
