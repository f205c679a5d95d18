// Raises the reduction of a dim from reductions of its blocks.

#include "compiler/training/RaiseComposites.h"

#include "dialects/graph/Forward.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::getShape;

namespace {
/// The elements [start, limit) of a dim of `source`, reduced and then divided.
struct ReducedBlock {
  Value source;
  int64_t start, limit;
  graph::ReduceOp reduce;
  std::optional<double> divisor;

  bool isLike(ReducedBlock other) {
    return source == other.source &&
           limit - start == other.limit - other.start &&
           reduce.getKind() == other.reduce.getKind() &&
           reduce.getFirst() == other.reduce.getFirst() &&
           divisor == other.divisor;
  }
};
} // namespace

/// Reads `part` as the reduction of a block of dim `dim`, which becomes a dim
/// of size 1.
static std::optional<ReducedBlock> readBlock(Value part, int64_t dim) {
  ReducedBlock block{{}, 0, 0, {}, std::nullopt};
  Value value = graph::withoutUnitDims(part);
  if (auto quotient = value.getDefiningOp<graph::DivOp>()) {
    block.divisor = graph::getSplat(quotient.getRhs());
    if (!block.divisor)
      return std::nullopt;
    value = graph::withoutUnitDims(quotient.getLhs());
  }
  block.reduce = value.getDefiningOp<graph::ReduceOp>();
  if (!block.reduce || block.reduce.getDims() != ArrayRef<int64_t>(dim))
    return std::nullopt;
  auto slice = block.reduce.getInput().getDefiningOp<graph::SliceOp>();
  if (!slice || slice.getStrides()[dim] != 1)
    return std::nullopt;
  block.source = slice.getInput();
  SmallVector<int64_t> shape(getShape(block.source));
  block.start = slice.getStarts()[dim];
  block.limit = slice.getLimits()[dim];
  shape[dim] = 1; // the other dims are whole
  return getShape(part) == ArrayRef<int64_t>(shape) ? std::optional(block)
                                                    : std::nullopt;
}

bool training::raiseBlocks(graph::ConcatOp op) {
  int64_t dim = op.getDim(), count = op.getInputs().size();
  std::optional<ReducedBlock> first, last;
  for (Value part : op.getInputs()) {
    auto block = readBlock(part, dim);
    if (!block ||
        (last && (!block->isLike(*last) || block->start != last->limit)))
      return false;
    if (!first)
      first = block;
    last = block;
  }
  graph::ProvenanceCopier provenance(first->reduce);
  OpBuilder builder(op, &provenance);
  Location location = first->reduce.getLoc();
  Value value = first->source;
  if (last->limit - first->start != getShape(value)[dim])
    value = graph::SliceOp::create(builder, location, value, dim, first->start,
                                   last->limit);
  SmallVector<int64_t> shape(getShape(value));
  shape[dim] = first->limit - first->start;
  shape.insert(shape.begin() + dim, count);
  value = graph::ReshapeOp::create(builder, location, value, shape);
  value = graph::ReduceOp::create(builder, location, first->reduce.getKind(),
                                  value, {dim + 1}, first->reduce.getFirst());
  graph::Parts parts(builder, location);
  if (first->divisor)
    value = parts.div(value, parts.splat(value, *first->divisor));
  op.getResult().replaceAllUsesWith(value);
  return true;
}
