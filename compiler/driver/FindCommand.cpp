// Finds options with which a model compiles, as close to the user's as
// possible.

#include "compiler/driver/FindCommand.h"

#include "compiler/driver/Mesh.h"
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

using Axes = SmallVector<std::pair<std::string, int64_t>>;

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
  bool tryMesh(const Axes &axes);
  /// The user's constraints that name none of the mesh's other axes.
  std::vector<std::string> shardsOn(const Axes &axes);
  /// Returns true if the step's pipeline stages lie along the axis.
  bool hasStages(StringRef axis) const {
    return axis == pipeline::getAxis(step);
  }
  bool splitsBatch(StringRef axis) const {
    return llvm::is_contained(sharding::getBatchAxisNames(given.batchAxes),
                              axis);
  }
  /// The axes that no constraint names, other than batch axes.
  SmallVector<std::string> findUnusedAxes(const Axes &axes);
  /// Patterns in which an axis may replace the one `%`, largest matrices first.
  SmallVector<std::string> findSplits();
  /// `axes`, with a data axis that divides the batch of each input.
  Axes withEvenData(const Axes &axes);

  ModuleOp step;
  const Options &given;
  const frontends::ModelDescription &file;
  FoundCommand result;
};

} // namespace

static std::string toText(const Axes &axes) {
  std::string text;
  for (auto &[name, size] : axes)
    text += (text.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return text;
}

/// Returns true if the dims of a constraint, `[data+tensor,-]`, name the axis.
static bool names(StringRef shard, StringRef axis) {
  SmallVector<StringRef> words;
  llvm::SplitString(shard.substr(shard.rfind('=') + 1), words, "[]+,@ ");
  return llvm::is_contained(words, axis);
}

std::string Finder::whyNot(const Options &options) {
  std::string said;
  MLIRContext *context = step.getContext();
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && said.empty())
      said = diagnostic.str();
    return success();
  });
  auto mesh = parseMesh(*context, options.mesh);
  if (!mesh)
    return mesh.error().message;
  OwningOpRef<ModuleOp> module = step.clone();
  PassManager manager(context);
  addPropagation(manager, options);
  addPartition(manager, options);
  sharding::setMesh(*module, *mesh);
  return succeeded(manager.run(*module)) ? "" : said;
}

std::vector<std::string> Finder::shardsOn(const Axes &axes) {
  MLIRContext *context = step.getContext();
  auto mesh = parseMesh(*context, given.mesh);
  std::vector<std::string> kept;
  for (const std::string &shard : given.shards)
    if (llvm::none_of(mesh->getAxisNames(), [&](StringAttr name) {
          return names(shard, name) && llvm::none_of(axes, [&](auto &axis) {
                   return axis.first == name.getValue();
                 });
        }))
      kept.push_back(shard);
  return kept;
}

SmallVector<std::string> Finder::findUnusedAxes(const Axes &axes) {
  SmallVector<std::string> unused;
  if (!given.shardFile.empty())
    return unused; // the file may name them
  for (auto &[name, size] : axes)
    if (size > 1 && !splitsBatch(name) && !hasStages(name) &&
        llvm::none_of(given.shards,
                      [&, &name = name](const std::string &shard) {
                        return names(shard, name);
                      }))
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

Axes Finder::withEvenData(const Axes &axes) {
  Axes even;
  auto function = step.lookupSymbol<func::FuncOp>("step");
  graph::Boundary boundary(function);
  int64_t others = 1;
  for (auto &[name, size] : axes)
    if (name != "data" && splitsBatch(name))
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

bool Finder::tryMesh(const Axes &axes) {
  Options options = given;
  options.mesh = toText(axes);
  options.shards = shardsOn(axes);
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
  std::vector<std::string> shards = options.shards;
  for (size_t first = 0; first < splits.size(); ++first) {
    options.shards = shards;
    for (auto [i, axis] : llvm::enumerate(unused)) {
      std::string split = splits[(first + i) % splits.size()];
      options.shards.push_back(split.replace(split.rfind('%'), 1, axis));
    }
    if (!whyNot(options).empty())
      continue;
    result.notes.push_back(
        "an axis of the mesh besides data splits what --shard says; the "
        "command "
        "has " +
        llvm::join(ArrayRef(options.shards).drop_front(shards.size()), ", ") +
        " for a beginning");
    result.options = options;
    return true;
  }
  return false;
}

FoundCommand Finder::find() {
  Axes axes;
  std::string text = given.mesh.empty() ? "data=2" : given.mesh;
  SmallVector<StringRef> parts;
  StringRef(text).split(parts, ',');
  for (StringRef part : parts) {
    auto [name, number] = part.trim().split('=');
    int64_t size = 0;
    number.getAsInteger(10, size);
    axes.push_back({name.str(), size});
  }
  Axes even = withEvenData(axes), data, least;
  llvm::copy_if(axes, std::back_inserter(least),
                [&](auto &axis) { return hasStages(axis.first); });
  llvm::copy_if(even, std::back_inserter(data), [&](auto &axis) {
    return axis.first == "data" || hasStages(axis.first);
  });
  SmallVector<Axes> meshes{axes};
  for (const Axes &other : {even, data, least})
    if (!llvm::is_contained(meshes, other))
      meshes.push_back(other);
  if (given.mesh.empty() && axes != even)
    meshes.erase(meshes.begin()); // the user did not ask for data=2
  for (const Axes &mesh : meshes)
    if (tryMesh(mesh))
      break;
  if (!result.options)
    return std::move(result);
  Options &options = *result.options;
  if (!given.mesh.empty() && options.mesh != toText(axes))
    result.notes.insert(result.notes.begin(),
                        "--mesh " + given.mesh +
                            " does not fit, and the command has " +
                            (options.mesh.empty() ? "none" : options.mesh) +
                            ": " + result.problem);
  result.problem.clear();
  auto mesh = parseMesh(*step.getContext(), options.mesh);
  if (CrowdCheck crowd = checkCrowd(options, mesh->getNumDevices());
      !crowd.error.empty()) {
    result.notes.push_back(crowd.error);
    options.cpu = "x86-64-v3";
  }
  return std::move(result);
}

FoundCommand
polyrank::driver::findCommand(ModuleOp step, const Options &given,
                              const frontends::ModelDescription &file) {
  return Finder(step, given, file).find();
}
