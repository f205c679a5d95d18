// Imports a `.pt2` file as one function @forward in the graph dialect.

#include "frontends/exported_program/Import.h"

#include "dialects/graph/NamePattern.h"
#include "frontends/exported_program/GraphRunner.h"
#include "frontends/exported_program/Inputs.h"
#include "frontends/exported_program/Outputs.h"
#include "frontends/exported_program/State.h"
#include "frontends/import/ModuleBuilder.h"
#include "support/MappedFile.h"
#include "support/Names.h"

using namespace mlir;

namespace polyrank::frontends {
namespace exported_program {
namespace {

class ModelImporter {
public:
  ModelImporter(MLIRContext &context, const Archive &archive,
                std::string_view bytes, const ImportOptions &options)
      : context(context), archive(archive), program(archive.getProgram()),
        file{archive.path(), bytes, archive.getBudget()}, options(options),
        builder(context, archive.path(), options.foldingBudget),
        emit(builder.getEmitter()),
        operators{emit, options, failures, "", 0, 0} {
    operators.mayDecompose = !program.isDecomposed;
  }

  OwningOpRef<ModuleOp> run() {
    if (failed(checkSignature()) || failed(createFunction()))
      return {};
    GraphRunner runner(operators, program, archive.getBudget());
    if (failed(checkPatterns(runner)))
      return {};
    for (const auto &symbol : symbols)
      runner.numbers.setSymbol(symbol.getKey(), symbol.getValue());
    for (mlir::Value parameter : trained)
      runner.lost.addTrained(parameter);
    runner.run(values);
    emit.setOrigin(builder.getLocation(), "");
    operators.place = "the outputs";
    auto outputs = findOutputs(runner);
    if (failed(failures.report(builder.getLocation(), options.unsupported)) ||
        failed(outputs) || failed(checkOptions(runner)) ||
        failed(checkTransient()))
      return {};
    for (const std::string &warning : runner.lost.getWarnings())
      emitWarning(builder.getLocation()) << warning;
    for (const std::string &note : runner.lost.getNotes())
      emitRemark(builder.getLocation()) << note;
    return builder.finish(*outputs);
  }

private:
  InFlightDiagnostic error() { return emitError(builder.getLocation()); }

  /// Fails for inputs and outputs that the program of a model does not have.
  LogicalResult checkSignature() {
    for (const InputSpec &spec : program.inputs)
      if (spec.kind == InputSpec::Kind::CustomObject)
        return error() << "the model holds the object `" << spec.target
                       << "` of a custom class, which is not supported; keep "
                          "its tensors as parameters or buffers";
    for (const OutputSpec &spec : program.outputs) {
      if (spec.kind == OutputSpec::Kind::Gradient)
        return error() << "the file holds the forward and the backward of a "
                          "training step in one graph; export the model "
                          "itself, with torch.export.export";
      if (spec.kind == OutputSpec::Kind::UserInputMutation)
        return error() << "the model writes into its input `" << spec.target
                       << "`; let it write into a clone()";
    }
    return success();
  }

  LogicalResult createFunction() {
    auto found = findState(archive);
    if (!found)
      return error() << found.error().message;
    state = std::move(*found);
    auto declared = aten::declare(builder.getLocation(), file, state.entries);
    if (failed(declared))
      return failure();
    if (failed(aten::freezeParameters(builder.getLocation(), options,
                                      declared->parameters)))
      return failure();
    std::vector<UserInput> given = findInputs(&context, program, options);
    std::vector<DeclaredInput> tensors;
    for (const UserInput &input : given)
      if (input.isTensor)
        tensors.push_back(input.declared);
    auto inputs = specialiseInputs(builder.getLocation(), tensors, options,
                                   findDependentSymbols(program));
    if (failed(inputs) || failed(checkInputs(builder.getLocation(), program,
                                             *inputs, options, symbols)))
      return failure();
    builder.createFunction(declared->parameters, *inputs);

    SmallVector<mlir::Value> held;
    for (size_t i = 0; i < declared->parameters.size(); ++i)
      held.push_back(builder.getParameter(i));
    for (auto [parameter, argument] :
         llvm::zip_equal(declared->parameters, held))
      if (parameter.trainable)
        trained.push_back(argument);
    entries = aten::valuesOf(emit, file, state.entries, *declared, held);
    for (auto [name, value] : llvm::zip_equal(state.names, entries))
      values[name] = value;
    for (auto [i, entry] : llvm::enumerate(state.entries))
      numbers.try_emplace(entry.name, i);
    // A buffer that changes at the end must not be taken as a constant before,
    // though a decomposed program reads it first.
    for (const OutputSpec &spec : program.outputs)
      if (spec.kind == OutputSpec::Kind::BufferMutation)
        if (auto found = numbers.find(spec.target);
            found != numbers.end() && entries[found->second].isTensor())
          if (std::string why =
                  entries[found->second].getTensor()->prepareToWrite();
              !why.empty())
            return error() << "buffer `" << spec.target << "`: " << why;
    size_t number = 0;
    for (const UserInput &input : given) {
      if (!input.isTensor)
        continue; // a number or None, fixed in the nodes
      Imported value;
      if (auto known = options.known.find(input.declared.name);
          known != options.known.end()) {
        value = Imported(known->second);
      } else {
        value = builder.getInput(number);
        value.held = (*inputs)[number].held;
        ++number;
      }
      values[input.name] =
          std::make_shared<aten::Tensor>(std::move(value), input.type);
    }
    return success();
  }

