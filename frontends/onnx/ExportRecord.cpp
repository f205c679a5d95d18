// Reads the metadata that PyTorch's exporter writes into a model.

#include "frontends/onnx/ExportRecord.h"

#include "frontends/onnx/Origin.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace polyrank::frontends::onnx {

static StateEntry::Kind kindOf(StringRef text) {
  return text == "PARAMETER" ? StateEntry::Kind::Parameter
         : text == "BUFFER"  ? StateEntry::Kind::Buffer
                             : StateEntry::Kind::Other;
}

ExportRecord::ExportRecord(const Model &model) {
  auto [inputs, outputs] =
      StringRef(find(model.graph.metadata,
                     "pkg.torch.export.ExportedProgram.graph_signature"))
          .split("# outputs");
  readInputs(inputs);
  readOutputs(outputs, model.graph);
  // Metadata of the model's own inputs is ignored: it does not mean that
  // weights, whose metadata may be lost, are described.
  StringSet<> stored;
  for (const StoredTensor &tensor : model.graph.initializers)
    stored.insert(tensor.name);
  for (const auto *values : {&model.graph.values, &model.graph.inputs})
    for (const ValueInfo &value : *values)
      if (stored.contains(value.name))
        readValue(value);
  forEachNode(model.graph,
              [&](const Node &node) { optimized |= isRewritten(node); });
}

bool ExportRecord::isRewritten(const Node &node) {
  return !find(node.metadata, "pkg.onnxscript.rewriter.rule_name").empty();
}

/// Reads lines such as `add: BUFFER_MUTATION target='mean'` and `linear:
/// USER_OUTPUT`. If a value is also an output, the graph calls it by the name
/// of the output.
void ExportRecord::readOutputs(StringRef text, const Graph &graph) {
  StringMap<StringRef> outputs;
  StringRef line, rest = text;
  while (!rest.empty()) {
    std::tie(line, rest) = rest.split('\n');
    auto [value, description] = line.split(": ");
    if (description.consume_front("BUFFER_MUTATION target='"))
      changes.push_back({description.split('\'').first.str(), value});
    else if (description == "USER_OUTPUT" &&
             outputs.size() < graph.outputs.size())
      outputs.try_emplace(value, graph.outputs[outputs.size()].name);
  }
  for (BufferChange &change : changes)
    if (auto output = outputs.find(change.value); output != outputs.end())
      change.value = output->second;
}

/// Reads lines such as `p_fc_weight: PARAMETER target='fc.weight'` and `b_mean:
/// BUFFER target='bn.running_mean' persistent=True`.
void ExportRecord::readInputs(StringRef text) {
  StringRef line, rest = text;
  while (!rest.empty()) {
    std::tie(line, rest) = rest.split('\n');
    auto [placeholder, description] = line.split(": ");
    auto [kind, more] = description.split(" target='");
    auto [name, flags] = more.split('\'');
    if (name.empty() || byName.contains(name))
      continue;
    byName[name] = byPlaceholder[placeholder] = state.size();
    bool isBuffer = kindOf(kind) == StateEntry::Kind::Buffer;
    state.push_back(
        {name.str(), kindOf(kind), !isBuffer || flags.contains("=True")});
  }
}

void ExportRecord::readValue(const ValueInfo &value) {
  StringRef kind =
      find(value.metadata, "pkg.torch.export.graph_signature.InputSpec.kind");
  if (!kind.empty())
    roles[value.name] = {std::string(value.name), kindOf(kind),
                         kind != "BUFFER" ||
                             find(value.metadata,
                                  "pkg.torch.export.graph_signature.InputSpec."
                                  "persistent") == "True"};
  StringRef from = find(value.metadata, "pkg.onnxscript.optimizer.folded_from");
  if (from.empty())
    return;
  optimized = true;
  sources[value.name] = parseList(from);
}

const StateEntry *ExportRecord::findState(StringRef name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &state[found->second];
}

const StateEntry *ExportRecord::findRole(StringRef name) const {
  auto found = roles.find(name);
  return found == roles.end() ? nullptr : &found->second;
}

ArrayRef<StringRef> ExportRecord::getSources(StringRef name) const {
  auto found = sources.find(name);
  return found == sources.end() ? ArrayRef<StringRef>()
                                : ArrayRef<StringRef>(found->second);
}

/// Parses `%linear : [num_users=1] = call_function[target=torch.ops.aten.linear
/// .default](args = (%x, %p_fc_weight), kwargs = {})`.
FxCall ExportRecord::callOf(const Node &node) const {
  FxCall call;
  StringRef text(find(node.metadata, "pkg.torch.onnx.fx_node"));
  auto [before, after] = text.split("target=");
  call.target = after.split(']').first;
  call.target.consume_front("torch.ops.");
  StringRef arguments = after.split("(args = ").second;
  while (true) {
    arguments = arguments.split('%').second;
    if (arguments.empty())
      return call;
    StringRef name = arguments.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    call.names.push_back(name);
    auto found = byPlaceholder.find(name);
    call.arguments.push_back(
        found == byPlaceholder.end() ? nullptr : &state[found->second]);
  }
}

} // namespace polyrank::frontends::onnx
