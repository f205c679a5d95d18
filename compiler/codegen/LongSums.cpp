// Cuts long sums into partial sums, where the target wants it.

#include "compiler/codegen/LongSums.h"

#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

namespace {
/// A tensor's dims, with adjacent ones that are both summed or both not taken
/// as one.
struct MergedDims {
  SmallVector<int64_t> sizes;
  SmallVector<bool> isSummed;

  explicit MergedDims(graph::ReduceOp op) {
    auto type = cast<RankedTensorType>(op.getInput().getType());
    for (auto [d, size] : llvm::enumerate(type.getShape())) {
      bool summed = llvm::is_contained(op.getDims(), static_cast<int64_t>(d));
      if (!sizes.empty() && isSummed.back() == summed) {
        sizes.back() *= size;
      } else {
        sizes.push_back(size);
        isSummed.push_back(summed);
      }
    }
  }
};

/// Builds the two sums of one op.
class SumSplitter {
public:
  SumSplitter(graph::ReduceOp op, int64_t part)
      : op(op), part(part), merged(op), provenance(op),
        builder(op, &provenance), parts(builder, op.getLoc()),
        type(cast<RankedTensorType>(op.getInput().getType())),
        accumulator(graph::accumulatorOf(type.getElementType())) {}
  Value split();

private:
  Value reshape(Value value, ArrayRef<int64_t> shape);
  /// The merged dim that is cut, and how many of its values are in one part
  /// together with all values of the summed dims after it.
  std::pair<size_t, int64_t> chooseCut();

  graph::ReduceOp op;
  int64_t part;
  MergedDims merged;
  graph::ProvenanceCopier provenance;
  OpBuilder builder;
  graph::Parts parts;
  RankedTensorType type;
  Type accumulator;
};
} // namespace

Value SumSplitter::reshape(Value value, ArrayRef<int64_t> shape) {
  if (graph::getShape(value) == shape)
    return value;
  return graph::ReshapeOp::create(builder, op.getLoc(), value, shape);
}

std::pair<size_t, int64_t> SumSplitter::chooseCut() {
  int64_t inner = 1; // values of the summed dims after d
  for (size_t d = merged.sizes.size(); d-- > 0;) {
    if (!merged.isSummed[d])
      continue;
    if (part < inner * merged.sizes[d])
      return {d, part / inner};
    inner *= merged.sizes[d];
  }
  llvm_unreachable("a part is shorter than the sum");
}

Value SumSplitter::split() {
  auto [cut, length] = chooseCut();
  int64_t size = merged.sizes[cut], count = llvm::divideCeil(size, length);
  Value value = parts.inType(op.getInput(), accumulator);
  if (count * length != size) {
    value = reshape(value, merged.sizes);
    SmallVector<int64_t> none(merged.sizes.size()), high(none);
    high[cut] = count * length - size;
    value = graph::PadOp::create(builder, op.getLoc(), value, none, high, none,
                                 /*value=*/0.0);
  }
  SmallVector<int64_t> shape(merged.sizes), first, second;
  shape[cut] = count;
  shape.insert(shape.begin() + cut + 1, length);
  first.push_back(cut + 1);
  int64_t kept = 0; // dims that the first sum keeps
  for (size_t d = 0; d < merged.sizes.size(); ++d) {
    if (d > cut && merged.isSummed[d]) {
      first.push_back(d + 1);
      continue;
    }
    if (merged.isSummed[d])
      second.push_back(kept);
    ++kept;
  }
  Value partial = parts.sum(reshape(value, shape), first);
  Value total = parts.inType(parts.sum(partial, second), type.getElementType());
  return reshape(total, graph::getShape(op.getResult()));
}

LogicalResult polyrank::codegen::splitLongSums(func::FuncOp function,
                                               target::KernelTarget target) {
  SmallVector<graph::ReduceOp> sums;
  function.walk([&](graph::ReduceOp op) {
    if (op.getKind() == sharding::ReductionKind::Sum)
      sums.push_back(op);
  });
  for (graph::ReduceOp op : sums) {
    int64_t results = graph::numElements(graph::getShape(op.getResult()));
    if (results == 0) // there is no sum
      continue;
    int64_t part = target.getSumPart(op);
    int64_t count =
        graph::numElements(graph::getShape(op.getInput())) / results;
    if (part < 0 || part > count)
      return op.emitOpError("sums ")
             << count << " values, which the target '" << target.getName()
             << "' wants in parts of " << part;
    if (part == 0 || part == count)
      continue;
    op.getResult().replaceAllUsesWith(SumSplitter(op, part).split());
    op->erase();
  }
  return success();
}
