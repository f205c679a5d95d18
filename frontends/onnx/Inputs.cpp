// The model's inputs, with the sizes that the user gives to open dims.

#include "frontends/onnx/Inputs.h"

#include <set>

#include "frontends/onnx/NodeImporter.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends {

std::optional<std::pair<std::string, InputSpec>>
parseInputSpec(StringRef text, std::string &error) {
  auto fail = [&]() -> std::optional<std::pair<std::string, InputSpec>> {
    error = "`" + text.str() +
            "` is not NAME=DTYPE[D0,D1,...], such as "
            "input_ids=int64[8,128]";
    return std::nullopt;
  };
  auto [name, type] = text.split('=');
  auto [dtype, dims] = type.split('[');
  if (name.empty() || dtype.empty() || !dims.consume_back("]"))
    return fail();
  InputSpec spec{dtype.trim().str(), {}};
  SmallVector<StringRef> parts;
  if (!dims.trim().empty())
    dims.split(parts, ',');
  for (StringRef part : parts) {
    int64_t dim;
    if (part.trim().getAsInteger(10, dim) || dim < 1)
      return fail();
    spec.shape.push_back(dim);
  }
  return std::pair(name.trim().str(), spec);
}

namespace onnx {
namespace {

class InputSpecialiser {
public:
  InputSpecialiser(Location location, const Model &model,
                   const ImportOptions &options)
      : location(location), model(model), options(options) {}

  LogicalResult run() {
    std::set<std::string_view> initialised;
    for (const StoredTensor &tensor : model.graph.initializers)
      initialised.insert(tensor.name);
    SmallVector<std::string> names;
    std::map<std::string_view, std::pair<int64_t, std::string>> sizes;
    // A mistaken name is said before what it leaves open.
    std::set<std::string> openDims;
    for (const ValueInfo &value : model.graph.inputs)
      for (const Dim &dim : value.shape.value_or(std::vector<Dim>()))
        if (!dim.value && !dim.parameter.empty())
          openDims.insert(std::string(dim.parameter));
    for (const auto &each : options.dims)
      if (!openDims.count(each.getKey().str()))
        return error() << "--dim " << each.getKey() << "=" << each.getValue()
                       << ": no input has an open dim of that name; "
                       << (openDims.empty()
                               ? std::string("all dims have sizes")
                               : "there are " + llvm::join(openDims, ", "));
    for (const ValueInfo &value : model.graph.inputs) {
      if (initialised.count(value.name))
        continue; // before IR version 4 initializers are inputs too
      if (options.known.contains(StringRef(value.name)))
        continue;
      if (find(value.metadata,
               "pkg.torch.export.graph_signature.InputSpec.kind") ==
          "PARAMETER")
        return error() << "input `" << std::string(value.name)
                       << "` is a parameter, for which the file has no values; "
                          "export with include_initializers=True to train, or "
                          "compile with --abstract-weights to see the plan";
      names.push_back("`" + std::string(value.name) + "`");
      if (failed(specialise(value, sizes)))
        return failure();
    }
    std::vector<std::string> words;
    for (const Input &input : inputs)
      words.push_back(input.name);
    for (const auto &each : options.inputs)
      if (llvm::none_of(inputs, [&](const Input &input) {
            return input.name == each.getKey();
          }))
        return error() << "the model has no input `" << each.getKey()
                       << "`; its inputs are " << llvm::join(names, ", ")
                       << nearestWords(each.getKey(), words);
    return success();
  }

  std::vector<Input> inputs;

private:
  InFlightDiagnostic error() { return emitError(location); }

