// Finds options with which a model compiles, as close to the user's as
// possible.

#include "compiler/driver/FindCommand.h"

#include "compiler/driver/Stages.h"
#include "compiler/sharding/BatchAxes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/sharding/Constraint.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::driver;
using frontends::DescribedParameter;

namespace {

using strategy::MeshAxes;
using strategy::MeshAxis;
using strategy::Strategy;

class Finder {
public:
  Finder(ModuleOp step, const Options &given,
         const frontends::ModelDescription &file)
      : step(step), given(given), file(file) {}

  FoundCommand find();

private:
  /// The reason why the step cannot be laid out with these options; empty if it
  /// can.
  std::string whyNot(const Options &options);
  /// Tries a mesh with the user's constraints, then with others for unused
  /// axes.
  bool tryMesh(const MeshAxes &axes);
  /// Returns true if the step's pipeline stages lie along the axis.
  bool hasStages(StringRef axis) const {
    return axis == pipeline::getAxis(step);
  }
  /// The axes that no constraint names, other than batch axes.
  SmallVector<std::string> findUnusedAxes(const MeshAxes &axes);
  /// Patterns in which an axis may replace the one `%`, largest matrices first.
  SmallVector<std::string> findSplits();
  /// `axes`, with a data axis that divides the batch of each input.
  MeshAxes withEvenData(const MeshAxes &axes);

  ModuleOp step;
  const Options &given;
  const frontends::ModelDescription &file;
  FoundCommand result;
};

} // namespace

std::string Finder::whyNot(const Options &options) {
  std::string said;
  MLIRContext *context = step.getContext();
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && said.empty())
      said = diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> module = step.clone();
  PassManager manager(context);
  addPropagation(manager, options);
  addPartition(manager, options);
  sharding::setMesh(*module,
                    strategy::toAttribute(*context, options.strategy.mesh));
  return succeeded(manager.run(*module)) ? "" : said;
}

SmallVector<std::string> Finder::findUnusedAxes(const MeshAxes &axes) {
  SmallVector<std::string> unused;
  if (!given.strategy.shardFile.empty())
    return unused; // the file may name them
  for (const auto &[name, size] : axes)
    if (size > 1 && !given.strategy.splitsBatch(name) && !hasStages(name) &&
        !given.strategy.constrains(name))
      unused.push_back(name);
  return unused;
}

SmallVector<std::string> Finder::findSplits() {
  // Parameters that differ only in their layers' numbers share one pattern.
  std::map<std::string, std::pair<int64_t, size_t>> patterns; // elements, rank
  for (const DescribedParameter &parameter : file.parameters) {
    if (!parameter.trainable || parameter.shape.size() < 2 ||
        StringRef(parameter.name).find_first_of("*?[]{}=") != StringRef::npos)
      continue;
    SmallVector<StringRef> parts;
    StringRef(parameter.name).split(parts, '.');
    for (StringRef &part : parts)
      if (llvm::all_of(part, llvm::isDigit))
        part = "*";
    auto &[elements, rank] = patterns[llvm::join(parts, ".")];
    elements += parameter.elements;
    rank = parameter.shape.size();
  }
  SmallVector<std::pair<int64_t, std::string>> sorted;
  for (auto &[pattern, size] : patterns)
    sorted.push_back({-size.first, pattern});
  llvm::sort(sorted);
  constexpr size_t most = 4; // each takes a propagation
  SmallVector<std::string> splits;
  for (auto &[size, pattern] : ArrayRef(sorted).take_front(most))
    for (size_t dim : {0, 1}) {
      SmallVector<StringRef> dims(patterns[pattern].second, "-");
      dims[dim] = "%";
      splits.push_back(pattern + "=[" + llvm::join(dims, ",") + "]");
    }
  return splits;
}

