// Imports the nodes of a model and of the functions that they call.

#include "frontends/onnx/GraphImporter.h"

#include "frontends/emit/Integers.h"
#include "frontends/onnx/Origin.h"

using namespace mlir;
using namespace polyrank::frontends;
using namespace polyrank::frontends::onnx;

static constexpr int maxCallDepth = 16;

void onnx::forEachUse(const Node &node,
                      function_ref<void(std::string_view)> callback) {
  for (std::string_view input : node.inputs)
    callback(input);
  for (const onnx::Attribute &attribute : node.attributes)
    if (attribute.g) {
      for (const Node &inner : attribute.g->nodes)
        forEachUse(inner, callback);
      for (const ValueInfo &output : attribute.g->outputs)
        callback(output.name);
    }
}

void GraphImporter::run(Scope &values, ArrayRef<std::string> kept) {
  for (const Node &node : model.graph.nodes)
    forEachUse(node, [&](std::string_view name) { ++uses[name]; });
  for (const ValueInfo &output : model.graph.outputs)
    ++uses[output.name];
  for (const std::string &name : kept)
    ++uses[name];
  remaining = uses;
  importNodes(model.graph.nodes, values, {opsets});
}

LogicalResult GraphImporter::report(Location location) const {
  if (importedNodes > maxNodes)
    return emitError(location)
           << "the model has more than " << maxNodes
           << " nodes once calls of its functions are replaced by their "
              "bodies, and loops by their turns";
  return failures.report(location, options.unsupported);
}

void GraphImporter::importNodes(const std::vector<Node> &nodes, Scope &scope,
                                Place place) {
  StringSet<> computed;
  for (const Node &written : nodes) {
    const Node &node = resolve(written, place);
    if (++importedNodes > maxNodes)
      return; // `report` gives the error
    // This Identity separates a merged parameter.
    if (place.isModel() && node.type == "Identity" &&
        node.outputs.size() == 1 && held.contains(node.outputs[0]))
      continue;
    if (place.isModel() && masked.parts.contains(&written))
      continue;
    auto scatter = place.isModel() ? masked.scatters.find(&written)
                                   : masked.scatters.end();
    bool isMasked = scatter != masked.scatters.end();
    auto operands = isMasked ? operandsOf(node, scatter->second, nodes, scope)
                             : operandsOf(node, nodes, scope);
    for (std::string_view name : node.outputs) {
      if (!name.empty() &&
          (!computed.insert(name).second || scope.contains(name))) {
        fail(node, "computes `" + std::string(name) +
                       "`, which is the name of an input, a weight or "
                       "another node's result; export the model again");
        operands.reset();
      }
      scope[name] = Imported();
    }
    if (const Function *function = model.findFunction(node)) {
      if (operands)
        importCall(node, *function, *operands, scope, place);
    } else if (isControlFlow(node.domain, node.type)) {
      if (operands)
        importControlFlow(node, *operands, scope, place);
    } else {
      auto opset = place.opsets.find(node.domain);
      const OpRow *row = opset == place.opsets.end()
                             ? nullptr
                             : findRow(node.domain, node.type, opset->second);
      if (!row)
        failures.addUnsupported(node, opsets);
      else if (operands)
        importNode(node, isMasked ? getMaskedScatterRow() : *row, *operands,
                   scope);
    }
    if (!place.isModel())
      continue;
    detachResults(node, scope);
    // Values that were computed for shapes and masks are freed after their last
    // use.
    forEachUse(node, [&](std::string_view name) {
      if (--remaining[name] == 0)
        scope.erase(name);
    });
  }
}

std::optional<Imported> GraphImporter::operandOf(const Node &node, size_t i,
                                                 const std::vector<Node> &nodes,
                                                 const Scope &scope) {
  std::string_view name = node.inputs[i];
  if (name.empty())
    return Imported();
  auto found = scope.find(StringRef(name));
  if (found == scope.end()) {
    fail(node, explainMissing(nodes, node, name));
    return std::nullopt;
  }
  // Empty: the node that computes it has failed and was reported.
  if (!found->second)
    return Imported();
  auto other = replaced.find({&node, i});
  Imported operand = other == replaced.end() ? found->second : other->second;
  if (detached.operands.count({&node, i})) {
    Origin origin = originOf(node);
    emit.setOrigin(locationOf(emit.getLocation().getContext(), node, origin),
                   origin.scope);
    operand = detach(operand);
  }
  return operand;
}

