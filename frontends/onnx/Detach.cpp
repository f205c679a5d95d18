// Finds where no gradient passes, according to the exporter's metadata and to
// `--detach`.

#include "frontends/onnx/Detach.h"

#include "dialects/graph/NamePattern.h"
#include "frontends/import/Trace.h"
#include "frontends/onnx/Origin.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using polyrank::groupNames;

namespace polyrank::frontends::onnx {

namespace {

/// The tensor arguments of the operator, in order; other arguments are empty
/// names. Lists of tensors are flattened.
SmallVector<StringRef> argumentsOf(const Node &node) {
  StringRef text(find(node.metadata, "pkg.torch.onnx.fx_node"));
  text = text.split("(args = (").second.split("), kwargs = {").first;
  SmallVector<StringRef> parts, names;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    part = part.trim(" []()");
    names.push_back(part.consume_front("%") ? part : "");
  }
  return names;
}

/// True for `detach`, `detach_3` and so on.
bool isDetach(StringRef name) {
  if (!name.consume_front("detach"))
    return false;
  return name.empty() ||
         (name.consume_front("_") && !name.empty() && all_of(name, isDigit));
}

class Finder {
public:
  Finder(const Model &model, const ModelState &state) : model(model) {
    forEachNode(model.graph, [&](const Node &node) {
      ++calls[find(node.metadata, "pkg.torch.onnx.fx_node")];
      for (std::string_view output : node.outputs)
        if (!output.empty())
          producers[output] = &node;
      for (std::string_view input : node.inputs)
        users[input].push_back(&node);
    });
    for (const ValueInfo &value : model.graph.inputs)
      inputs.insert(value.name);
    for (const StoredTensor &tensor : model.graph.initializers)
      stored.insert(tensor.name);
    for (const auto &value : state.values)
      parameters[value.first()] = state.parameters[value.second.index].name;
    for (const Parameter &parameter : state.parameters)
      parameters[parameter.name] = parameter.name;
    for (const ValueInfo &value : model.graph.outputs)
      outputs.insert(value.name);
  }

  Detached run(ArrayRef<std::string> patterns) {
    forEachNode(model.graph, [&](const Node &node) { findLost(node); });
    for (auto [i, pattern] : enumerate(patterns))
      if (result.error.empty())
        match(pattern, i);
    warn();
    return std::move(result);
  }

private:
  /// Returns true if the graph has a value with the `name` used in a record.
  bool exists(StringRef name) const {
    return producers.contains(name) || inputs.contains(name) ||
           stored.contains(name);
  }

  void findLost(const Node &node) {
    SmallVector<StringRef> arguments = argumentsOf(node);
    for (auto [i, name] : enumerate(arguments)) {
      if (!isDetach(name) || exists(name))
        continue;
      // One of the nodes of this operator has it as an operand.
      std::string_view call = find(node.metadata, "pkg.torch.onnx.fx_node");
      if (auto operand = findOperand(node, arguments, i)) {
        result.operands.insert({&node, *operand});
        placed.insert(call);
      } else {
        unplaced.try_emplace(call, nameOf(node));
      }
      if (isMerged(node))
        merged.insert(nameOf(node));
    }
  }

  /// Returns true if the optimizer replaced an equal node by this one, whose
  /// operands may not have been detached. It shows in the records of users:
  /// they mention `mse_loss_2` where the operand is `mse_loss_1`.
  bool isMerged(const Node &node) {
    auto baseOf = [](StringRef name) {
      auto [base, number] = name.rsplit('_');
      return !number.empty() && all_of(number, isDigit) ? base : name;
    };
    for (std::string_view output : node.outputs)
      for (const Node *user : users[output])
        for (StringRef name : argumentsOf(*user))
          if (!exists(name) && name != StringRef(output) &&
              baseOf(name) == baseOf(StringRef(output)))
            return true;
    return false;
  }

  /// The operand of `node` that corresponds to argument `index` of its
  /// operator.
  std::optional<size_t>
  findOperand(const Node &node, ArrayRef<StringRef> arguments, size_t index) {
    // If the operator became a single node, its operands are in their order.
    bool inPlace = calls[find(node.metadata, "pkg.torch.onnx.fx_node")] == 1 &&
                   index < node.inputs.size();
    for (size_t i = 0; inPlace && i < arguments.size(); ++i) {
      StringRef name = arguments[i];
      if (name.empty()) {
        inPlace = i > index;
        break;
      }
      if (i >= node.inputs.size())
        break;
      StringRef input(node.inputs[i]);
      bool isState = name.starts_with("p_") || name.starts_with("b_");
      inPlace = producers.contains(name) || inputs.contains(name)
                    ? input == name
                    : stored.contains(input) == isState;
    }
    if (inPlace)
      return index;
    // Otherwise it is the only operand that the record does not name, if all
    // others are named.
    for (StringRef name : arguments)
      if ((producers.contains(name) || inputs.contains(name)) &&
          !is_contained(node.inputs, std::string_view(name)))
        return std::nullopt;
    std::optional<size_t> found;
    for (auto [i, input] : enumerate(node.inputs)) {
      auto producer = producers.find(StringRef(input));
      bool isOwn = producer != producers.end() &&
                   find(producer->second->metadata, "pkg.torch.onnx.fx_node") ==
                       find(node.metadata, "pkg.torch.onnx.fx_node");
      if (input.empty() || stored.contains(input) || isOwn ||
          is_contained(arguments, StringRef(input)))
        continue;
      if (found)
        return std::nullopt;
      found = i;
    }
    return found;
  }

