// Branches and loops whose control flow does not depend on inputs: they are
// replaced by the taken branch and by all iterations of the loop.

#include "frontends/emit/Recurrent.h"
#include "frontends/onnx/GraphImporter.h"
#include "frontends/onnx/Origin.h"

using namespace mlir;
using namespace polyrank::frontends;
using namespace polyrank::frontends::onnx;

static constexpr int maxGraphDepth = 16;

static std::string depends(const Node &node) {
  std::string text = "depends on inputs or parameters, and all control flow is "
                     "resolved when a model is compiled; ";
  return text + (isOf(node, "aten.embedding_bag.padding_idx")
                     ? "EmbeddingBag with a padding_idx is exported so: take "
                       "torch.nn.Embedding, set what it gives for the index "
                       "to zero and sum it up"
                     : "compute both sides and select with torch.where");
}

bool onnx::isControlFlow(std::string_view domain, std::string_view type) {
  return domain.empty() && (type == "If" || type == "Loop" || type == "Scan");
}

const Graph *onnx::graphOf(const Node &node, std::string_view name) {
  for (const onnx::Attribute &attribute : node.attributes)
    if (attribute.name == name)
      return attribute.g.get();
  return nullptr;
}

/// The only element of a known tensor.
static std::optional<int64_t> known(const Imported &x) {
  if (!x.isConstant() || countElements(x.getShape()) != 1)
    return std::nullopt;
  return static_cast<int64_t>(x.constant->at(0));
}

const std::vector<std::string_view> &
GraphImporter::usedNames(const Graph &graph) {
  auto [entry, isNew] = used.try_emplace(&graph);
  if (!isNew)
    return entry->second;
  auto take = [&](std::string_view name) { entry->second.push_back(name); };
  for (const Node &node : graph.nodes)
    forEachUse(node, take);
  for (const ValueInfo &output : graph.outputs)
    take(output.name);
  llvm::sort(entry->second);
  entry->second.erase(llvm::unique(entry->second), entry->second.end());
  return entry->second;
}

std::optional<SmallVector<Imported>>
GraphImporter::importGraph(const Node &node, const Graph &graph,
                           ArrayRef<Imported> arguments, const Scope &outer,
                           Place place) {
  auto reject = [&](std::string reason) {
    fail(node, std::move(reason));
    return std::nullopt;
  };
  if (++place.graphs > maxGraphDepth)
    return reject("branches and loops stand more than " +
                  std::to_string(maxGraphDepth) + " deep in each other");
  if (graph.inputs.size() != arguments.size())
    return reject("its graph takes " + std::to_string(graph.inputs.size()) +
                  " values, and gets " + std::to_string(arguments.size()));
  // The outer names that each iteration of a loop copies count too: a graph may
  // use many that no iteration evaluates.
  constexpr size_t namesOfANode = 16;
  const std::vector<std::string_view> &names = usedNames(graph);
  importedNodes += static_cast<int64_t>(names.size() / namesOfANode);
  if (importedNodes > maxNodes)
    return std::nullopt; // `report` gives the error
  Scope inner;
  for (std::string_view name : names)
    if (auto found = outer.find(StringRef(name)); found != outer.end())
      inner[name] = found->second;
  for (auto [input, argument] : llvm::zip_equal(graph.inputs, arguments))
    inner[input.name] = argument;
  for (const StoredTensor &tensor : graph.initializers) {
    // PyTorch's exporter keeps all parameters in the main graph.
    if (isFloat(tensor.type) && !tensor.dims.empty() && !record.hasRoles())
      return reject("its graph holds the tensor `" + std::string(tensor.name) +
                    "`, which would not be trained; export with the weights in "
                    "the model's own graph");
    auto value = toTensor(emit.getLocation().getContext(), model, tensor);
    if (!value)
      return reject(value.error().message);
    inner[tensor.name] = Imported(std::move(*value));
  }
  size_t before = failures.getNumNodes();
  importNodes(graph.nodes, inner, place);
  if (failures.getNumNodes() > before || importedNodes > maxNodes)
    return std::nullopt; // already reported
  SmallVector<Imported> results;
  for (const ValueInfo &output : graph.outputs) {
    auto found = inner.find(StringRef(output.name));
    if (found == inner.end())
      return reject("its graph does not compute its result `" +
                    std::string(output.name) + "`");
    if (!found->second)
      return std::nullopt; // the outer node that computes it has already been
                           // reported
    results.push_back(found->second);
  }
  return results;
}

