// Describes an ONNX file, as far as it needs no sizes for open dims.

#include "frontends/onnx/Describe.h"

#include "frontends/onnx/Freeze.h"
#include "frontends/onnx/GraphImporter.h"
#include "frontends/onnx/Inputs.h"
#include "frontends/onnx/NamedTensors.h"
#include "frontends/onnx/NodeImporter.h"
#include "frontends/onnx/Origin.h"
#include "frontends/onnx/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace polyrank::frontends {
namespace onnx {
namespace {

DescribedValue describe(const ValueInfo &value) {
  DescribedValue result;
  result.name = value.name;
  if (value.isTensor)
    result.dtype = longNameOf(value.type);
  result.isFloat = isFloat(value.type);
  if (value.shape) {
    result.dims.emplace();
    for (auto [i, each] : enumerate(*value.shape)) {
      DeclaredDim dim = declaredDim(each, i);
      result.dims->push_back({dim.size, dim.name});
    }
  }
  return result;
}

class OpCounter {
public:
  explicit OpCounter(const Model &model) : model(model) {}

  void count(const std::vector<Node> &nodes,
             const std::vector<OpsetImport> &imports, int depth = 0) {
    for (const Node &node : nodes) {
      const Function *function = model.findFunction(node);
      constexpr int maxDepth = 16; // the import refuses deeper calls
      if (function && depth < maxDepth) {
        count(function->nodes, function->opsets, depth + 1);
        continue;
      }
      int64_t opset = opsetOf(node.domain, imports);
      std::string name = node.domain.empty() ? std::string(node.type)
                                             : std::string(node.domain) + "." +
                                                   std::string(node.type);
      DescribedOp &op = ops[name];
      op.name = name;
      op.opset = opset;
      ++op.count;
      for (const Attribute &attribute : node.attributes)
        if (attribute.g)
          count(attribute.g->nodes, imports, depth);
      if (findRow(node.domain, node.type, opset) ||
          isControlFlow(node.domain, node.type))
        continue;
      op.isSupported = false;
      std::string scope = originOf(node).scope;
      op.nodes.push_back("`" + std::string(node.name) + "`" +
                         (scope.empty() ? "" : " in " + scope));
    }
  }

  std::vector<DescribedOp> take() const { return sortByCount(ops); }

private:
  static int64_t opsetOf(std::string_view domain,
                         const std::vector<OpsetImport> &imports) {
    for (const OpsetImport &each : imports)
      if ((each.domain == "ai.onnx" ? "" : each.domain) == domain)
        return each.version;
    return 0;
  }

  const Model &model;
  std::map<std::string, DescribedOp> ops;
};

} // namespace
} // namespace onnx

Result<ModelDescription> describeOnnx(StringRef path,
                                      const ImportOptions &options) {
  POLYRANK_ASSIGN(model,
                  onnx::readModel(path.str(), options.abstractWeights
                                                  ? onnx::Weights::MayBeAbsent
                                                  : onnx::Weights::Required));
  ModelDescription result;
  result.producer = model->producer;
  for (const onnx::OpsetImport &each : model->opsets)
    if (each.domain.empty() || each.domain == "ai.onnx")
      result.opset = each.version;

  StringSet<> stored;
  for (const onnx::StoredTensor &tensor : model->graph.initializers)
    stored.insert(tensor.name);
  for (const onnx::ValueInfo &value : model->graph.inputs)
    if (!stored.contains(value.name)) // false only in files before IR version 4
      result.inputs.push_back(onnx::describe(value));
  for (const onnx::ValueInfo &value : model->graph.outputs)
    result.outputs.push_back(onnx::describe(value));

  std::optional<onnx::NamedTensors> named;
  if (!options.params.empty()) {
    POLYRANK_ASSIGN(opened, onnx::openNamedTensors(*model, options.params));
    named = std::move(opened);
  }
  onnx::ModelState state = onnx::findState(
      *model, options.tie, named ? &*named : nullptr, options.trainOnly);
  if (std::string error =
          onnx::freeze(state, options.freeze, options.trainOnly);
      !error.empty())
    return Error{error};
  for (const onnx::Parameter &parameter : state.parameters) {
    const onnx::StoredTensor &tensor = *parameter.tensor;
    int64_t elements = tensor.numElements();
    result.parameters.push_back({parameter.name, longNameOf(tensor.type),
                                 parameter.getDims(), elements,
                                 elements * bytesOf(tensor.type),
                                 parameter.trainable, parameter.aliases});
  }
  result.warnings = state.warnings;
  for (const std::string &problem : {state.staleBuffers, state.untrained})
    if (!problem.empty())
      result.warnings.push_back(problem);
  if (options.training)
    result.suggestions = onnx::suggestFreezing(*model, state);

  onnx::OpCounter counter(*model);
  counter.count(model->graph.nodes, model->opsets);
  result.ops = counter.take();
  for (const DescribedOp &op : result.ops) {
    if (op.name == "Dropout")
      result.numDropouts = op.count;
    if (op.name == "BatchNormalization")
      result.numBatchNorms = op.count;
  }
  return result;
}

} // namespace polyrank::frontends
