// apply-strategy: writes what the user fixed into the program as constraints.

#include "compiler/sharding/BatchAxes.h"
#include "compiler/sharding/Passes.h"
#include "compiler/sharding/Strategy.h"
#include "compiler/sharding/Why.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Symbols.h"
#include "dialects/pipeline/Pipeline.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using sharding::AxisRef;
using sharding::DimAttr;
using sharding::LayoutAttr;

namespace polyrank::sharding {
#define GEN_PASS_DEF_APPLYSTRATEGY
#include "compiler/sharding/Passes.h.inc"
} // namespace polyrank::sharding

LogicalResult Strategy::addBatchDefault() {
  Result<SmallVector<AxisRef>> found = findBatchAxes(mesh, givenBatchAxes);
  if (!found)
    return error() << found.error().message;
  batchAxes = *std::move(found);
  auto hasStages = [&](AxisRef ref) {
    return mesh.getAxisNames()[ref.axis].getValue() ==
           pipeline::getAxis(module);
  };
  if (!givenBatchAxes.empty() && llvm::any_of(batchAxes, hasStages))
    return error() << "--batch-axes: the stages of the pipeline lie along '"
                   << pipeline::getAxis(module)
                   << "', which splits no dim; name others";
  llvm::erase_if(batchAxes, hasStages);
  if (batchAxes.empty())
    return success();
  int64_t size = product(batchAxes);
  SmallVector<std::pair<unsigned, sharding::ConstraintAttr>> inputs;
  std::string names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto input = graph::Boundary(function).getArgument<graph::InputAttr>(i);
    RankedTensorType type = typeOf(i);
    if (!input || !input.hasBatch() || type.getRank() < 2 ||
        sharding::getConstraint(function, i))
      continue;
    if (type.getDimSize(1) % size != 0)
      return refuseBatch(function, i, mesh, batchAxes);
    SmallVector<DimAttr> dims(type.getRank(), DimAttr::get(mesh, {}));
    dims[1] = DimAttr::get(mesh, batchAxes);
    SmallVector<bool> open(type.getRank(), true);
    open[0] = open[1] = false;
    inputs.push_back(
        {i, toConstraint(LayoutAttr::get(mesh, dims), open, lowest + 1, "")});
    names += (names.empty() ? "" : ", ") + input.getName().str();
  }
  for (auto [i, constraint] : inputs)
    sharding::setConstraint(function, i,
                            toConstraint(constraint.getLayout(),
                                         constraint.getOpen(),
                                         constraint.getPriority(),
                                         describe(mesh, batchAxes) +
                                             " splits the batch of " + names));
  if (!names.empty())
    emitRemark(module.getLoc())
        << "the " << describeBatchAxes(mesh, batchAxes)
        << (batchAxes.size() == 1 ? " splits" : " split") << " the batch of "
        << names;
  return success();
}

/// A constraint, in the syntax of --shard, on the largest parameters that the
/// axis can split; empty if there are none.
std::string Strategy::findExample(StringRef axis) {
  // Errors of constraints that are only tried out are not reported.
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  graph::Boundary boundary(function);
  // Parameters of layers that are alike share one pattern.
  std::map<std::string, std::pair<int64_t, int64_t>> patterns; // elements, rank
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto role = boundary.getArgument<graph::ParameterAttr>(i);
    auto parameter = role ? graph::Symbols(module).lookup<graph::ParameterOp>(
                                role.getSymbol())
                          : graph::ParameterOp();
    if (!parameter)
      continue;
    auto type = cast<RankedTensorType>(parameter.getType());
    StringRef name = parameter.getSymName();
    if (type.getRank() < 2 ||
        name.find_first_of("#*?[]{}=()") != StringRef::npos)
      continue;
    std::string pattern = LayerNames::getKey(name);
    std::replace(pattern.begin(), pattern.end(), '#', '*');
    auto &[elements, rank] = patterns[pattern];
    elements += type.getNumElements();
    rank = type.getRank();
  }
  std::vector<std::pair<int64_t, std::string>> largestFirst;
  for (auto &[pattern, size] : patterns)
    largestFirst.push_back({-size.first, pattern});
  llvm::sort(largestFirst);
  for (auto &[elements, pattern] : largestFirst)
    for (int64_t dim = patterns[pattern].second; dim-- > 0;) {
      SmallVector<StringRef> dims(patterns[pattern].second, "-");
      dims[dim] = axis;
      std::string text = pattern + "=[" + llvm::join(dims, ",") + "]";
      if (succeeded(add(text)))
        return text;
    }
  return "";
}