  /// The values of the outputs. Writes the buffers that change.
  FailureOr<std::vector<std::pair<std::string, Imported>>>
  findOutputs(GraphRunner &runner) {
    std::vector<std::pair<std::string, Imported>> outputs;
    size_t count = 0;
    for (const OutputSpec &spec : program.outputs)
      count += spec.kind == OutputSpec::Kind::UserOutput;
    std::vector<std::string> names = nameOutputs(program.outputTree, count);
    size_t next = 0;
    bool isComplete = true;
    for (const OutputSpec &spec : program.outputs) {
      using Kind = OutputSpec::Kind;
      if (spec.kind == Kind::Token)
        continue;
      aten::Value value = runner.valueOf(spec.argument, values);
      if (spec.kind == Kind::BufferMutation ||
          spec.kind == Kind::ParameterMutation) {
        isComplete &= succeeded(replace(spec.target, value));
        continue;
      }
      std::string name =
          spec.kind == Kind::Loss ? std::string("loss") : names[next++];
      if (value.isNone())
        continue;
      if (value.isNumber())
        value = aten::tensorOf(emit, value, false);
      if (value.isUnknown()) {
        if (failures.empty())
          failures.add("output `" + name +
                           "` depends on what an operator gives beside its "
                           "main result, such as the indices of a pooling, "
                           "which is not supported",
                       operators.place);
        isComplete = false;
        continue;
      }
      if (!value.isTensor())
        return error() << "output `" << name << "` is " << value.describe()
                       << ", not a tensor";
      outputs.emplace_back(name, value.getTensor()->read(emit));
    }
    if (!isComplete)
      return failure();
    if (outputs.empty())
      return error() << "the model has no outputs";
    return outputs;
  }

  /// Makes `value` the new value of `target`, a parameter or buffer.
  LogicalResult replace(const std::string &target, const aten::Value &value) {
    if (auto found = numbers.find(target); found != numbers.end()) {
      const aten::Value &current = entries[found->second];
      if (value.isUnknown())
        return failure();
      if (!current.isTensor())
        return error() << "buffer `" << target << "` is " << current.describe()
                       << ", which cannot change; register "
                          "torch.view_as_real of it";
      const auto &tensor = current.getTensor();
      if (value.isTensor() && value.getTensor()->isSameAs(*tensor))
        return success(); // written in place
      if (!value.isTensor() ||
          value.getTensor()->getShape() != tensor->getShape() ||
          value.getTensor()->getType() != tensor->getType())
        return error() << "buffer `" << target << "` becomes "
                       << value.describe() << ", but it is "
                       << current.describe();
      Imported next = value.getTensor()->read(emit);
      if (std::string why = tensor->prepareToWrite(); !why.empty())
        return error() << "buffer `" << target << "`: " << why;
      tensor->write(emit, next);
      return success();
    }
    return error() << "the file says that `" << target
                   << "` changes, which is no parameter or buffer";
  }

  LogicalResult checkTransient() {
    for (size_t i = 0; i < entries.size(); ++i)
      if (state.areTransient[i] && entries[i].isTensor() &&
          entries[i].getTensor()->isChanged())
        return error()
               << "buffer `" << state.entries[i].name
               << "` is changed by the model, but is not saved with it; "
                  "register it with persistent=True";
    return success();
  }

  LogicalResult checkPatterns(const GraphRunner &runner) {
    for (const std::string &pattern : options.detach)
      if (std::string reason = graph::explainPattern(pattern); !reason.empty())
        return error() << "--detach '" << pattern
                       << "' is no pattern: " << reason;
    return success();
  }

  /// Fails for an option on something that the model does not have, since it
  /// would have no effect.
  LogicalResult checkOptions(const GraphRunner &runner) {
    if (failed(aten::checkLayerOptions(builder.getLocation(), operators)))
      return failure();
    if (!options.training)
      return success();
    for (auto [pattern, is] : llvm::zip(options.detach, runner.isDetached))
      if (!is)
        return error() << "--detach '" << pattern
                       << "' names no module and no value with a gradient"
                       << nearestNames(pattern, runner.detachableNames);
    return success();
  }

  MLIRContext &context;
  const Archive &archive;
  const Program &program;
  aten::MappedModel file;
  const ImportOptions &options;
  ModuleBuilder builder;
  Emitter &emit;
  Failures failures;
  aten::Context operators;
  State state;
  std::vector<aten::Value> entries; // by entry of the state
  llvm::StringMap<size_t> numbers;  // index of each entry, by name
  SmallVector<mlir::Value> trained; // arguments
  llvm::StringMap<int64_t> symbols; // sizes from the inputs and from --dim
  Scope values;
};

} // namespace
} // namespace exported_program

OwningOpRef<ModuleOp> importExportedProgram(MLIRContext &context,
                                            StringRef path,
                                            const ImportOptions &options) {
  context.loadDialect<func::FuncDialect, graph::GraphDialect>();
  auto fail = [&](const std::string &message) {
    emitError(UnknownLoc::get(&context)) << message;
    return OwningOpRef<ModuleOp>();
  };
  auto archive = exported_program::Archive::open(path.str());
  if (!archive)
    return fail(archive.error().message);
  auto file = MappedFile::open(path.str());
  if (!file)
    return fail(file.error().message);
  if (file->bytes().size() != (*archive)->size())
    return fail(path.str() + ": changes while it is read");
  return exported_program::ModelImporter(context, **archive, file->bytes(),
                                         options)
      .run();
}

} // namespace polyrank::frontends
