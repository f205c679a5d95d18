// Tells the model's state (parameters and buffers) from its constants.

#include "frontends/onnx/Parameters.h"

#include "frontends/onnx/EqualMatrices.h"
#include "frontends/onnx/ExportRecord.h"
#include "frontends/onnx/FoldedConstants.h"
#include "frontends/onnx/LeftOutBiases.h"
#include "frontends/onnx/Origin.h"
#include "frontends/onnx/StateReport.h"
#include "support/Names.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

enum class Role { Parameter, Buffer, Constant };

/// Names such as `val_12`, `onnx::MatMul_34`, `/h.0/Constant_output_0`, `17`.
bool isMadeUp(StringRef name) {
  if (name.contains("::") || name.contains('/') || name.empty())
    return true;
  StringRef digits = name;
  digits.consume_front("val_");
  return all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

/// A layer that has the parameter as its own: Embedding, Linear, Conv1D, and
/// what derives from them under such a name.
bool isLayer(StringRef moduleClass) {
  StringRef name = moduleClass.rsplit('.').second;
  return moduleClass.starts_with("torch.nn.modules.") ||
         name.contains("Embedding") || name.contains("Linear") ||
         name.contains("Conv1D");
}

StringRef leafOf(StringRef name) {
  return name.contains('.') ? name.rsplit('.').second : name;
}
StringRef moduleOf(StringRef name) {
  return name.contains('.') ? name.rsplit('.').first : "";
}
std::string join(StringRef scope, StringRef leaf) {
  return scope.empty() ? leaf.str() : (scope + "." + leaf).str();
}

class StateFinder {
public:
  StateFinder(const Model &model, bool tie)
      : model(model), tie(tie), record(model) {}

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
    if (!record.hasRoles())
      freezeStatistics();
    for (const StoredTensor *tensor : others)
      recover(*tensor);
    forEachNode(model.graph, [&](const Node &node) { takeApart(node); });
    recoverBiases(model, record, state);
    adoptUnused();
    recoverFolded(model, record, state);
    reportState(model, record, state);
    return std::move(state);
  }

private:
  Role roleOf(const StoredTensor &tensor) {
    Role role = roleByRecord(tensor);
    // A float without elements is no constant, whatever it was.
    return tensor.isAbsent && role == Role::Constant && isFloat(tensor.type)
               ? Role::Buffer
               : role;
  }

  Role roleByRecord(const StoredTensor &tensor) {
    if (const StateEntry *entry = record.findRole(tensor.name))
      return toRole(*entry);
    if (!record.hasRoles())
      return isFloat(tensor.type) && !tensor.dims.empty() &&
                     !isMadeUp(tensor.name) && !isSetting(tensor)
                 ? Role::Parameter
                 : Role::Constant;
    // Its description is lost, since an optimizer replaced it under its name.
    const StateEntry *entry = record.findState(tensor.name);
    return entry && record.getSources(tensor.name).empty() ? toRole(*entry)
                                                           : Role::Constant;
  }

  /// Whether it only says what nodes do: the scales of a Resize.
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
    if (role == Role::Parameter || isFloat(tensor.type))
      state.values[name] = {state.parameters.size()};
    state.parameters.push_back(
        {&tensor, name, {}, role == Role::Parameter && isFloat(tensor.type)});
  }

  void untie(const Node &node) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1 ||
        isMadeUp(node.outputs[0]))
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

  /// A file that does not say what is a buffer shows it of batch norm's running
  /// statistics alone.
  void freezeStatistics() {
    forEachNode(model.graph, [&](const Node &node) {
      if (node.type == "BatchNormalization" && node.domain.empty())
        for (size_t i = 3; i < node.inputs.size(); ++i)
          if (auto value = state.values.find(StringRef(node.inputs[i]));
              value != state.values.end())
            state.parameters[value->second.index].trainable = false;
    });
  }

  /// Whether a file that does not name classes shows a layer in `node` which
  /// has that operand as its weight: an Embedding, a Linear or a convolution.
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

  /// Whether leaving out parts of `scope` that the next part repeats, as "layers"
  /// in "layers.layers.0", gives `module`.
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
      // A file that does not name classes calls the parts of a Sequential by its
      // name once more, "layers.layers.0": then the path without it is the module's.
      if (origin.moduleClass.empty() && repeats(origin.scope, module))
        continue;
      std::string alias = origin.scope + "." + leaf.str();
      // The model's own list of its state knows, else the kind of module.
      bool exists =
          !record.getState().empty() ? record.findState(alias) != nullptr
          : origin.moduleClass.empty()
              ? leaf == "weight" && isLayersWeight(node, operand, origin.scope)
              : isLayer(origin.moduleClass);
      // The record calls a tied parameter by one name everywhere; one that was
      // merged with an equal one it calls by its own.
      FxCall call = record.callOf(node);
      bool isMerged = any_of(call.arguments, [&](const StateEntry *entry) {
        return entry && entry->name == alias;
      });
      if (exists && !isMerged && !is_contained(parameter.aliases, alias))
        parameter.aliases.push_back(alias);
    }
  }

  //===-- what an optimizer renamed --------------------------------------===//

  /// The weight of a linear layer, under a made-up name and transposed.
  struct Recovered {
    std::string name;
    std::string scope;    // of the module that uses it
    bool isNamed = false; // by the exporter's record of the operator
    bool transposed = false;
  };

  std::optional<Recovered> recognise(const StoredTensor &tensor) {
    for (auto [node, operand] : consumers[tensor.name]) {
      if (!node->domain.empty())
        continue;
      FxCall call = record.callOf(*node);
      Origin origin = originOf(*node);
      bool isLinear =
          node->type == "MatMul" && operand == 1 && tensor.dims.size() == 2;
      if (isLinear && call.isLinear() && call.arguments.size() >= 2 &&
          call.arguments[1])
        return Recovered{call.arguments[1]->name, origin.scope, true, true};
      // Elsewhere the module tells: by its class, or, in older exports, that
      // the exporter named what it computed after the operator.
      bool isOld = StringRef(tensor.name).starts_with("onnx::");
      if (isLinear && call.target.empty() && !origin.scope.empty() &&
          (isOld || StringRef(origin.moduleClass).ends_with("Linear")))
        return Recovered{join(origin.scope, "weight"), origin.scope, false,
                         true};
      if (node->type != "Conv" || operand == 0)
        continue;
      // What a convolution has become together with its batch norm.
      if (isOld && !origin.scope.empty())
        return Recovered{join(origin.scope, operand == 1 ? "weight" : "bias"),
                         origin.scope, false, false};
      StringRef weight(node->inputs[1]);
      if (operand == 2 && state.values.contains(weight) &&
          record.findState(weight))
        return Recovered{join(moduleOf(weight), "bias"), moduleOf(weight).str(),
                         true, false};
    }
    return std::nullopt;
  }

  void recover(const StoredTensor &tensor) {
    std::optional<Recovered> found = recognise(tensor);
    if (!found)
      return;
    std::string name = found->name;
    Parameter parameter{&tensor, name, {}, true, found->transposed};
    if (tensor.dims.size() == 2) {
      std::optional<size_t> original = findOriginal(tensor, *found);
      if (original) {
        ++state.copies;
        Parameter &same = state.parameters[*original];
        bool transposed = found->transposed != same.transposed;
        if (tie) {
          if (same.name != name && !is_contained(same.aliases, name))
            same.aliases.push_back(name);
          state.notes.push_back(
              "`" + std::string(tensor.name) + "` is a " +
              (transposed ? "transposed " : "") + "copy of `" + same.name +
              "`: they are one parameter again (--no-tie keeps them apart)");
          state.values[tensor.name] = {*original, found->transposed};
          return;
        }
        takeNames(same, *found, parameter);
      } else if (auto other = findParameter(name)) {
        takeNames(state.parameters[*other], *found, parameter);
        state.notes.push_back("`" + std::string(tensor.name) +
                              "` was a copy of `" + name +
                              "` when the model was exported, but now has "
                              "other values: it is a parameter of its own, `" +
                              parameter.name + "`");
      }
    }
    if (findParameter(parameter.name)) { // it keeps the name that it has
      parameter.name = tensor.name;
      parameter.transposed = false;
    }
    state.values[tensor.name] = {state.parameters.size(), parameter.transposed};
    state.parameters.push_back(parameter);
  }

  /// The parameter of which `tensor` is a copy. Where the exporter says which
  /// parameter it is, no other is looked at.
  std::optional<size_t> findOriginal(const StoredTensor &tensor,
                                     const Recovered &found) {
    for (auto [index, parameter] : enumerate(state.parameters)) {
      const StoredTensor &other = *parameter.tensor;
      bool isNamed = parameter.name == found.name ||
                     is_contained(parameter.aliases, found.name);
      if (isNamed ? &other == &tensor : found.isNamed)
        continue;
      if (other.dims.size() == 2 &&
          areEqual(model, other, tensor,
                   parameter.transposed != found.transposed) &&
          !isConstant(model, tensor))
        return index;
    }
    return std::nullopt;
  }

  std::optional<size_t> findParameter(StringRef name) {
    for (auto [index, parameter] : enumerate(state.parameters))
      if (parameter.name == name || is_contained(parameter.aliases, name))
        return index;
    return std::nullopt;
  }

  /// Two parameters that were one share out its names: each gets that of the
  /// module which uses it.
  static void takeNames(Parameter &original, const Recovered &found,
                        Parameter &copy) {
    std::string own = join(found.scope, leafOf(found.name));
    if (original.name == own && !original.aliases.empty()) {
      original.name = original.aliases.front();
      original.aliases.erase(original.aliases.begin());
      copy.name = own;
    } else if (is_contained(original.aliases, own)) {
      erase(original.aliases, own);
      copy.name = own;
    }
  }

  //===-- what an optimizer merged ---------------------------------------===//

  /// Where the record of a node names state that the file lacks, and an operand
  /// is a parameter that the record does not name: that is the one whose values
  /// were equal.
  void takeApart(const Node &node) {
    FxCall call = record.callOf(node);
    // A node that stands for several has the record of one of them.
    if (none_of(call.arguments, [](const StateEntry *e) { return e; }) ||
        record.isRewritten(node))
      return;
    auto isNamed = [&](const Parameter &parameter) {
      return any_of(call.arguments, [&](const StateEntry *entry) {
        return entry && (entry->name == parameter.name ||
                         is_contained(parameter.aliases, entry->name));
      });
    };
    for (auto [i, input] : enumerate(node.inputs)) {
      auto value = state.values.find(StringRef(input));
      if (value == state.values.end())
        continue;
      ParameterUse use = value->second;
      const Parameter merged = state.parameters[use.index];
      if (isNamed(merged))
        continue;
      const StateEntry *meant = nullptr;
      auto consider = [&](const StateEntry *entry) {
        if (!entry || entry == meant)
          return false;
        auto known = findParameter(entry->name);
        return !known || state.parameters[*known].tensor == merged.tensor;
      };
      // The same place, else the same kind (weight, bias), else the only one.
      if (call.arguments.size() == node.inputs.size() &&
          !call.target.starts_with("aten.addmm") && consider(call.arguments[i]))
        meant = call.arguments[i];
      SmallVector<const StateEntry *> all, alike;
      for (const StateEntry *entry : call.arguments) {
        if (meant || !consider(entry))
          continue;
        all.push_back(entry);
        if (leafOf(entry->name) == leafOf(merged.name))
          alike.push_back(entry);
      }
      if (!meant && alike.size() == 1)
        meant = alike.front();
      if (!meant && all.size() == 1)
        meant = all.front();
      if (!meant)
        continue;
      std::optional<size_t> index = findParameter(meant->name);
      if (!index) {
        index = state.parameters.size();
        state.parameters.push_back({merged.tensor,
                                    meant->name,
                                    {},
                                    meant->kind == StateEntry::Kind::Parameter,
                                    merged.transposed});
      }
      state.operands[{&node, i}] = {*index, use.transposed};
    }
  }

  //===-- names that nothing uses
  //------------------------------------------===//

  /// PyTorch's exporter calls a tied parameter by one of its names, and no node
  /// tells the others where their modules compute nothing. Two kinds are known
  /// by where they stand:
  ///
  /// - the bias that a head shares with its last layer, whose weight is tied to
  ///   the embedding (`lm_head.bias` and `lm_head.decoder.bias`);
  /// - the embedding that only others take (`model.shared.weight`).
  void adoptUnused() {
    StringSet<> computed, called;
    for (const StoredTensor &tensor : model.graph.initializers)
      for (StringRef source : record.getSources(tensor.name))
        computed.insert(source);
    forEachNode(model.graph,
                [&](const Node &node) { called.insert(originOf(node).scope); });
    std::map<size_t, std::vector<std::string>> adopted;
    for (const StateEntry &entry : record.getState()) {
      if (entry.kind != StateEntry::Kind::Parameter ||
          computed.contains(entry.name) || findParameter(entry.name))
        continue;
      std::optional<size_t> index = findTiedBias(entry.name);
      if (!index && !called.contains(moduleOf(entry.name)))
        index = findTiedEmbedding(entry.name);
      if (!index)
        continue;
      adopted[*index].push_back(entry.name);
    }
    for (auto &[index, names] : adopted) {
      Parameter &parameter = state.parameters[index];
      state.notes.push_back(groupNames(names) + ", which nothing uses, " +
                            (names.size() == 1
                                 ? "is taken as a further name of `"
                                 : "are taken as further names of `") +
                            parameter.name + "`, and saved with it");
      llvm::append_range(parameter.aliases, names);
    }
  }

  static bool isTied(const Parameter &parameter) {
    return !parameter.aliases.empty();
  }

  /// The one parameter of the same kind in a layer below, if that layer's
  /// weight is tied.
  std::optional<size_t> findTiedBias(StringRef name) {
    std::optional<size_t> found;
    if (moduleOf(name).empty() || leafOf(name) != "bias")
      return found;
    for (auto [index, parameter] : enumerate(state.parameters)) {
      StringRef module = moduleOf(parameter.name);
      if (leafOf(parameter.name) != "bias" ||
          moduleOf(module) != moduleOf(name))
        continue;
      auto weight = findParameter(join(module, "weight"));
      if (!weight || !isTied(state.parameters[*weight]))
        continue;
      if (found)
        return std::nullopt;
      found = index;
    }
    return found;
  }

  /// The only matrix that is tied, for the weight of a module that has no other
  /// state. An optimizer leaves out weights of modules that were called: then
  /// it must have the name of such a module.
  std::optional<size_t> findTiedEmbedding(StringRef name) {
    if (leafOf(name) != "weight")
      return std::nullopt;
    StringRef module = moduleOf(name);
    for (const StateEntry &entry : record.getState())
      if (entry.name != name && moduleOf(entry.name) == module)
        return std::nullopt;
    std::optional<size_t> found;
    for (auto [index, parameter] : enumerate(state.parameters)) {
      if (!isTied(parameter) || parameter.tensor->dims.size() != 2)
        continue;
      if (found)
        return std::nullopt;
      found = index;
    }
    if (!found || !record.isOptimized() || leafOf(module) == "shared")
      return found;
    const Parameter &parameter = state.parameters[*found];
    auto isAlike = [&](StringRef other) {
      return leafOf(moduleOf(other)) == leafOf(module);
    };
    return isAlike(parameter.name) || any_of(parameter.aliases, isAlike)
               ? found
               : std::nullopt;
  }

  const Model &model;
  const bool tie;
  const ExportRecord record;
  ModelState state;
  StringMap<SmallVector<std::pair<const Node *, size_t>>> consumers;
  std::map<std::tuple<std::string, uint64_t, uint64_t, DataType,
                      std::vector<int64_t>>,
           size_t>
      spans;
};

} // namespace

ModelState findState(const Model &model, bool tie) {
  return StateFinder(model, tie).find();
}

} // namespace polyrank::frontends::onnx
