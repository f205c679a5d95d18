// Imports a TorchScript file as one function @forward in the graph dialect.

#include "frontends/torchscript/Import.h"

#include "frontends/aten/Complex.h"
#include "frontends/import/LastError.h"
#include "frontends/import/ModuleBuilder.h"
#include "frontends/torchscript/Inputs.h"
#include "frontends/torchscript/Interpreter.h"
#include "support/MappedFile.h"
#include "support/Names.h"

using namespace mlir;

namespace polyrank::frontends {

namespace torchscript {
namespace {

class ModelImporter {
public:
  /// `description`, if not null, receives what is found out about the model.
  ModelImporter(MLIRContext &context, const Archive &archive,
                std::string_view bytes, const ImportOptions &options,
                ModelDescription *description = nullptr)
      : context(context), archive(archive),
        file{archive.path(), bytes, archive.getBudget()}, options(options),
        description(description), state(archive),
        builder(context, archive.path(), options.foldingBudget),
        emit(builder.getEmitter()),
        operators{emit, options, failures, "", 0, 0} {}

  OwningOpRef<ModuleOp> run() {
    if (failed(createFunction()))
      return {};
    Interpreter interpreter(
        archive, state, operators, options.trainingMode, std::move(trained),
        options.training ? ArrayRef(options.detach) : ArrayRef<std::string>());
    auto result =
        interpreter.call(state.getRoot(), "forward", std::move(arguments));
    if (description)
      describeRun(interpreter, result);
    // What stopped execution may be a consequence of what could not be
    // imported.
    if (failed(failures.report(builder.getLocation(), options.unsupported)))
      return {};
    if (!result)
      return fail(interpreter.getError());
    if (failed(checkOptions(interpreter)))
      return {};
    auto outputs = nameOutputs(*result);
    if (!outputs)
      return fail(outputs.error().message);
    emit.setOrigin(builder.getLocation(), "");
    std::vector<std::pair<std::string, Imported>> values;
    for (auto &[name, value] : *outputs)
      values.emplace_back(
          name,
          value.isTensor()
              ? value.getTensor()->read(emit)
              : aten::tensorOf(emit, value, true).getTensor()->read(emit));
    if (!keepAttributes())
      return {};
    return builder.finish(values);
  }

private:
  InFlightDiagnostic error() { return emitError(builder.getLocation()); }
  /// Reports a message of the reader without the file name, which the location
  /// has.
  LogicalResult refuse(StringRef message) {
    message.consume_front(archive.path() + ": ");
    return error() << message;
  }
  std::nullptr_t fail(const Twine &message) {
    error() << message;
    return nullptr;
  }

  LogicalResult createFunction() {
    if (auto found = state.find(); !found)
      return refuse(found.error().message);
    if (!state.getRoot())
      return error() << "the file holds no module";
    const Class &type = *state.getRoot()->type.definition;
    const Function *forward = type.findMethod("forward");
    if (!forward)
      return error() << "the module, of class `" << state.getRoot()->className
                     << "`, has no method `forward`";
    if (!type.hooks.empty() || !type.preHooks.empty())
      return error() << "the model has hooks around its forward, which are not "
                        "supported; remove them before it is exported";
    auto declared =
        aten::declare(builder.getLocation(), file, state.getEntries());
    if (failed(declared))
      return failure();
    if (failed(aten::freezeParameters(builder.getLocation(), options,
                                      declared->parameters)))
      return failure();
    if (description)
      describeParameters(declared->parameters);
    auto found = findArguments(archive, *forward, options);
    if (!found)
      return refuse(found.error().message);
    std::vector<DeclaredInput> given = declareInputs(&context, *found, options);
    if (description)
      describeInputs(given);
    auto inputs = specialiseInputs(builder.getLocation(), given, options);
    if (failed(inputs))
      return failure();
    builder.createFunction(declared->parameters, *inputs);
    SmallVector<mlir::Value> held;
    for (auto [i, parameter] : llvm::enumerate(declared->parameters)) {
      held.push_back(builder.getParameter(i));
      if (parameter.trainable)
        trained.insert(held.back());
    }
    entries = aten::valuesOf(emit, file, state.getEntries(), *declared, held);
    state.setTensors(entries);

    size_t number = 0;
    for (const ForwardArgument &argument : *found) {
      if (!argument.isInput) {
        // All arguments after it are given by position or have defaults too.
        auto formal = llvm::find_if(forward->arguments, [&](const auto &each) {
          return each.name == argument.name;
        });
        std::optional<aten::Value> value = constantOf(*formal->defaultValue);
        if (!value)
          return error() << "the default of `" << argument.name
                         << "` is no constant";
        arguments.push_back(std::move(*value));
        continue;
      }
      Imported value;
      if (auto known = options.known.find(argument.name);
          known != options.known.end()) {
        value = Imported(known->second);
      } else {
        value = Imported(builder.getInput(number));
        value.held = (*inputs)[number].held;
        ++number;
      }
      arguments.push_back(aten::Value(
          std::make_shared<aten::Tensor>(std::move(value), argument.type)));
    }
    return success();
  }