  LogicalResult specialise(
      const ValueInfo &value,
      std::map<std::string_view, std::pair<int64_t, std::string>> &sizes) {
    std::string name(value.name);
    auto inputError = [&] { return error() << "input `" << name << "` "; };
    Type elementType = toElementType(location.getContext(), value.type);
    if (!value.isTensor || !elementType)
      return inputError() << "is "
                          << (value.isTensor ? nameOf(value.type)
                                             : std::string("no tensor"))
                          << ", which is not supported";
    auto given = options.inputs.find(name);
    bool isGiven = given != options.inputs.end();
    if (isGiven && given->second.dtype != nameOf(value.type))
      return inputError() << "is " << nameOf(value.type)
                          << " in the file, but --input says "
                          << given->second.dtype;
    std::vector<Dim> dims;
    if (value.shape) {
      dims = *value.shape;
    } else {
      if (!isGiven)
        return inputError()
               << "has no shape in the file; give it with --input " << name
               << "=" << nameOf(value.type) << "[D0,D1,...]";
      dims.resize(given->second.shape.size());
    }
    if (isGiven && given->second.shape.size() != dims.size())
      return inputError() << "has " << dims.size()
                          << " dims in the file, but --input gives "
                          << given->second.shape.size();
    Shape shape;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      std::optional<int64_t> size = dim.value;
      if (!size && !dim.parameter.empty()) {
        if (auto bound = options.dims.find(StringRef(dim.parameter));
            bound != options.dims.end())
          size = bound->second;
      }
      if (isGiven) {
        int64_t wanted = given->second.shape[i];
        if (size && !dim.value && *size != wanted)
          return inputError() << "has dim " << i << " (`"
                              << std::string(dim.parameter) << "`) of " << *size
                              << " by --dim, but --input says " << wanted;
        if (size && *size != wanted)
          return inputError()
                 << "has dim " << i << " of " << *size
                 << " in the file, but --input says " << wanted
                 << "; export it with a dynamic dim to choose its size";
        size = wanted;
      }
      if (!size || *size < 0)
        return missingSize(value, dims, i);
      if (!dim.parameter.empty()) {
        auto [known, isNew] = sizes.try_emplace(dim.parameter, *size, name);
        if (!isNew && known->second.first != *size)
          return inputError()
                 << "has dim " << i << " (`" << std::string(dim.parameter)
                 << "`) of " << *size << ", but input `" << known->second.second
                 << "` has the same dim of " << known->second.first;
      }
      shape.push_back(*size);
    }
    if (countElements(shape) > maxElements)
      return inputError() << "of shape " << toString(shape) << " is too large";
    bool hasOpenBatch = !dims.empty() && !dims.front().value;
    inputs.push_back({name, RankedTensorType::get(shape, elementType),
                      toHeldType(location.getContext(), value.type),
                      hasOpenBatch});
    return success();
  }

  LogicalResult missingSize(const ValueInfo &value, ArrayRef<Dim> dims,
                            size_t missing) {
    SmallVector<std::string> shown;
    for (const Dim &dim : dims)
      shown.push_back(dim.value               ? std::to_string(*dim.value)
                      : dim.parameter.empty() ? std::string("SIZE")
                                              : std::string(dim.parameter));
    InFlightDiagnostic diagnostic = error();
    diagnostic << "input `" << std::string(value.name)
               << "` has no size for dim " << missing;
    if (!dims[missing].parameter.empty())
      diagnostic << " (`" << std::string(dims[missing].parameter) << "`)";
    return diagnostic << "; give it with --input " << std::string(value.name)
                      << "=" << nameOf(value.type) << "["
                      << llvm::join(shown, ",") << "], with numbers"
                      << (dims[missing].parameter.empty()
                              ? ""
                              : ", or in all inputs with --dim " +
                                    std::string(dims[missing].parameter) +
                                    "=N");
  }

  Location location;
  const Model &model;
  const ImportOptions &options;
};

} // namespace

FailureOr<std::vector<Input>> specialiseInputs(Location location,
                                               const Model &model,
                                               const ImportOptions &options) {
  InputSpecialiser specialiser(location, model, options);
  if (failed(specialiser.run()))
    return failure();
  return std::move(specialiser.inputs);
}

} // namespace onnx
} // namespace polyrank::frontends
