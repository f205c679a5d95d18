// Builds the module that an import results in: parameters and the function
// @forward.

#include "frontends/import/ModuleBuilder.h"

#include <map>

#include "dialects/graph/Boundary.h"
#include "dialects/graph/ElementTypes.h"
#include "dialects/graph/ParameterSymbols.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace polyrank::frontends {

ModuleBuilder::ModuleBuilder(MLIRContext &context, StringRef path,
                             int64_t foldingBudget)
    : context(context), fileLocation(FileLineColLoc::get(&context, path, 0, 0)),
      module(ModuleOp::create(fileLocation)),
      emit(OpBuilder(&context), fileLocation, foldingBudget) {}

/// Emits a remark for each float type that is computed as another type.
static void noteConversions(Location location,
                            ArrayRef<ParameterSpec> parameters) {
  std::map<std::pair<std::string, bool>, size_t> counts;
  for (const ParameterSpec &parameter : parameters)
    if (Type type = parameter.stored.getElementType();
        isa<FloatType>(type) && type != parameter.computed) {
      std::string name =
          parameter.complex
              ? "complex" + std::to_string(2 * type.getIntOrFloatBitWidth())
              : longNameOf(*graph::toElementType(type));
      ++counts[{name, parameter.complex}];
    }
  for (const auto &[kind, count] : counts)
    emitRemark(location) << count
                         << (count == 1 ? " tensor is " : " tensors are ")
                         << kind.first << " in the file; computed and saved in "
                         << (kind.second ? "complex64"
                                         : "float32 (saved as in the file with "
                                           "polyrank-run's --save-dtype file; "
                                           "--precision multiplies in bf16 or "
                                           "fp16)");
}

void ModuleBuilder::createFunction(ArrayRef<ParameterSpec> parameters,
                                   ArrayRef<Input> inputs) {
  noteConversions(fileLocation, parameters);
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types;
  SmallVector<Location> locations;
  SmallVector<DictionaryAttr> attributes;
  auto addArgument = [&](mlir::Attribute role, StringRef name, Type type) {
    types.push_back(type);
    locations.push_back(NameLoc::get(builder.getStringAttr(name)));
    attributes.push_back(graph::Boundary::asDictionary(role));
  };
  for (const ParameterSpec &parameter : parameters) {
    SmallVector<StringRef> aliases(parameter.aliases.begin(),
                                   parameter.aliases.end());
    graph::ParameterOp::create(
        builder, NameLoc::get(builder.getStringAttr(parameter.name)),
        graph::symbolOf(parameter.name), parameter.stored, parameter.span.path,
        static_cast<int64_t>(parameter.span.offset),
        static_cast<int64_t>(parameter.span.length), parameter.trainable,
        aliases.empty() ? ArrayAttr() : builder.getStrArrayAttr(aliases),
        parameter.transposed, parameter.value, parameter.complex);
    addArgument(
        graph::ParameterAttr::get(
            FlatSymbolRefAttr::get(&context, graph::symbolOf(parameter.name))),
        parameter.name,
        RankedTensorType::get(parameter.stored.getShape(), parameter.computed));
  }
  for (const Input &input : inputs) {
    auto role = graph::InputAttr::get(builder.getStringAttr(input.name));
    addArgument(input.hasOpenBatch ? role.withOpenBatch() : role, input.name,
                input.type);
  }
  numParameters = parameters.size();
  function = func::FuncOp::create(builder, fileLocation, "forward",
                                  builder.getFunctionType(types, {}),
                                  ArrayRef<NamedAttribute>(), attributes);
  Block *body = builder.createBlock(&function.getBody(), {}, types, locations);
  emit.getBuilder().setInsertionPointToEnd(body);
  emit.getRandomness = [this] { return getRandomness(); };
}

/// Returns the counters for random numbers: arguments after all others, marked
/// by their roles.
std::array<Value, 3> ModuleBuilder::getRandomness() {
  OpBuilder builder(&context);
  auto type = RankedTensorType::get({}, builder.getI64Type());
  using graph::RandomCounter;
  for (auto [value, counter] : llvm::zip_equal(
           randomness, std::array{RandomCounter::Seed, RandomCounter::Step,
                                  RandomCounter::Microbatch})) {
    if (value)
      continue;
    auto name = graph::stringifyRandomCounter(counter);
    value = graph::Boundary(function).insertArgument(
        function.getNumArguments(), type,
        graph::CounterAttr::get(&context, counter),
        NameLoc::get(builder.getStringAttr(name)));
  }
  return randomness;
}

void ModuleBuilder::eraseUnused() {
  Operation *op = &function.getBody().front().back();
  while (op) {
    Operation *previous = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
    op = previous;
  }
}

OwningOpRef<ModuleOp>
ModuleBuilder::finish(ArrayRef<std::pair<std::string, Imported>> outputs) {
  OpBuilder &builder = emit.getBuilder();
  SmallVector<Value> results;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  emit.setOrigin(fileLocation, "");
  auto addResult = [&](Value value, mlir::Attribute role) {
    results.push_back(value);
    types.push_back(value.getType());
    attributes.push_back(graph::Boundary::asDictionary(role));
  };
  for (const auto &[name, output] : outputs)
    addResult(emit.materialize(output),
              graph::OutputAttr::get(builder.getStringAttr(name)));
  // New values of parameters other than the optimizer's: running statistics.
  for (auto [parameter, value] : emit.getUpdates())
    addResult(value,
              graph::NextAttr::get(
                  &context, cast<BlockArgument>(parameter).getArgNumber()));
  graph::Boundary boundary(function);
  for (const auto &[argument, range] : emit.getIndexRanges()) {
    unsigned number = cast<BlockArgument>(argument).getArgNumber();
    if (auto input = boundary.getArgument<graph::InputAttr>(number))
      boundary.setArgument(number, input.withRange(range.limit, range.ignored));
  }
  func::ReturnOp::create(builder, fileLocation, results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
  eraseUnused();
  if (failed(verify(*module)))
    return {};
  return std::move(module);
}

} // namespace polyrank::frontends
