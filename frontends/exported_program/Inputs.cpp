// The inputs that the user of a program gives.

#include "frontends/exported_program/Inputs.h"

#include "frontends/exported_program/Archive.h"
#include "frontends/exported_program/DependentNumbers.h"
#include "frontends/exported_program/Symbols.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace polyrank::frontends::exported_program {

/// The metadata of the tensor that the graph calls `name`, such as "input_ids";
/// null if it is no tensor. (Placeholders of nested arguments have names that
/// torch.export made up.)
static const TensorMeta *findMeta(const Program &program,
                                  const std::string &name) {
  auto found = program.graph.tensors.find(name);
  return found == program.graph.tensors.end() ? nullptr : &found->second;
}

std::vector<UserInput> findInputs(MLIRContext *context, const Program &program,
                                  const ImportOptions &options) {
  std::vector<UserInput> inputs;
  for (const InputSpec &spec : program.inputs) {
    if (spec.kind != InputSpec::Kind::UserInput)
      continue;
    UserInput &input = inputs.emplace_back();
    if (spec.argument.kind != Argument::Kind::Name)
      continue;
    input.name = spec.argument.text;
    const TensorMeta *meta = findMeta(program, input.name);
    if (!meta)
      continue; // a symbolic number
    input.isTensor = true;
    DeclaredInput &declared = input.declared;
    declared.name = input.name;
    auto type = typeOfNumber(meta->type);
    declared.dtype =
        type ? longNameOf(*type) : "type number " + std::to_string(meta->type);
    if (type && aten::isSupported(*type)) {
      input.type = *type;
      declared.elementType = computedType(context, *type);
      declared.held = heldType(context, *type);
    }
    declared.dims.emplace();
    for (const SymbolicInt &size : meta->sizes) {
      DeclaredDim &dim = declared.dims->emplace_back();
      dim.size = size.value;
      if (size.value)
        continue;
      SymbolicExpression expression(size.expression);
      dim.name = expression.toString();
      if (expression.getSymbol().empty())
        dim.size = expression.evaluate(
            [&](StringRef symbol) -> std::optional<int64_t> {
              auto given = options.dims.find(symbol);
              if (given == options.dims.end())
                return std::nullopt;
              return given->second;
            });
    }
  }
  return inputs;
}

LogicalResult checkInputs(Location location, const Program &program,
                          ArrayRef<Input> inputs, const ImportOptions &options,
                          llvm::StringMap<int64_t> &symbols) {
  for (const auto &given : options.dims) {
    symbols[given.getKey()] = given.getValue();
    auto range = program.ranges.find(given.getKey().str());
    if (range == program.ranges.end() ||
        !findDependentSymbols(program).count(range->first))
      continue;
    auto [least, most] = range->second;
    if (given.getValue() < least.value_or(0) ||
        (most && given.getValue() > *most)) {
      InFlightDiagnostic error = emitError(location)
                                 << "--dim " << given.getKey() << "="
                                 << given.getValue() << ": the model asserts "
                                 << "that it is at least " << least.value_or(0);
      if (most)
        error << " and at most " << *most;
      return error;
    }
  }
  auto forEachOpen = [&](auto callback) {
    for (const Input &input : inputs)
      if (const TensorMeta *meta = findMeta(program, input.name))
        for (auto [i, size] : llvm::enumerate(meta->sizes))
          if (!size.value && static_cast<int64_t>(i) < input.type.getRank())
            callback(input, i, SymbolicExpression(size.expression),
                     input.type.getDimSize(i));
  };
  forEachOpen([&](const Input &, size_t, const SymbolicExpression &expression,
                  int64_t size) {
    if (std::string symbol = expression.getSymbol(); !symbol.empty())
      symbols[symbol] = size;
  });
  LogicalResult result = success();
  forEachOpen([&](const Input &input, size_t dim,
                  const SymbolicExpression &expression, int64_t size) {
    auto expected =
        expression.evaluate([&](StringRef symbol) -> std::optional<int64_t> {
          auto found = symbols.find(symbol);
          if (found == symbols.end())
            return std::nullopt;
          return found->second;
        });
    if (expected && *expected != size && succeeded(result))
      result = emitError(location)
               << "input `" << input.name << "` has dim " << dim << " of "
               << size << ", which the export says is " << expression.toString()
               << " = " << *expected;
  });
  return result;
}

} // namespace polyrank::frontends::exported_program
