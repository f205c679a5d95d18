// Tells the model's state (parameters and buffers) from its constants.

#include "frontends/onnx/Parameters.h"

#include "dialects/graph/NamePattern.h"
#include "frontends/onnx/ChangedBuffers.h"
#include "frontends/onnx/EqualMatrices.h"
#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/FoldedConstants.h"
#include "frontends/onnx/FoldedGates.h"
#include "frontends/onnx/FoldedNorms.h"
#include "frontends/onnx/LeftOutBiases.h"
#include "frontends/onnx/MergedParameters.h"
#include "frontends/onnx/NamedParameters.h"
#include "frontends/onnx/Origin.h"
#include "frontends/onnx/OtherExporters.h"
#include "frontends/onnx/RenamedWeights.h"
#include "frontends/onnx/StateReport.h"
#include "frontends/onnx/UnusedNames.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

enum class Role { Parameter, Buffer, Constant };

/// Returns true for classes of layers that own their parameter: Embedding,
/// Linear, Conv1D, and classes derived from them with such a name.
bool isLayer(StringRef moduleClass) {
  StringRef name = moduleClass.rsplit('.').second;
  return moduleClass.starts_with("torch.nn.modules.") ||
         name.contains("Embedding") || name.contains("Linear") ||
         name.contains("Conv1D");
}

class StateFinder {
public:
  StateFinder(const Model &model, const NamedTensors *named, bool tie,
              ArrayRef<std::string> trainOnly)
      : model(model), named(named), tie(tie), trainOnly(trainOnly),
        record(model) {}

  ModelState find() {
    forEachNode(model.graph, [&](const Node &node) {
      for (auto [i, input] : enumerate(node.inputs))
        consumers[input].push_back({&node, i});
    });
    std::vector<const StoredTensor *> others;
    for (const StoredTensor &tensor : model.graph.initializers)
      if (Role role = roleOf(tensor); role != Role::Constant)
        add(tensor, role);
      else if (isFloat(tensor.type) && !tensor.dims.empty())
        others.push_back(&tensor);
    for (const Node &node : model.graph.nodes) {
      if (node.type == "Identity" && node.domain.empty() && !record.hasRoles())
        untie(node);
      else
        addAliases(node);
    }
    std::optional<NamedParameters> parameters;
    if (named) {
      parameters.emplace(model, record, consumers, *named, tie, state);
      parameters->identify(others);
    }
    if (!record.hasRoles())
      freezeStatistics();
    for (const StoredTensor *tensor : others)
      if (!isFound(*tensor))
        recoverWeight(model, record, consumers, *tensor, tie, state);
    separateMerged(model, record, consumers, state);
    recoverBiases(model, record, state);
    recoverGates(model, record, state);
    if (parameters)
      parameters->addMissing();
    adoptUnused(model, record, state);
    if (parameters) {
      recoverNorms(model, record, *named, *parameters, state);
    }
    recoverFolded(model, record, consumers,
                  parameters ? parameters->getMissing() : ArrayRef<size_t>(),
                  state);
    findChangedBuffers(model, record, consumers, state);
    addWanted();
    if (parameters) {
      warnOfRemoved(model, record, state);
      parameters->finish();
    } else {
      reportState(model, record, state);
    }
    return std::move(state);
  }

private:
  /// Returns true if the parameter file has identified it, for all of its uses.
  bool isFound(const StoredTensor &tensor) const {
    return state.values.contains(tensor.name) ||
           all_of(consumers.lookup(tensor.name), [&](auto use) {
             return state.operands.contains({use.first, use.second});
           });
  }

  /// Makes parameters of the constants that `--train-only` names: any constant
  /// by its own name and, if the file does not tell what is a parameter,
  /// constants of several elements by a pattern.
  void addWanted() {
    for (const StoredTensor &tensor : model.graph.initializers) {
      if (!isFloat(tensor.type) || state.folded.contains(tensor.name) ||
          isFound(tensor))
        continue;
      bool isAny = !record.hasRoles() && tensor.numElements() > 1;
      if (any_of(trainOnly, [&](StringRef pattern) {
            return pattern == StringRef(tensor.name) ||
                   (isAny && graph::matchesName(pattern, tensor.name));
          }))
        add(tensor, Role::Parameter);
    }
  }

  Role roleOf(const StoredTensor &tensor) {
    Role role = roleByRecord(tensor);
    // A float tensor without elements is not a constant, whatever its role.
    return tensor.isAbsent && role == Role::Constant && isFloat(tensor.type)
               ? Role::Buffer
               : role;
  }

  Role roleByRecord(const StoredTensor &tensor) {
    if (const StateEntry *entry = record.findRole(tensor.name))
      return toRole(*entry);
    if (!record.hasRoles())
      return isFloat(tensor.type) && !tensor.dims.empty() &&
                     !isMadeUp(model, tensor.name) && !isSetting(tensor)
                 ? Role::Parameter
                 : Role::Constant;
    // An optimizer replaced it under its name, so its description is lost.
    const StateEntry *entry = record.findState(tensor.name);
    return entry && record.getSources(tensor.name).empty() ? toRole(*entry)
                                                           : Role::Constant;
  }

  /// Returns true if it only configures nodes: the scales of a Resize.
  bool isSetting(const StoredTensor &tensor) {
    auto isScale = [](std::pair<const Node *, size_t> consumer) {
      auto [node, operand] = consumer;
      return operand > 0 &&
             (node->type == "Resize" || node->type == "Upsample");
    };
    auto uses = consumers.find(tensor.name);
    return uses != consumers.end() && all_of(uses->second, isScale);
  }