  //===-- patterns ------------------------------------------------------===//

  void match(const std::string &pattern, size_t number) {
    auto fail = [&](const std::string &reason) {
      result.error = "--detach '" + pattern + "' " + reason;
    };
    if (std::string reason = graph::explainPattern(pattern); !reason.empty())
      return fail("is no pattern: " + reason);
    bool any = false;
    std::vector<std::string> names;
    StringSet<> modules;
    for (const Node &node : model.graph.nodes) {
      std::string scope = originOf(node).scope, matched;
      for (StringRef prefix = scope; !prefix.empty();
           prefix = prefix.contains('.') ? prefix.rsplit('.').first : "") {
        if (modules.insert(prefix).second)
          names.push_back(prefix.str());
        if (graph::matchesName(pattern, prefix))
          matched = prefix.str();
      }
      for (std::string_view output : node.outputs) {
        if (output.empty())
          continue;
        names.push_back(std::string(output));
        bool isMeant = graph::matchesName(pattern, output);
        any |= isMeant || !matched.empty();
        if (isMeant || (!matched.empty() && leaves(output, matched)))
          result.values.try_emplace(output, number);
      }
    }
    if (any)
      return;
    for (const auto &each : parameters)
      if (graph::matchesName(pattern, each.first()))
        return fail("names the parameter '" + each.second +
                    "'; --freeze keeps it as it is");
    for (const auto &input : inputs)
      if (graph::matchesName(pattern, input.first()))
        return fail("names the input '" + input.first().str() +
                    "', which has no gradient");
    fail("matches no module and no value" + nearestNames(pattern, names));
  }

  bool leaves(StringRef value, StringRef scope) {
    auto isOutside = [&](const Node *user) {
      std::string other = originOf(*user).scope;
      return other != scope && !StringRef(other).starts_with(scope.str() + ".");
    };
    return outputs.contains(value) || any_of(users[value], isOutside);
  }

  //===-- what cannot be known ------------------------------------------===//

  static std::string nameOf(const Node &node) {
    return std::string(node.outputs.empty() ? node.name : node.outputs[0]);
  }

  void warn() {
    // By origin; regions have no name.
    std::map<std::string, std::set<const Node *>> made;
    size_t others = 0;
    for (const Node &node : model.graph.nodes) {
      SmallVector<Frame> frames =
          framesOf(find(node.metadata, "pkg.torch.onnx.stack_trace"));
      if (isOfRegion(frames))
        made[""].insert(&node);
      else if (!frames.empty())
        ++others;
      if (StringRef name = functionOf(frames); !name.empty())
        made[name.str()].insert(&node);
    }
    // In a model that was a graph of operators before the export, every node
    // has such a trace.
    if (others == 0)
      made.erase("");
    for (const auto &[name, nodes] : made) {
      std::vector<std::string> leaving;
      for (const Node &node : model.graph.nodes)
        for (std::string_view output : node.outputs) {
          bool isLast = outputs.contains(output) ||
                        any_of(users[output], [&](const Node *user) {
                          return !nodes.count(user);
                        });
          if (nodes.count(&node) && isLast && node.type != "Constant" &&
              !result.values.contains(output))
            leaving.push_back(std::string(output));
        }
      if (leaving.empty())
        continue;
      result.warnings.push_back(name.empty() ? warnOfRegion(leaving)
                                             : warnOfFunction(name, leaving));
    }
    std::vector<std::string> lost(merged.begin(), merged.end());
    for (const auto &[call, name] : unplaced)
      if (!placed.count(call) && !merged.count(name))
        lost.push_back(name);
    if (!lost.empty())
      result.warnings.push_back(
          "the exporter's optimizer has taken a detach() out of the model, or "
          "merged what has one with what has none, and the file does not say "
          "where, in front of " +
          groupNames(lost) +
          ": gradients are not those of the model; export it with "
          "optimize=False");
  }

  const Model &model;
  StringMap<const Node *> producers;
  StringMap<SmallVector<const Node *>> users;
  StringSet<> inputs, stored, outputs;
  StringMap<std::string> parameters;
  std::map<std::string_view, size_t> calls; // number of nodes of each call
  // The calls with an operand that was detached: those where it was found, and
  // those where it was not.
  std::set<std::string_view> placed;
  std::map<std::string_view, std::string> unplaced;
  std::set<std::string> merged;
  Detached result;
};

} // namespace

Detached findDetached(const Model &model, const ModelState &state,
                      ArrayRef<std::string> patterns) {
  return Finder(model, state).run(patterns);
}

} // namespace polyrank::frontends::onnx
