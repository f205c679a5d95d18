// Weights of linear layers and convolutions that an exporter's optimizer
// renamed, transposed or copied.

#include "frontends/onnx/RenamedWeights.h"

#include "frontends/onnx/EqualMatrices.h"
#include "frontends/onnx/Origin.h"
#include "frontends/onnx/ParameterNames.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

class WeightFinder {
public:
  WeightFinder(const Model &model, const ExportRecord &record,
               const Consumers &consumers, bool tie, ModelState &state)
      : model(model), record(record), consumers(consumers), tie(tie),
        state(state) {}

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
      } else if (auto other = state.find(name)) {
        takeNames(state.parameters[*other], *found, parameter);
        state.notes.push_back("`" + std::string(tensor.name) +
                              "` was a copy of `" + name +
                              "` when the model was exported, but now has "
                              "other values: it is a parameter of its own, `" +
                              parameter.name + "`");
      }
    }
    if (state.find(parameter.name)) { // it keeps its present name
      parameter.name = tensor.name;
      parameter.transposed = false;
    }
    state.values[tensor.name] = {state.parameters.size(), parameter.transposed};
    state.parameters.push_back(parameter);
  }

private:
  /// The weight of a linear layer, with a made-up name and transposed.
  struct Recovered {
    std::string name;
    std::string scope;    // the module that uses it
    bool isNamed = false; // by the exporter's record of the operator
    bool transposed = false;
  };

  std::optional<Recovered> recognise(const StoredTensor &tensor) {
    for (auto [node, operand] : consumers.lookup(tensor.name)) {
      if (!node->domain.empty())
        continue;
      FxCall call = record.callOf(*node);
      Origin origin = originOf(*node);
      bool isLinear =
          node->type == "MatMul" && operand == 1 && tensor.dims.size() == 2;
      if (isLinear && call.isLinear() && call.arguments.size() >= 2 &&
          call.arguments[1])
        return Recovered{call.arguments[1]->name, origin.scope, true, true};
      // The weights of experts are looked up like rows of a table: x[i].
      if (node->type == "GatherND" && operand == 0 &&
          call.target.starts_with("aten.index.") && !call.arguments.empty() &&
          call.arguments[0] && isIndexedInFront(*node))
        return Recovered{call.arguments[0]->name, origin.scope, true, false};
      // Otherwise the module decides: by its class or, in older exports,
      // because the exporter named computed values after the operator.
      bool isOld = StringRef(tensor.name).starts_with("onnx::");
      if (isLinear && call.target.empty() && !origin.scope.empty() &&
          (isOld || StringRef(origin.moduleClass).ends_with("Linear")))
        return Recovered{nameIn(origin.scope, "weight"), origin.scope, false,
                         true};
      if (node->type != "Conv" || operand == 0)
        continue;
      // The result of merging a convolution with its batch norm.
      if (isOld && !origin.scope.empty())
        return Recovered{nameIn(origin.scope, operand == 1 ? "weight" : "bias"),
                         origin.scope, false, false};
      StringRef weight(node->inputs[1]);
      if (operand == 2 && state.values.contains(weight) &&
          record.findState(weight))
        return Recovered{nameIn(moduleOf(weight), "bias"),
                         moduleOf(weight).str(), true, false};
    }
    return std::nullopt;
  }

  /// Returns true if PyTorch's x[i, j, ..] only indexes leading dims, so that
  /// the exporter did not transpose x.
  static bool isIndexedInFront(const Node &node) {
    StringRef call(find(node.metadata, "pkg.torch.onnx.fx_node"));
    StringRef indices = call.split(", [").second.split(']').first;
    return indices.starts_with("%") && !indices.contains("None");
  }

  /// The parameter of which `tensor` is a copy. If the exporter names the
  /// parameter, no other is considered.
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

  /// Two parameters that were merged divide the names: each gets those of the
  /// module that uses it.
  static void takeNames(Parameter &original, const Recovered &found,
                        Parameter &copy) {
    std::string own = nameIn(found.scope, leafOf(found.name));
    if (original.name == own && !original.aliases.empty()) {
      original.name = original.aliases.front();
      original.aliases.erase(original.aliases.begin());
      copy.name = own;
    } else if (is_contained(original.aliases, own)) {
      erase(original.aliases, own);
      copy.name = own;
    }
  }

  const Model &model;
  const ExportRecord &record;
  const Consumers &consumers;
  const bool tie;
  ModelState &state;
};

} // namespace

void recoverWeight(const Model &model, const ExportRecord &record,
                   const Consumers &consumers, const StoredTensor &tensor,
                   bool tie, ModelState &state) {
  WeightFinder(model, record, consumers, tie, state).recover(tensor);
}

} // namespace polyrank::frontends::onnx
