// Finds which dim of a model's inputs is the batch.

#include "compiler/driver/Batch.h"

#include "compiler/driver/BatchFinder.h"
#include "compiler/sharding/BatchAxes.h"
#include "dialects/graph/Parts.h"
#include "support/Names.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;

/// Rates a batch on a copy of the model, without emitting diagnostics.
static std::array<int64_t, 3> rate(ModuleOp module, const Said &said,
                                   BatchDim batch) {
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy = module.clone();
  return BatchFinder(*copy, said, batch).rate();
}

/// Looks for another batch if no output has a part for each index of dim 0 of
/// the inputs, and some have one for each index of another dim: time may be the
/// model's first dim. Returns that dim if the file leaves it open and fixes dim
/// 0; else returns dim 0, with a warning.
static BatchDim findOtherDim(ModuleOp module, const Said &said,
                             BatchDim batch) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  graph::Boundary boundary(forward);
  bool hasRows = false;
  for (auto [i, type] : llvm::enumerate(forward.getResultTypes()))
    hasRows |= boundary.getResult<graph::OutputAttr>(i) &&
               cast<RankedTensorType>(type).getRank() > 0;
  if (!hasRows || rate(module, said, batch)[0] > 0)
    return batch;
  for (BlockArgument input : forward.getArguments()) {
    auto role = boundary.getArgument<graph::InputAttr>(input.getArgNumber());
    ArrayRef<int64_t> shape = graph::getShape(input);
    if (!role || said(role.getName().getValue(), shape.size()))
      continue;
    StringRef name = role.getName().getValue();
    SmallVector<BatchDim> dims = said.dimsOf(input, name);
    for (auto [dim, other] : llvm::enumerate(dims)) {
      if (dim == 0 || other == batch || rate(module, said, other)[0] == 0)
        continue;
      if (other.isOpen && !dims[0].isOpen)
        return other;
      std::string axes = "-";
      for (size_t d = 1; d < shape.size(); ++d)
        axes += d == dim ? ",data" : ",-";
      emitWarning(module.getLoc())
          << "dim 0 of input '" << name << "' of " << shapeText(shape)
          << " is taken for the batch, but no output has a part for each of "
             "its "
          << batch.size << ", as outputs have for each of the " << other.size
          << " of its dim " << dim
          << "; where that is the batch, say so with --mesh data=1 --shard '"
          << name << "=[" << axes << "]'";
      return batch;
    }
  }
  return batch;
}

/// Returns the one dim that all of these may be, with its name if one of them
/// has one; else nullopt.
static std::optional<BatchDim> findCommon(ArrayRef<BatchDim> dims,
                                          const Said &said) {
  BatchDim common = dims[0];
  for (const BatchDim &dim : dims) {
    if (!llvm::all_of(dims, [&](const BatchDim &other) {
          return said.mayBeSame(dim, other);
        }))
      return std::nullopt;
    if (common.name.empty())
      common = dim;
  }
  return common;
}

/// Finds the dim that is the batch.
static BatchDim findBatchDim(ModuleOp module, const Said &said) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  graph::Boundary boundary(forward);
  SmallVector<BatchDim> inFront, all; // distinct dims of the inputs
  for (BlockArgument input : forward.getArguments()) {
    auto role = boundary.getArgument<graph::InputAttr>(input.getArgNumber());
    ArrayRef<int64_t> shape = graph::getShape(input);
    if (!role || shape.empty())
      continue;
    StringRef name = role.getName().getValue();
    SmallVector<BatchDim> dims = said.dimsOf(input, name);
    std::optional<int64_t> dim = said(name, shape.size());
    if (dim && *dim > 0)
      return dims[*dim];
    for (const BatchDim &each : dims)
      if (!llvm::is_contained(all, each))
        all.push_back(each);
    if (!llvm::is_contained(inFront, dims[0]))
      inFront.push_back(dims[0]);
  }
  if (inFront.empty())
    return {};
  if (std::optional<BatchDim> common = findCommon(inFront, said))
    return findOtherDim(module, said, *common);
  BatchDim best = inFront[0];
  std::array<int64_t, 3> most{-1, -1, -1};
  for (const BatchDim &each : all) {
    auto rating = rate(module, said, each);
    if (rating > most) { // of equal ratings the first
      best = each;
      most = rating;
    }
  }
  return best;
}

LogicalResult polyrank::driver::findBatch(
    ModuleOp module, const Options &options,
    const llvm::StringMap<frontends::OpenDims> &openDims) {
  auto patterns = sharding::readShardPatterns(options.strategy.shardFile,
                                              options.strategy.shards);
  if (!patterns)
    return emitError(module.getLoc()) << patterns.error().message;
  Said said{*std::move(patterns),
            sharding::getBatchAxisNames(options.strategy.batchAxes), openDims};
  return BatchFinder(module, said, findBatchDim(module, said)).run();
}