/// For an axis whose name has a meaning in other tools: what the user may have
/// meant.
std::string Strategy::explainUnusedAxis(StringRef axis) const {
  bool hasBatchAxes = !givenBatchAxes.empty() || mesh.lookup("data") >= 0 ||
                      mesh.lookup("replica") >= 0;
  std::string lower = axis.lower();
  if (!hasBatchAxes &&
      (editDistance(lower, "data") <= 2 ||
       llvm::is_contained({"dp", "ddp", "fsdp", "batch", "dp_shard"}, lower)))
    return "the axis that splits the batch is called 'data' (or give "
           "--batch-axes " +
           axis.str() + "); else ";
  if (pipeline::getAxis(module).empty() &&
      llvm::is_contained({"pp", "stage", "stages", "pipeline"}, lower))
    return "the axis along which stages lie is called 'pipe' (or give "
           "--pipe-axis " +
           axis.str() + "); else ";
  return "";
}

LogicalResult Strategy::checkAxesAreUsed() {
  llvm::SmallDenseSet<int32_t> used;
  auto add = [&](sharding::ConstraintAttr constraint) {
    if (constraint)
      for (AxisRef ref : constraint.getLayout().getUsedAxes())
        used.insert(ref.axis);
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    add(sharding::getConstraint(function, i));
  function.walk([&](Operation *op) { add(sharding::getConstraint(op)); });
  for (auto [i, size] : llvm::enumerate(mesh.getAxisSizes())) {
    StringRef name = mesh.getAxisNames()[i].getValue();
    // Ranks along the pipeline's axis differ by their stages.
    if (size == 1 || used.contains(i) || name == pipeline::getAxis(module))
      continue;
    std::string example = findExample(name);
    return error() << "the mesh axis " << name << "=" << size
                   << " is used by nothing: all its ranks would do the same; "
                   << explainUnusedAxis(name)
                   << (example.empty()
                           ? "constrain a parameter with it (--shard)"
                           : "constrain a parameter with it, for instance "
                             "--shard '" +
                                 example + "'")
                   << ", or leave it out of --mesh";
  }
  return success();
}

namespace {
struct ApplyStrategy : sharding::impl::ApplyStrategyBase<ApplyStrategy> {
  using ApplyStrategyBase::ApplyStrategyBase;

  void runOnOperation() override {
    if (failed(apply(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult apply(ModuleOp module);
};
} // namespace

LogicalResult ApplyStrategy::apply(ModuleOp module) {
  MeshAttr mesh = sharding::getMesh(module);
  if (!mesh)
    return emitError(module.getLoc())
           << "the module has no mesh (sharding.mesh)";
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (!function)
    return emitError(module.getLoc()) << "there is no function @step";
  // Of equal priority, the later pattern wins: the command line's over the
  // file's.
  auto patterns = readShardPatterns(file, shards);
  if (!patterns)
    return emitError(module.getLoc()) << patterns.error().message;
  Strategy strategy(module, function, mesh, batchAxes);
  for (const ShardPattern &pattern : *patterns)
    if (failed(strategy.add(pattern)))
      return failure();
  if (failed(strategy.addBatchDefault()) || failed(strategy.checkAxesAreUsed()))
    return failure();
  strategy.emitRemarks();
  return success();
}