void GraphImporter::importControlFlow(const Node &node,
                                      ArrayRef<Imported> operands, Scope &scope,
                                      Place place) {
  if (node.type == "If")
    importIf(node, operands, scope, place);
  else if (node.type == "Scan")
    importScan(node, operands, scope, place);
  else
    importLoop(node, operands, scope, place);
}

void GraphImporter::importIf(const Node &node, ArrayRef<Imported> operands,
                             Scope &scope, Place place) {
  const Graph *onTrue = graphOf(node, "then_branch"),
              *onFalse = graphOf(node, "else_branch");
  if (operands.size() != 1 || !operands[0] || !onTrue || !onFalse)
    return fail(node, "it needs a condition and two branches");
  auto condition = known(operands[0]);
  if (!condition)
    return fail(node, "its condition " + depends(node));
  auto results =
      importGraph(node, *condition ? *onTrue : *onFalse, {}, scope, place);
  if (!results)
    return;
  if (results->size() != node.outputs.size())
    return fail(node, "its branch has " + std::to_string(results->size()) +
                          " results, and the node " +
                          std::to_string(node.outputs.size()));
  for (auto [name, result] : llvm::zip_equal(node.outputs, *results))
    if (!name.empty())
      scope[name] = result;
}

void GraphImporter::importLoop(const Node &node, ArrayRef<Imported> operands,
                               Scope &scope, Place place) {
  const Graph *body = graphOf(node, "body");
  if (operands.size() < 2 || !body ||
      body->outputs.size() + 1 < operands.size())
    return fail(node, "it needs a number of turns, a condition and a body that "
                      "gives them again");
  std::optional<int64_t> turns, condition = 1;
  if (operands[0] && !(turns = known(operands[0])))
    return fail(node, "its number of turns " + depends(node));
  if (operands[1])
    condition = known(operands[1]);
  SmallVector<Imported> carried(operands.drop_front(2));
  size_t scans = body->outputs.size() - 1 - carried.size();
  if (node.outputs.size() > carried.size() + scans)
    return fail(node, "it has " + std::to_string(node.outputs.size()) +
                          " results, and its body gives " +
                          std::to_string(carried.size() + scans));
  std::vector<SmallVector<Imported>> scanned(scans);
  for (int64_t turn = 0; condition && *condition && (!turns || turn < *turns);
       ++turn) {
    SmallVector<Imported> arguments = {
        emit.reshape(emit.integers(turn), {}),
        emit.convert(emit.reshape(emit.integers(1), {}),
                     IntegerType::get(emit.getLocation().getContext(), 1))};
    llvm::append_range(arguments, carried);
    if (++importedNodes > maxNodes)
      return; // `report` gives the error
    auto results = importGraph(node, *body, arguments, scope, place);
    if (!results)
      return;
    condition = known(results->front());
    carried.assign(results->begin() + 1, results->begin() + 1 + carried.size());
    for (size_t i = 0; i < scans; ++i)
      scanned[i].push_back((*results)[1 + carried.size() + i]);
  }
  if (!condition)
    return fail(node, "its condition " + depends(node));
  for (auto [i, name] : llvm::enumerate(node.outputs)) {
    if (name.empty())
      continue;
    if (i < carried.size()) {
      scope[name] = carried[i];
      continue;
    }
    // The results of the iterations, stacked along a new dim.
    SmallVector<Imported> &parts = scanned[i - carried.size()];
    if (parts.empty())
      return fail(node, "it makes no turn, and its result `" +
                            std::string(name) + "` has no elements");
    for (const Imported &part : parts)
      if (part.sequence)
        return fail(node, "its result `" + std::string(name) +
                              "` is a sequence for each iteration");
    scope[name] = stack(emit, parts, 0);
  }
  if (std::string rejected = emit.takeError(); !rejected.empty())
    fail(node, rejected);
}
