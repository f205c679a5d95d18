// Tells the model's state (parameters and buffers) from its constants.

#include "frontends/onnx/Parameters.h"

#include <map>

#include "frontends/onnx/Origin.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

namespace {

enum class Role { Parameter, Buffer, Constant };

constexpr const char kindKey[] =
    "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr const char persistentKey[] =
    "pkg.torch.export.graph_signature.InputSpec.persistent";

/// Names such as `val_12`, `onnx::MatMul_34`, `/h.0/Constant_output_0`, `17`.
bool isMadeUp(StringRef name) {
  if (name.contains("::") || name.contains('/') || name.empty())
    return true;
  StringRef digits = name;
  digits.consume_front("val_");
  return all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

bool isFloat(DataType type) {
  return type == DataType::Float || type == DataType::Double ||
         type == DataType::Float16 || type == DataType::BFloat16;
}

class StateFinder {
public:
  explicit StateFinder(const Model &model) : model(model) {}

  ModelState find() {
    // What the exporter says of the model's own inputs tells nothing about
    // weights whose description is lost.
    StringSet<> stored;
    for (const Tensor &tensor : model.graph.initializers)
      stored.insert(tensor.name);
    for (const auto *values : {&model.graph.values, &model.graph.inputs})
      for (const ValueInfo &value : *values)
        if (stored.contains(value.name))
          describe(value);
    for (const Tensor &tensor : model.graph.initializers)
      if (Role role = roleOf(tensor); role != Role::Constant)
        add(tensor, role);
      else
        warnOfCopy(tensor);
    for (const Node &node : model.graph.nodes) {
      if (node.type == "Identity" && node.domain.empty() && kinds.empty())
        untie(node);
      else
        addAliases(node);
    }
    return std::move(state);
  }

private:
  void describe(const ValueInfo &value) {
    std::string_view kind = onnx::find(value.metadata, kindKey);
    if (!kind.empty())
      kinds[value.name] = {kind, onnx::find(value.metadata, persistentKey)};
  }

  Role roleOf(const Tensor &tensor) {
    if (!kinds.empty()) {
      auto known = kinds.find(tensor.name);
      if (known == kinds.end())
        return Role::Constant;
      const auto &[kind, persistent] = known->second;
      if (kind == "PARAMETER")
        return Role::Parameter;
      return kind == "BUFFER" && persistent == "True" ? Role::Buffer
                                                      : Role::Constant;
    }
    return isFloat(tensor.type) && !tensor.dims.empty() &&
                   !isMadeUp(tensor.name)
               ? Role::Parameter
               : Role::Constant;
  }

  void add(const Tensor &tensor, Role role) {
    std::string name(tensor.name);
    if (tensor.span && tensor.span->length > 0) {
      auto key = std::make_tuple(tensor.span->path, tensor.span->offset,
                                 tensor.span->length, tensor.type, tensor.dims);
      auto [known, isNew] = spans.try_emplace(key, state.parameters.size());
      if (!isNew) {
        state.parameters[known->second].aliases.push_back(name);
        state.values[name] = known->second;
        return;
      }
    }
    if (role == Role::Parameter || isFloat(tensor.type))
      state.values[name] = state.parameters.size();
    state.parameters.push_back(
        {&tensor, name, {}, role == Role::Parameter && isFloat(tensor.type)});
  }

  /// A matrix without a role, among others that have one: an optimiser of the
  /// exporter computed it from a parameter, which it then replaces.
  void warnOfCopy(const Tensor &tensor) {
    if (kinds.empty() || kinds.count(tensor.name) || !isFloat(tensor.type) ||
        tensor.dims.size() < 2 || tensor.numElements() < 64)
      return;
    state.warnings.push_back(
        "`" + std::string(tensor.name) +
        "` is a tensor that the exporter computed, perhaps from a parameter, "
        "and will not be trained; export with optimize=False to keep all "
        "parameters");
  }

  bool hasEqualElements(const Tensor &tensor) {
    std::vector<char> bytes;
    std::string error;
    unsigned width = byteSize(tensor.type);
    if (!model.load(tensor, bytes, error) || bytes.size() < width)
      return true;
    for (size_t at = width; at < bytes.size(); at += width)
      if (!std::equal(bytes.begin(), bytes.begin() + width,
                      bytes.begin() + static_cast<ptrdiff_t>(at)))
        return false;
    return true;
  }

  void untie(const Node &node) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1 ||
        isMadeUp(node.outputs[0]))
      return;
    auto source = state.values.find(StringRef(node.inputs[0]));
    if (source == state.values.end())
      return;
    std::string name(node.outputs[0]);
    size_t index = source->second;
    const Tensor *tensor = state.parameters[index].tensor;
    if (tensor->dims.size() >= 2 && !hasEqualElements(*tensor)) {
      state.parameters[index].aliases.push_back(name);
      state.values[name] = index;
      return;
    }
    state.values[name] = state.parameters.size();
    state.parameters.push_back({tensor, name, {}, true});
  }

  /// A layer that has the parameter as its own: Embedding, Linear, Conv1D, and
  /// what derives from them under such a name.
  static bool isLayer(StringRef moduleClass) {
    StringRef name = moduleClass.rsplit('.').second;
    return moduleClass.starts_with("torch.nn.modules.") ||
           name.contains("Embedding") || name.contains("Linear") ||
           name.contains("Conv1D");
  }

  void addAliases(const Node &node) {
    for (std::string_view input : node.inputs) {
      auto found = state.values.find(StringRef(input));
      if (found == state.values.end())
        continue;
      Parameter &parameter = state.parameters[found->second];
      auto [module, leaf] = StringRef(parameter.name).rsplit('.');
      Origin origin = originOf(node);
      if (leaf.empty() || origin.scope.empty() || origin.scope == module ||
          module.starts_with(origin.scope + ".") ||
          !isLayer(origin.moduleClass))
        continue;
      std::string alias = origin.scope + "." + leaf.str();
      if (!is_contained(parameter.aliases, alias) &&
          !state.values.contains(alias))
        parameter.aliases.push_back(alias);
    }
  }

  const Model &model;
  ModelState state;
  std::map<std::string_view, std::pair<std::string_view, std::string_view>>
      kinds; // of initializers: kind, persistent
  std::map<std::tuple<std::string, uint64_t, uint64_t, DataType,
                      std::vector<int64_t>>,
           size_t>
      spans;
};

} // namespace

ModelState findState(const Model &model) { return StateFinder(model).find(); }

} // namespace polyrank::frontends::onnx