  /// The value of a default as the printer writes it: a literal, or a list of
  /// literals.
  static std::optional<aten::Value> constantOf(const Expression &expression) {
    using Kind = Expression::Kind;
    switch (expression.kind) {
    case Kind::None:
      return aten::Value();
    case Kind::Bool:
      return aten::Value(expression.integer != 0);
    case Kind::Int:
      return aten::Value(expression.integer);
    case Kind::Float:
      return aten::Value(expression.number);
    case Kind::String:
      return aten::Value(expression.text);
    case Kind::List:
    case Kind::Tuple: {
      aten::List elements;
      for (const Expression *operand : expression.operands) {
        auto element = constantOf(*operand);
        if (!element)
          return std::nullopt;
        elements.push_back(std::move(*element));
      }
      return expression.is(Kind::List)
                 ? aten::Value::list(std::move(elements))
                 : aten::Value::tuple(std::move(elements));
    }
    default:
      return std::nullopt;
    }
  }

  void describeParameters(ArrayRef<ParameterSpec> parameters) {
    for (const ParameterSpec &parameter : parameters) {
      DescribedParameter &entry = description->parameters.emplace_back();
      entry.name = parameter.name;
      entry.aliases = parameter.aliases;
      entry.shape.assign(parameter.getModelShape().begin(),
                         parameter.getModelShape().end());
      entry.elements = parameter.getModelElements();
      entry.trainable = parameter.trainable;
    }
    // The element types are those of the entries, which are found by name.
    llvm::StringMap<ElementType> types;
    for (const aten::StateEntry &entry : state.getEntries())
      types.try_emplace(entry.name, entry.tensor.type);
    for (DescribedParameter &parameter : description->parameters) {
      ElementType type = types.lookup(parameter.name);
      parameter.dtype = longNameOf(type);
      parameter.bytes =
          parameter.elements * static_cast<int64_t>(bytesOf(type));
    }
  }

  void describeInputs(ArrayRef<DeclaredInput> inputs) {
    for (const DeclaredInput &input : inputs) {
      DescribedValue &entry = description->inputs.emplace_back();
      entry.name = input.name;
      entry.dtype = input.dtype;
      entry.isFloat = isa<FloatType>(input.elementType);
      auto given = options.inputs.find(input.name);
      if (given != options.inputs.end()) {
        entry.dims.emplace();
        for (int64_t size : given->second.shape)
          entry.dims->push_back({size, ""});
      } else if (input.dims) {
        entry.dims.emplace();
        for (const DeclaredDim &dim : *input.dims)
          entry.dims->push_back({dim.size, dim.name});
      }
    }
  }

  void describeRun(const Interpreter &interpreter,
                   const std::optional<aten::Value> &result) {
    std::map<std::string, DescribedOp> ops;
    for (const auto &[name, count] : interpreter.getCounts()) {
      DescribedOp &op = ops[name];
      op.name = name;
      op.count = count;
      op.isSupported = aten::hasOperator(name);
    }
    description->ops = sortByCount(ops);
    description->numDropouts = operators.numDropouts;
    description->numBatchNorms = operators.numBatchNorms;
    if (!result)
      return;
    auto outputs = nameOutputs(*result);
    if (!outputs)
      return; // the caller reports it when it imports the model
    for (const auto &[name, value] : *outputs) {
      DescribedValue &entry = description->outputs.emplace_back();
      entry.name = name;
      if (!value.isTensor())
        continue;
      const auto &tensor = value.getTensor();
      entry.dtype = longNameOf(tensor->getType());
      entry.isFloat = isFloat(tensor->getType());
      entry.dims.emplace();
      for (int64_t size : tensor->getShape())
        entry.dims->push_back({size, ""});
    }
  }