  static Role toRole(const StateEntry &entry) {
    if (entry.kind == StateEntry::Kind::Parameter)
      return Role::Parameter;
    return entry.kind == StateEntry::Kind::Buffer && entry.persistent
               ? Role::Buffer
               : Role::Constant;
  }

  void add(const StoredTensor &tensor, Role role) {
    std::string name(tensor.name);
    if (tensor.span && tensor.span->length > 0) {
      auto key = std::make_tuple(tensor.span->path, tensor.span->offset,
                                 tensor.span->length, tensor.type, tensor.dims);
      auto [known, isNew] = spans.try_emplace(key, state.parameters.size());
      if (!isNew) {
        state.parameters[known->second].aliases.push_back(name);
        state.values[name] = {known->second};
        return;
      }
    }
    // Shapes and masks are computed from integers, unless forward changes them.
    if (role == Role::Parameter || isFloat(tensor.type) ||
        isChanged(model, record, name))
      state.values[name] = {state.parameters.size()};
    state.parameters.push_back(
        {&tensor, name, {}, role == Role::Parameter && isFloat(tensor.type)});
  }

  void untie(const Node &node) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1 ||
        isMadeUp(model, node.outputs[0]))
      return;
    auto source = state.values.find(StringRef(node.inputs[0]));
    if (source == state.values.end())
      return;
    std::string name(node.outputs[0]);
    size_t index = source->second.index;
    const StoredTensor *tensor = state.parameters[index].tensor;
    if (tensor->dims.size() >= 2 && !isConstant(model, *tensor)) {
      state.parameters[index].aliases.push_back(name);
      state.values[name] = {index};
      return;
    }
    state.values[name] = {state.parameters.size()};
    state.parameters.push_back({tensor, name, {}, true});
  }

  /// In a file that does not tell which tensors are buffers, only the running
  /// statistics of batch norm can be recognised.
  void freezeStatistics() {
    forEachNode(model.graph, [&](const Node &node) {
      if (node.type == "BatchNormalization" && node.domain.empty())
        for (size_t i = 3; i < node.inputs.size(); ++i)
          if (auto value = state.values.find(StringRef(node.inputs[i]));
              value != state.values.end())
            state.parameters[value->second.index].trainable = false;
    });
  }

  /// In a file without class names, returns true if `node` is a layer with that
  /// operand as its weight: an Embedding, a Linear or a convolution.
  bool isLayersWeight(const Node &node, size_t operand, StringRef scope) {
    if (node.type == "Gather")
      return operand == 0;
    if (node.type == "Gemm" || node.type == "Conv" ||
        node.type == "ConvTranspose")
      return operand == 1;
    if (node.type != "Transpose")
      return false;
    auto uses = consumers.find(node.outputs[0]);
    return uses != consumers.end() &&
           all_of(uses->second, [&](std::pair<const Node *, size_t> use) {
             return use.first->type == "MatMul" && use.second == 1 &&
                    originOf(*use.first).scope == scope;
           });
  }

  /// Returns true if `module` results from `scope` when repeated parts, such as
  /// "layers" in "layers.layers.0", are merged.
  static bool repeats(StringRef scope, StringRef module) {
    SmallVector<StringRef> parts;
    scope.split(parts, '.');
    std::string kept;
    for (auto [i, part] : enumerate(parts))
      if (i + 1 == parts.size() || parts[i + 1] != part)
        kept += (kept.empty() ? "" : ".") + part.str();
    return kept == module;
  }

  void addAliases(const Node &node) {
    for (auto [operand, input] : enumerate(node.inputs)) {
      auto found = state.values.find(StringRef(input));
      if (found == state.values.end())
        continue;
      Parameter &parameter = state.parameters[found->second.index];
      auto [module, leaf] = StringRef(parameter.name).rsplit('.');
      Origin origin = originOf(node);
      if (leaf.empty() || origin.scope.empty() || origin.scope == module ||
          module.starts_with(origin.scope + ".") ||
          state.values.contains(origin.scope + "." + leaf.str()))
        continue;
      // A file without class names repeats the name of a Sequential in the
      // paths of its parts, "layers.layers.0": the path of the module has it
      // only once.
      if (origin.moduleClass.empty() && repeats(origin.scope, module))
        continue;
      std::string alias = origin.scope + "." + leaf.str();
      // The model's own list of its state decides if there is one, else the
      // kind of module.
      bool exists =
          !record.getState().empty() ? record.findState(alias) != nullptr
          : origin.moduleClass.empty()
              ? leaf == "weight" && isLayersWeight(node, operand, origin.scope)
              : isLayer(origin.moduleClass);
      // The record always uses the same name for a tied parameter; but for a
      // parameter that was merged with an equal one it uses that parameter's
      // own name.
      FxCall call = record.callOf(node);
      bool isMerged = any_of(call.arguments, [&](const StateEntry *entry) {
        return entry && entry->name == alias;
      });
      if (exists && !isMerged && !is_contained(parameter.aliases, alias))
        parameter.aliases.push_back(alias);
    }
  }

  const Model &model;
  const NamedTensors *named;
  const bool tie;
  ArrayRef<std::string> trainOnly;
  const ExportRecord record;
  ModelState state;
  Consumers consumers;
  std::map<std::tuple<std::string, uint64_t, uint64_t, ElementType,
                      std::vector<int64_t>>,
           size_t>
      spans;
};

} // namespace

std::optional<size_t> ModelState::find(StringRef name) const {
  for (auto [index, parameter] : enumerate(parameters))
    if (parameter.name == name || is_contained(parameter.aliases, name))
      return index;
  return std::nullopt;
}

ModelState findState(const Model &model, bool tie, const NamedTensors *named,
                     ArrayRef<std::string> trainOnly) {
  return StateFinder(model, named, tie, trainOnly).find();
}

} // namespace polyrank::frontends::onnx