std::optional<SmallVector<Imported>>
GraphImporter::operandsOf(const Node &node, const std::vector<Node> &nodes,
                          const Scope &scope) {
  SmallVector<Imported> operands;
  bool complete = true;
  for (auto [i, name] : llvm::enumerate(node.inputs)) {
    auto operand = operandOf(node, i, nodes, scope);
    if (!operand)
      return std::nullopt;
    complete &= name.empty() || bool(*operand);
    operands.push_back(std::move(*operand));
  }
  // An operand that the exporter left out.
  if (auto other = replaced.find({&node, operands.size()});
      other != replaced.end())
    operands.push_back(other->second);
  return complete ? std::optional(std::move(operands)) : std::nullopt;
}

/// The tensor to be written, the mask, and the source.
std::optional<SmallVector<Imported>>
GraphImporter::operandsOf(const Node &scatter, const MaskedScatter &masked,
                          const std::vector<Node> &nodes, const Scope &scope) {
  SmallVector<Imported> operands;
  for (const Node *node : {&scatter, masked.nonZero, masked.slice}) {
    auto operand = operandOf(*node, 0, nodes, scope);
    if (!operand || !*operand)
      return std::nullopt;
    operands.push_back(std::move(*operand));
  }
  if (detached.operands.count({&scatter, 2}))
    operands.back() = detach(operands.back());
  return operands;
}

/// Says why there is no value called `name` when `node`, one of `nodes`, is
/// imported.
std::string GraphImporter::explainMissing(const std::vector<Node> &nodes,
                                          const Node &node,
                                          std::string_view name) {
  std::string text = "uses `" + std::string(name) + "`, ";
  if (failures.getNumReasons() > Failures::maxReasons)
    return text + "which nothing before it computes"; // the report does not
                                                      // show it anyway
  std::map<std::string_view, const Node *> producers;
  for (const Node &each : nodes)
    for (std::string_view output : each.outputs)
      producers.try_emplace(output, &each);
  if (!producers.count(name))
    return text + "which is no input, no weight and no node's result";
  // Does the node that computes it depend on this node?
  std::vector<std::string_view> pending = {name};
  std::set<std::string_view> seen;
  while (!pending.empty()) {
    std::string_view next = pending.back();
    pending.pop_back();
    auto found = producers.find(next);
    if (found == producers.end() || !seen.insert(next).second)
      continue;
    if (found->second->outputs == node.outputs)
      return text + "which is computed from its own result `" +
             std::string(next) + "`: the graph has a cycle";
    llvm::append_range(pending, found->second->inputs);
  }
  return text + "which only a later node, `" +
         std::string(producers[name]->name) +
         "`, computes; sort the nodes, or export the model again";
}

/// Returns true for ops whose results may exceed the range of their operands.
static bool mayOverflow(StringRef type) {
  return llvm::is_contained({"Add", "Sub", "Mul", "Div", "Neg", "Abs", "Pow",
                             "Mod", "Sum", "ReduceSum", "ReduceProd", "CumSum",
                             "BitShift", "BitwiseNot", "Cast", "CastLike"},
                            type);
}

/// Wraps `result` to the range of `type`, if the node's elements are integers
/// of such a type.
static Imported hold(Emitter &emit, Imported result, const Node &node,
                     IntegerType type) {
  if (!type || (!result.value && !result.constant) ||
      !result.getElementType().isSignlessInteger(type.getWidth() <= 16 ? 32
                                                                       : 64))
    return result;
  if (mayOverflow(node.type))
    result = wrapAround(emit, result, type);
  result.held = type;
  return result;
}

/// Says why an op on uint64 cannot be computed on the bits as int64.
static std::string whyNotOfUint64(const Node &node,
                                  ArrayRef<Imported> operands) {
  if (llvm::none_of(operands, [](const Imported &operand) {
        return isUint64(operand.held);
      }))
    return "";
  bool isOrdered = llvm::is_contained(
      {"Div", "Mod", "Max", "Min", "Less", "LessOrEqual", "Greater",
       "GreaterOrEqual", "Pow", "Clip", "ArgMax", "ArgMin", "ReduceMax",
       "ReduceMin", "Abs", "Sign", "Relu"},
      StringRef(node.type));
  if (node.type == "Cast")
    for (const onnx::Attribute &attribute : node.attributes)
      isOrdered |= attribute.name == "to" && isFloat(typeOfNumber(attribute.i));
  return isOrdered ? "of uint64, whose values above 2^63 have no int64; "
                     "convert it to int64"
                   : "";
}