  /// Fails for an option on something that the model does not have, since it
  /// would have no effect.
  LogicalResult checkOptions(const Interpreter &interpreter) {
    if (failed(aten::checkLayerOptions(builder.getLocation(), operators)))
      return failure();
    for (auto [pattern, is] :
         llvm::zip(options.detach, interpreter.getDetached()))
      if (!is)
        return error() << "--detach '" << pattern
                       << "' matches no module that is called"
                       << nearestNames(pattern, moduleNames());
    return success();
  }

  std::vector<std::string> moduleNames() const {
    std::vector<std::string> names;
    for (const aten::StateEntry &entry : state.getEntries())
      names.push_back(StringRef(entry.name).rsplit('.').first.str());
    return names;
  }

  /// A buffer whose attribute was assigned has the new value after the step.
  bool keepAttributes() {
    for (auto [i, entry] : llvm::enumerate(state.getEntries())) {
      const aten::Value *current = state.getCurrent(i);
      if (!current || current->isSame(entries[i]) ||
          (!entries[i].isTensor() && !aten::asComplex(entries[i])))
        continue;
      if (entry.role == aten::Role::Constant)
        continue; // the new value is only for this step
      std::string reason;
      if (!entries[i].isTensor()) {
        reason = "is complex and becomes another value, which is not "
                 "supported; register torch.view_as_real of it";
      } else if (!current->isTensor()) {
        reason = "becomes " + current->describe();
      } else {
        const auto &from = current->getTensor(), &to = entries[i].getTensor();
        if (from->getShape() != to->getShape() ||
            from->getType() != to->getType())
          reason = "becomes " + current->describe() + ", but it is " +
                   entries[i].describe();
        else
          reason = to->prepareToWrite();
        if (reason.empty())
          to->write(emit, from->read(emit));
      }
      if (!reason.empty()) {
        error() << "buffer `" << entry.name << "` " << reason;
        return false;
      }
    }
    return true;
  }

  MLIRContext &context;
  const Archive &archive;
  aten::MappedModel file;
  const ImportOptions &options;
  ModelDescription *description;
  ModelState state;
  ModuleBuilder builder;
  Emitter &emit;
  Failures failures;
  aten::Context operators;
  std::vector<aten::Value> entries;
  aten::List arguments;
  llvm::DenseSet<mlir::Value> trained;
};

} // namespace
} // namespace torchscript

namespace {
/// The file, opened twice: for reads at offsets, and mapped.
struct OpenedFile {
  std::unique_ptr<torchscript::Archive> archive;
  MappedFile mapped;
};
} // namespace

static Result<OpenedFile> openFile(StringRef path) {
  POLYRANK_ASSIGN(archive, torchscript::Archive::open(path.str()));
  POLYRANK_ASSIGN(mapped, MappedFile::open(path.str()));
  if (mapped.bytes().size() != archive->getZip().file()->size())
    return Error{path.str() + ": changes while it is read"};
  return OpenedFile{std::move(archive), std::move(mapped)};
}

OwningOpRef<ModuleOp> importTorchScript(MLIRContext &context, StringRef path,
                                        const ImportOptions &options) {
  context.loadDialect<func::FuncDialect, graph::GraphDialect>();
  auto file = openFile(path);
  if (!file) {
    emitError(UnknownLoc::get(&context)) << file.error().message;
    return {};
  }
  return torchscript::ModelImporter(context, *file->archive,
                                    file->mapped.bytes(), options)
      .run();
}

Result<ModelDescription> describeTorchScript(StringRef path,
                                             const ImportOptions &options) {
  POLYRANK_ASSIGN(file, openFile(path));
  // Executing the model shows its ops and outputs. Errors that stop the
  // execution are left to the caller, who also imports the model.
  MLIRContext context;
  context.loadDialect<func::FuncDialect, graph::GraphDialect>();
  LastError said(context);
  std::vector<UnsupportedNodes> unsupported;
  ImportOptions described = options;
  described.unsupported = &unsupported;
  ModelDescription description;
  description.producer =
      "TorchScript, version " + std::to_string(file.archive->getVersion());
  torchscript::ModelImporter(context, *file.archive, file.mapped.bytes(),
                             described, &description)
      .run();
  if (description.parameters.empty() && !said.message.empty())
    return Error{said.message};
  for (UnsupportedNodes &each : unsupported)
    for (DescribedOp &op : description.ops)
      if (!op.isSupported && StringRef(each.reason).starts_with(op.name))
        op.nodes = each.nodes;
  return description;
}

} // namespace polyrank::frontends
