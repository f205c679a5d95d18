// Finds the size of a model's batch, and the dims that the options say it lies
// in.

#include "compiler/driver/Batch.h"

#include "compiler/driver/BatchFinder.h"
#include "compiler/sharding/BatchAxes.h"
#include "dialects/graph/Parts.h"
#include "support/Names.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

/// Rates a size on a copy of the model, without emitting diagnostics.
static std::array<int64_t, 3> rate(ModuleOp module, const Said &said,
                                   int64_t size) {
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy = module.clone();
  return BatchFinder(*copy, said, size).rate();
}

/// Warns if no output has a part for each index of dim 0 of the inputs, and
/// some have one for each index of another dim: time may be the model's first
/// dim.
static void warnOfOtherDim(ModuleOp module, const Said &said, int64_t batch) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  graph::Boundary boundary(forward);
  bool hasRows = false, hasNumbers = false;
  for (BlockArgument input : forward.getArguments())
    hasNumbers |= graph::getShape(input).empty() &&
                  boundary.getArgument<graph::InputAttr>(input.getArgNumber());
  for (auto [i, type] : llvm::enumerate(forward.getResultTypes()))
    hasRows |= boundary.getResult<graph::OutputAttr>(i) &&
               cast<RankedTensorType>(type).getRank() > 0;
  // A rating does not change inputs that have the size in dim 0.
  auto rating = [&] {
    return hasNumbers ? rate(module, said, batch)
                      : BatchFinder(module, said, batch).rate();
  };
  if (!hasRows || rating()[0] > 0)
    return;
  for (BlockArgument input : forward.getArguments()) {
    auto role = boundary.getArgument<graph::InputAttr>(input.getArgNumber());
    ArrayRef<int64_t> shape = graph::getShape(input);
    if (!role || said(role.getName().getValue(), shape.size()))
      continue;
    for (int64_t dim = 1, rank = shape.size(); dim < rank; ++dim) {
      if (shape[dim] == batch || rate(module, said, shape[dim])[0] == 0)
        continue;
      std::string axes = "-";
      for (int64_t d = 1; d < rank; ++d)
        axes += d == dim ? ",data" : ",-";
      emitWarning(module.getLoc())
          << "dim 0 of input '" << role.getName().getValue() << "' of "
          << shapeText(shape)
          << " is taken for the batch, but no output has a part for each of "
             "its "
          << batch << ", as outputs have for each of the " << shape[dim]
          << " of its dim " << dim
          << "; where that is the batch, say so with --mesh data=1 --shard '"
          << role.getName().getValue() << "=[" << axes << "]'";
      return;
    }
  }
}

/// Returns the size of the batch.
static int64_t findSize(ModuleOp module, const Said &said) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  graph::Boundary boundary(forward);
  SmallVector<int64_t> inFront, sizes; // distinct sizes of the inputs
  for (BlockArgument input : forward.getArguments()) {
    auto role = boundary.getArgument<graph::InputAttr>(input.getArgNumber());
    ArrayRef<int64_t> shape = graph::getShape(input);
    if (!role || shape.empty())
      continue;
    std::optional<int64_t> dim = said(role.getName().getValue(), shape.size());
    if (dim && *dim > 0)
      return shape[*dim];
    for (int64_t size : shape)
      if (!llvm::is_contained(sizes, size))
        sizes.push_back(size);
    if (!llvm::is_contained(inFront, shape[0]))
      inFront.push_back(shape[0]);
  }
  if (inFront.empty())
    return 1;
  if (inFront.size() == 1) {
    warnOfOtherDim(module, said, inFront[0]);
    return inFront[0];
  }
  int64_t best = inFront[0];
  std::array<int64_t, 3> most{-1, -1, -1};
  for (int64_t size : sizes) {
    auto rating = rate(module, said, size);
    if (rating > most) { // of equal ratings the first
      best = size;
      most = rating;
    }
  }
  return best;
}

LogicalResult polyrank::driver::findBatch(ModuleOp module,
                                          const Options &options) {
  auto patterns = sharding::readShardPatterns(options.strategy.shardFile,
                                              options.strategy.shards);
  if (!patterns)
    return emitError(module.getLoc()) << patterns.error().message;
  Said said{*std::move(patterns),
            sharding::getBatchAxisNames(options.strategy.batchAxes)};
  return BatchFinder(module, said, findSize(module, said)).run();
}