MeshAxes Finder::withEvenData(const MeshAxes &axes) {
  MeshAxes even;
  auto function = step.lookupSymbol<func::FuncOp>("step");
  graph::Boundary boundary(function);
  int64_t others = 1;
  for (auto &[name, size] : axes)
    if (name != "data" && given.strategy.splitsBatch(name))
      others *= size;
  for (auto [name, size] : axes) {
    auto divides = [&](int64_t size) {
      return llvm::all_of(function.getArguments(), [&](BlockArgument input) {
        ArrayRef<int64_t> shape = graph::getShape(input);
        auto role =
            boundary.getArgument<graph::InputAttr>(input.getArgNumber());
        return !role || !role.hasBatch() || shape.size() < 2 ||
               shape[1] % size == 0;
      });
    };
    if (name == "data")
      while (!divides(size * others))
        --size;
    if (size > 1)
      even.push_back({name, size});
  }
  return even;
}

bool Finder::tryMesh(const MeshAxes &axes) {
  Options options = given;
  options.strategy = given.strategy.on(axes);
  std::string said = whyNot(options);
  if (said.empty()) {
    result.options = options;
    return true;
  }
  if (result.problem.empty())
    result.problem = said;
  SmallVector<std::string> unused = findUnusedAxes(axes);
  if (unused.empty())
    return false;
  SmallVector<std::string> splits = findSplits();
  std::vector<std::string> shards = options.strategy.shards;
  for (size_t first = 0; first < splits.size(); ++first) {
    options.strategy.shards = shards;
    for (auto [i, axis] : llvm::enumerate(unused)) {
      std::string split = splits[(first + i) % splits.size()];
      options.strategy.shards.push_back(
          split.replace(split.rfind('%'), 1, axis));
    }
    if (!whyNot(options).empty())
      continue;
    result.notes.push_back(
        "an axis of the mesh besides data splits what --shard says; the "
        "command "
        "has " +
        llvm::join(ArrayRef(options.strategy.shards).drop_front(shards.size()),
                   ", ") +
        " for a beginning");
    result.options = options;
    return true;
  }
  return false;
}

FoundCommand Finder::find() {
  const MeshAxes &asked = given.strategy.mesh;
  MeshAxes axes = asked.empty() ? MeshAxes{{"data", 2}} : asked;
  MeshAxes even = withEvenData(axes), data, least;
  llvm::copy_if(axes, std::back_inserter(least),
                [&](auto &axis) { return hasStages(axis.name); });
  llvm::copy_if(even, std::back_inserter(data), [&](auto &axis) {
    return axis.name == "data" || hasStages(axis.name);
  });
  SmallVector<MeshAxes> meshes{axes};
  for (const MeshAxes &other : {even, data, least})
    if (!llvm::is_contained(meshes, other))
      meshes.push_back(other);
  if (asked.empty() && axes != even)
    meshes.erase(meshes.begin()); // the user did not ask for data=2
  for (const MeshAxes &mesh : meshes)
    if (tryMesh(mesh))
      break;
  if (!result.options)
    return std::move(result);
  Options &options = *result.options;
  if (!asked.empty() && options.strategy.mesh != axes)
    result.notes.insert(
        result.notes.begin(),
        "--mesh " + toString(asked) + " does not fit, and the command has " +
            (options.strategy.mesh.empty() ? "none"
                                           : toString(options.strategy.mesh)) +
            ": " + result.problem);
  result.problem.clear();
  int64_t ranks =
      strategy::toAttribute(*step.getContext(), options.strategy.mesh)
          .getNumDevices();
  if (CrowdCheck crowd = checkCrowd(options, ranks); !crowd.error.empty()) {
    result.notes.push_back(crowd.error);
    options.target.clear();
    options.given.erase("target");
    options.cpu = "x86-64-v3";
  }
  return std::move(result);
}

FoundCommand
polyrank::driver::findCommand(ModuleOp step, const Options &given,
                              const frontends::ModelDescription &file) {
  return Finder(step, given, file).find();
}
