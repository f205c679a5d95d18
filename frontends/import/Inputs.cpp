// The inputs of a model, with the sizes that the user gives for open dims.

#include "frontends/import/Inputs.h"

#include <map>
#include <set>

#include "frontends/emit/Known.h"
#include "support/Names.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends {
namespace {

class InputSpecialiser {
public:
  InputSpecialiser(Location location, const ImportOptions &options,
                   const std::set<std::string> &others)
      : location(location), options(options), others(others) {}

  LogicalResult run(ArrayRef<DeclaredInput> declared) {
    SmallVector<std::string> names;
    // A misspelt name is reported before the dim that it leaves open.
    std::set<std::string> openDims = others;
    for (const DeclaredInput &input : declared)
      for (const DeclaredDim &dim :
           input.dims.value_or(std::vector<DeclaredDim>()))
        if (!dim.size && !dim.name.empty())
          openDims.insert(dim.name);
    for (const auto &each : options.dims)
      if (!openDims.count(each.getKey().str()))
        return error() << "--dim " << each.getKey() << "=" << each.getValue()
                       << ": no input has an open dim of that name; "
                       << (openDims.empty()
                               ? std::string("all dims have sizes")
                               : "there are " + llvm::join(openDims, ", "));
    std::vector<std::string> words;
    for (const DeclaredInput &input : declared) {
      words.push_back(input.name);
      names.push_back("`" + input.name + "`");
    }
    for (const auto &each : options.inputs)
      if (!llvm::is_contained(words, each.getKey()))
        return error() << "the model has no input `" << each.getKey()
                       << "`; its inputs are " << llvm::join(names, ", ")
                       << nearestWords(each.getKey(), words);
    for (const DeclaredInput &input : declared)
      if (!options.known.contains(input.name) && failed(specialise(input)))
        return failure();
    return success();
  }

  std::vector<Input> inputs;

private:
  InFlightDiagnostic error() { return emitError(location); }

  LogicalResult specialise(const DeclaredInput &input) {
    const std::string &name = input.name;
    auto inputError = [&] { return error() << "input `" << name << "` "; };
    if (!input.elementType)
      return inputError() << "is " << input.dtype << ", which is not supported";
    auto given = options.inputs.find(name);
    bool isGiven = given != options.inputs.end();
    if (isGiven && given->second.dtype != input.dtype)
      return inputError() << "is " << input.dtype
                          << " in the file, but --input says "
                          << given->second.dtype;
    std::vector<DeclaredDim> dims;
    if (input.dims) {
      dims = *input.dims;
    } else {
      if (!isGiven)
        return inputError() << "has no shape in the file; give it with --input "
                            << name << "=" << input.dtype << "[D0,D1,...]";
      dims.resize(given->second.shape.size());
    }
    if (isGiven && given->second.shape.size() != dims.size())
      return inputError() << "has " << dims.size()
                          << " dims in the file, but --input gives "
                          << given->second.shape.size();
    Shape shape;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      std::optional<int64_t> size = dim.size;
      if (!size && !dim.name.empty()) {
        if (auto bound = options.dims.find(dim.name);
            bound != options.dims.end())
          size = bound->second;
      }
      if (isGiven) {
        int64_t wanted = given->second.shape[i];
        if (size && !dim.size && *size != wanted)
          return inputError()
                 << "has dim " << i << " (`" << dim.name << "`) of " << *size
                 << " by --dim, but --input says " << wanted;
        if (size && *size != wanted)
          return inputError()
                 << "has dim " << i << " of " << *size
                 << " in the file, but --input says " << wanted
                 << "; export it with a dynamic dim to choose its size";
        size = wanted;
      }
      if (!size || *size < 0)
        return missingSize(input, dims, i);
      if (!dim.name.empty()) {
        auto [known, isNew] =
            sizes.try_emplace(dim.name, std::pair(*size, name));
        if (!isNew && known->second.first != *size)
          return inputError()
                 << "has dim " << i << " (`" << dim.name << "`) of " << *size
                 << ", but input `" << known->second.second
                 << "` has the same dim of " << known->second.first;
      }
      shape.push_back(*size);
    }
    if (countElements(shape) > maxElements)
      return inputError() << "of shape " << toString(shape) << " is too large";
    bool hasOpenBatch = !dims.empty() && !dims.front().size;
    if (options.openDims) {
      OpenDims &open = (*options.openDims)[name];
      for (const DeclaredDim &dim : dims)
        open.push_back(dim.size && dim.name.empty() ? std::nullopt
                                                    : std::optional(dim.name));
    }
    inputs.push_back({name, RankedTensorType::get(shape, input.elementType),
                      input.held, hasOpenBatch});
    return success();
  }

  LogicalResult missingSize(const DeclaredInput &input,
                            ArrayRef<DeclaredDim> dims, size_t missing) {
    SmallVector<std::string> shown;
    for (const DeclaredDim &dim : dims)
      shown.push_back(dim.size           ? std::to_string(*dim.size)
                      : dim.name.empty() ? std::string("SIZE")
                                         : dim.name);
    InFlightDiagnostic diagnostic = error();
    diagnostic << "input `" << input.name << "` has no size for dim "
               << missing;
    if (!dims[missing].name.empty())
      diagnostic << " (`" << dims[missing].name << "`)";
    return diagnostic << "; give it with --input " << input.name << "="
                      << input.dtype << "[" << llvm::join(shown, ",")
                      << "], with numbers"
                      << (dims[missing].name.empty()
                              ? ""
                              : ", or in all inputs with --dim " +
                                    dims[missing].name + "=N");
  }

  Location location;
  const ImportOptions &options;
  const std::set<std::string> &others;
  /// By name of dim: its size, and the first input that had it.
  std::map<std::string, std::pair<int64_t, std::string>> sizes;
};

} // namespace

FailureOr<std::vector<Input>>
specialiseInputs(Location location, ArrayRef<DeclaredInput> declared,
                 const ImportOptions &options,
                 const std::set<std::string> &others) {
  InputSpecialiser specialiser(location, options, others);
  if (failed(specialiser.run(declared)))
    return failure();
  return std::move(specialiser.inputs);
}

} // namespace polyrank::frontends