void GraphImporter::importNode(const Node &node, const OpRow &row,
                               ArrayRef<Imported> operands, Scope &scope) {
  if (node.outputs.empty())
    return fail(node, "it has no output");
  Origin origin = originOf(node);
  emit.setOrigin(locationOf(emit.getLocation().getContext(), node, origin),
                 origin.scope);
  if (std::string reason = whyNotOfUint64(node, operands); !reason.empty())
    return fail(node, reason);
  NodeImporter importer(emit, options, model, node, row.since, operands);
  LogicalResult imported = row.import(importer);
  std::string rejected = emit.takeError();
  if (failed(imported))
    return fail(node, importer.getReason().empty()
                          ? rejected
                          : importer.getReason().str());
  if (!rejected.empty())
    return fail(node, rejected);
  for (auto [name, result] : llvm::zip(node.outputs, importer.getResults())) {
    if (name.empty())
      continue;
    if (!result && uses[name] > 0)
      return fail(node,
                  "its result `" + std::string(name) + "` is not supported");
    scope[name] =
        hold(emit, result, node,
             heldTypeOf(emit.getLocation().getContext(), node, operands));
  }
}

const Node &GraphImporter::resolve(const Node &written, Place place) {
  if (!place.call)
    return written;
  auto [entry, isNew] = resolved.try_emplace({&written, place.call}, written);
  Node &node = entry->second;
  if (!isNew)
    return node;
  if (find(node.metadata, "pkg.torch.onnx.name_scopes").empty())
    node.metadata = place.call->metadata;
  const std::vector<std::string_view> &given = place.call->inputs;
  for (std::string_view &input : node.inputs)
    for (auto [i, name] : llvm::enumerate(place.function->inputs))
      if (input == name && (i >= given.size() || given[i].empty()))
        input = "";
  std::erase_if(node.attributes, [&](onnx::Attribute &attribute) {
    if (attribute.reference.empty())
      return false;
    for (const auto *values :
         {&place.call->attributes, &place.function->defaults})
      for (const onnx::Attribute &each : *values)
        if (each.name == attribute.reference) {
          std::string_view name = attribute.name;
          attribute = each;
          attribute.name = name;
          return false;
        }
    return true; // an attribute that neither has is left out
  });
  return node;
}

void GraphImporter::importCall(const Node &call, const Function &function,
                               ArrayRef<Imported> operands, Scope &scope,
                               Place place) {
  if (place.calls == maxCallDepth)
    return fail(call, "functions call each other more than " +
                          std::to_string(maxCallDepth) + " deep");
  auto functionOpsets = toOpsets(emit.getLocation(), function.opsets);
  if (failed(functionOpsets))
    return fail(call, "the function's opset is not supported");
  Scope inner;
  for (auto [i, name] : llvm::enumerate(function.inputs))
    inner[name] = i < operands.size() ? operands[i] : Imported();
  for (const Node &node : function.nodes)
    forEachUse(node, [&](std::string_view name) { ++uses[name]; });
  for (std::string_view output : function.outputs)
    ++uses[output];
  importNodes(
      function.nodes, inner,
      {*functionOpsets, &call, &function, place.calls + 1, place.graphs});
  for (auto [name, output] : llvm::zip(call.outputs, function.outputs))
    if (auto found = inner.find(StringRef(output)); found != inner.end())
      scope[name] = found->second;
}

/// Stops the gradient of `x`, if it could have one.
Imported GraphImporter::detach(const Imported &x) {
  return x.value && isa<FloatType>(x.getElementType())
             ? emit.unary<graph::DetachOp>(x)
             : x;
}

/// Detaches the results of a node that patterns match.
void GraphImporter::detachResults(const Node &node, Scope &scope) {
  for (std::string_view name : node.outputs) {
    auto found = detached.values.find(StringRef(name));
    if (found == detached.values.end())
      continue;
    Imported &value = scope[name];
    if (!value.value || !isa<FloatType>(value.getElementType()))
      continue;
    value = detach(value);
    isDetached[found->second] = true;
  }
}
