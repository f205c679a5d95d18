// The inputs that a model declares.

#include "frontends/onnx/Inputs.h"

#include <set>

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

FailureOr<std::vector<DeclaredInput>> findInputs(Location location,
                                                 const Model &model,
                                                 const ImportOptions &options) {
  std::set<std::string_view> initialised;
  for (const StoredTensor &tensor : model.graph.initializers)
    initialised.insert(tensor.name);
  std::vector<DeclaredInput> inputs;
  for (const ValueInfo &value : model.graph.inputs) {
    if (initialised.count(value.name))
      continue; // before IR version 4 initializers are inputs too
    if (!options.known.contains(StringRef(value.name)) &&
        find(value.metadata,
             "pkg.torch.export.graph_signature.InputSpec.kind") == "PARAMETER")
      return emitError(location)
             << "input `" << std::string(value.name)
             << "` is a parameter, for which the file has no values; "
                "export with include_initializers=True to train, or "
                "compile with --abstract-weights to see the plan";
    DeclaredInput &input = inputs.emplace_back();
    input.name = value.name;
    input.dtype = value.isTensor ? nameOf(value.type) : "no tensor";
    if (value.isTensor)
      input.elementType = toElementType(location.getContext(), value.type);
    input.held = toHeldType(location.getContext(), value.type);
    if (value.shape) {
      input.dims.emplace();
      for (const Dim &dim : *value.shape)
        input.dims->push_back({dim.value, std::string(dim.parameter)});
    }
  }
  return inputs;
}

} // namespace polyrank::frontends::onnx
