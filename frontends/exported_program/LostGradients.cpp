// Finds values through which no gradient passes although the file has lost
// that.

#include "frontends/exported_program/LostGradients.h"

#include "dialects/graph/Graph.h"
#include "frontends/import/Trace.h"
#include "support/Names.h"

using namespace mlir;

namespace polyrank::frontends::exported_program {

static StringRef metadataOf(const Node &node, const char *key) {
  auto found = node.metadata.find(key);
  return found == node.metadata.end() ? StringRef() : StringRef(found->second);
}

static void forEachName(const Argument &argument,
                        function_ref<void(const std::string &)> callback) {
  if (argument.kind == Argument::Kind::Name)
    callback(argument.text);
  for (const Argument &each : argument.elements)
    forEachName(each, callback);
}

/// The autograd.Function whose forward made a node, or made all nodes of the
/// node's graph: a strict export puts that forward into a region of its own,
/// without gradients.
static std::string functionOf(const Node &node) {
  std::string name =
      frontends::functionOf(framesOf(metadataOf(node, "stack_trace"))).str();
  for (const NamedArgument &input : node.inputs) {
    if (input.value.kind != Argument::Kind::Graph)
      continue;
    for (const Node &inner : input.value.graph->nodes) {
      std::string other = functionOf(inner);
      if (other.empty() || (!name.empty() && other != name))
        return "";
      name = other;
    }
  }
  return name;
}

LostGradients::LostGradients(const Graph &graph, bool isDecomposed) {
  // In a model that was a graph of operators before the export, every node has
  // such a trace, so it tells nothing.
  bool hasSource = llvm::any_of(graph.nodes, [](const Node &node) {
    auto frames = framesOf(metadataOf(node, "stack_trace"));
    return !frames.empty() && !isOfRegion(frames);
  });
  std::map<const Node *, Origin> made;
  for (const Node &node : graph.nodes)
    if (auto origin = originOf(node, isDecomposed))
      if (hasSource || origin->kind != Kind::Region)
        made.emplace(&node, std::move(*origin));
  if (made.empty())
    return;
  std::map<std::string, const Node *> producers;
  for (const auto &[node, origin] : made)
    for (const Argument &output : node->outputs)
      forEachName(output, [&](const std::string &name) {
        producers.emplace(name, node);
        // Each `alias` is a detach of its own.
        if (origin.kind == Kind::Detach)
          origins.try_emplace(name, origin);
      });
  auto leaves = [&](const std::string &name, const Node *user) {
    auto producer = producers.find(name);
    if (producer == producers.end())
      return;
    const Origin &origin = made.at(producer->second);
    auto to = made.find(user);
    if (to == made.end() || !(to->second == origin))
      origins.try_emplace(name, origin);
  };
  for (const Node &node : graph.nodes)
    for (const NamedArgument &input : node.inputs)
      forEachName(input.value,
                  [&](const std::string &name) { leaves(name, &node); });
  for (const Argument &output : graph.outputs)
    forEachName(output,
                [&](const std::string &name) { leaves(name, nullptr); });
}

std::optional<LostGradients::Origin>
LostGradients::originOf(const Node &node, bool isDecomposed) const {
  auto frames = framesOf(metadataOf(node, "stack_trace"));
  if (isDecomposed) {
    if (metadataOf(node, "torch_fn").starts_with("wrap_with_set_grad_enabled"))
      return Origin{Kind::NoGrad, ""};
    if (isOfRegion(frames))
      return Origin{Kind::Region, ""};
    if (node.target == "torch.ops.aten.alias.default" &&
        !metadataOf(node, "from_node").contains("aten.alias."))
      return Origin{Kind::Detach, ""};
  }
  if (std::string name = functionOf(node); !name.empty())
    return Origin{Kind::Function, name};
  return std::nullopt;
}

bool LostGradients::isTrained(Value value, bool throughDetach) {
  auto &found = known[throughDetach];
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value at = open.back();
    if (found.contains(at)) {
      open.pop_back();
      continue;
    }
    Operation *op = at.getDefiningOp();
    if (!op || (isa<graph::DetachOp>(op) && !throughDetach) ||
        !isa<FloatType>(getElementTypeOrSelf(at.getType()))) {
      found[at] = !op && trained.contains(at);
      open.pop_back();
      continue;
    }
    // Loops use values from outside their bodies.
    bool isAny = false, isWhole = true;
    op->walk([&](Operation *each) {
      for (Value operand : each->getOperands()) {
        auto known = found.find(operand);
        if (known != found.end()) {
          isAny |= known->second;
        } else if (!op->isProperAncestor(
                       operand.getParentBlock()->getParentOp()) &&
                   operand.getParentBlock()->getParentOp() != op) {
          isWhole = false;
          open.push_back(operand);
        }
      }
    });
    if (isAny || isWhole)
      found[at] = isAny;
  }
  return found.at(value);
}

bool LostGradients::isLost(const std::string &name, Value value) {
  auto found = origins.find(name);
  if (found == origins.end() ||
      !isTrained(value, found->second.kind == Kind::Function))
    return false;
  switch (found->second.kind) {
  case Kind::Detach:
    detached.push_back(name);
    return true;
  case Kind::NoGrad:
    withoutGrad.push_back(name);
    return true;
  case Kind::Region:
    ofRegions.push_back(name);
    return false;
  case Kind::Function:
    ofFunctions[found->second.function].push_back(name);
    return false;
  }
  llvm_unreachable("covered switch");
}

std::vector<std::string> LostGradients::getNotes() const {
  if (detached.empty())
    return {};
  return {
      "the program is decomposed (run_decompositions), which writes `alias` "
      "where the model has detach(): no gradient passes through " +
      groupNames(detached)};
}

std::vector<std::string> LostGradients::getWarnings() const {
  std::vector<std::string> warnings;
  if (!withoutGrad.empty())
    warnings.push_back(
        "the program is decomposed (run_decompositions), which has taken its "
        "torch.no_grad() regions apart: no gradient passes through what leaves "
        "them, " +
        groupNames(withoutGrad) +
        ". A region of torch.enable_grad() in a model that was exported under "
        "no_grad() looks the same; where it is one, export the model outside "
        "of no_grad()");
  if (!ofRegions.empty())
    warnings.push_back(warnOfRegion(ofRegions));
  for (const auto &[name, values] : ofFunctions)
    warnings.push_back(warnOfFunction(name, values));
  return warnings;
}

} // namespace polyrank::frontends::exported_program
