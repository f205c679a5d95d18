// The inputs that a model declares.

#include "frontends/onnx/Inputs.h"

#include <set>

#include "frontends/onnx/NodeImporter.h"

using namespace mlir;

namespace polyrank::frontends::onnx {

DeclaredDim declaredDim(const Dim &dim, size_t number) {
  bool isOpen =
      dim.value && (*dim.value < 0 || (*dim.value == 0 && number == 0));
  return {isOpen ? std::nullopt : dim.value, std::string(dim.parameter)};
}

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
    input.dtype = value.isTensor ? longNameOf(value.type) : "no tensor";
    if (value.isTensor)
      input.elementType = computedType(location.getContext(), value.type);
    input.held = heldType(location.getContext(), value.type);
    if (value.shape) {
      input.dims.emplace();
      auto given = options.inputs.find(input.name);
      for (auto [i, dim] : llvm::enumerate(*value.shape)) {
        DeclaredDim &declared = input.dims->emplace_back(declaredDim(dim, i));
        // In other dims a 0 may mean no elements, as for an empty cache, unless
        // the user gives a size.
        if (declared.size == 0 && given != options.inputs.end() &&
            i < given->second.shape.size())
          declared.size.reset();
      }
    }
  }
  return inputs;
}

} // namespace polyrank::frontends::onnx
