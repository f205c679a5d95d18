// Imports an ONNX model as one function @forward in the graph dialect.

#include "frontends/onnx/Import.h"

#include "frontends/import/ModuleBuilder.h"
#include "frontends/onnx/Freeze.h"
#include "frontends/onnx/GraphImporter.h"
#include "frontends/onnx/Inputs.h"
#include "frontends/onnx/NamedTensors.h"
#include "frontends/onnx/Parameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace polyrank::frontends {

namespace onnx {
namespace {

class ModelImporter {
public:
  ModelImporter(MLIRContext &context, const Model &model,
                const NamedTensors *named, const ImportOptions &options)
      : context(context), model(model), named(named), options(options),
        builder(context, model.path, options.foldingBudget),
        fileLocation(builder.getLocation()), emit(builder.getEmitter()) {}

  OwningOpRef<ModuleOp> run() {
    auto opsets = toOpsets(fileLocation, model.opsets);
    if (failed(opsets) || failed(checkLayerOptions()))
      return {};
    auto declared = findInputs(fileLocation, model, options);
    if (failed(declared))
      return {};
    auto specialised = specialiseInputs(fileLocation, *declared, options);
    if (failed(specialised))
      return {};
    inputs = std::move(*specialised);
    GraphImporter importer(emit, model, options, std::move(*opsets));
    if (failed(createFunction(importer)))
      return {};
    std::vector<std::string> kept;
    for (const BufferUpdate &update : updates)
      kept.push_back(update.value);
    importer.run(values, kept);
    if (failed(importer.report(fileLocation)) ||
        failed(checkDetached(importer)) || failed(updateBuffers()))
      return {};
    auto outputs = findOutputs();
    if (failed(outputs))
      return {};
    return builder.finish(*outputs);
  }

private:
  InFlightDiagnostic error() { return emitError(fileLocation); }

  /// Fails for an option on layers that the model does not have, since it would
  /// have no effect.
  LogicalResult checkLayerOptions() {
    auto hasNode = [&](llvm::function_ref<bool(const Node &)> is) {
      bool has = false;
      forEachNode(model.graph, [&](const Node &node) { has |= is(node); });
      for (const Function &function : model.functions)
        has |= llvm::any_of(function.nodes, is);
      return has;
    };
    auto isOf = [](std::string_view type) {
      return [type](const Node &node) { return node.type == type; };
    };
    if (options.batchNorm != BatchNorm::Unset &&
        !hasNode(isOf("BatchNormalization")))
      return error() << "--batch-norm: the model has no batch normalization. "
                        "Exporters merge it into the convolutions: export "
                        "with dynamo=True, optimize=False to keep it, or leave "
                        "the option out";
    if (options.dropout.value_or(0) > 0 && !hasNode(isOf("Dropout")) &&
        !hasNode([](const Node &node) { return attentionDropout(node) > 0; }))
      return error() << "--dropout: the model has no dropout, which a model in "
                        "evaluation mode is exported without; export it after "
                        "model.train(), or leave the option out";
    return success();
  }

  LogicalResult createFunction(GraphImporter &importer) {
    ModelState state = findState(model, options.tie, named, options.trainOnly);
    if (!options.tie && state.copies == 0)
      return error() << "--no-tie: the file holds no copy of a tied matrix; "
                        "leave the option out";
    if (options.training && options.trainOnly.empty() &&
        !state.untrained.empty())
      return error() << state.untrained;
    if (std::string reason = freeze(state, options.freeze, options.trainOnly);
        !reason.empty())
      return error() << reason;
    if (failed(findGradients(state, importer)))
      return failure();
    for (const std::string &warning : state.warnings)
      emitWarning(fileLocation) << warning;
    for (const std::string &note : state.notes)
      emitRemark(fileLocation) << note;
    if (!state.staleBuffers.empty()) {
      if (options.training)
        return error() << state.staleBuffers;
      emitWarning(fileLocation) << state.staleBuffers;
    }
    updates = state.updates;

    std::vector<ParameterSpec> parameters;
    for (const Parameter &parameter : state.parameters) {
      auto spec = specify(parameter);
      if (failed(spec))
        return failure();
      parameters.push_back(std::move(*spec));
    }
    builder.createFunction(parameters, inputs);

    // An argument has the orientation of the user's parameter; the nodes of the
    // file may use its transpose.
    auto valueOf = [&](ParameterUse use) {
      Imported argument{builder.getParameter(use.index)};
      return use.transposed ? emit.transpose(argument, {1, 0}) : argument;
    };
    for (const auto &each : state.values) {
      ParameterUse use = each.getValue();
      Imported &value = values[each.getKey()] = valueOf(use);
      value.held = heldType(&context, state.parameters[use.index].tensor->type);
    }
    for (const auto &each : state.values)
      importer.held.insert(each.getKey());
    for (const auto &[operand, use] : state.operands)
      importer.replaced[operand] = valueOf(use);
    for (const auto &[operand, e] : state.foldedOperands) {
      std::string_view name = operand.first->inputs[operand.second];
      auto tensor = llvm::find_if(
          model.graph.initializers,
          [&](const StoredTensor &each) { return each.name == name; });
      importer.replaced[operand] = compute(e, tensor->dims);
    }
    for (const auto &known : options.known)
      values[known.getKey()] = Imported(known.getValue());
    for (auto [i, input] : llvm::enumerate(inputs)) {
      Imported &value = values[input.name];
      value = builder.getInput(i);
      value.held = input.held;
    }
    for (const StoredTensor &tensor : model.graph.initializers) {
      if (values.contains(tensor.name))
        continue;
      if (auto folded = state.folded.find(StringRef(tensor.name));
          folded != state.folded.end()) {
        values[tensor.name] = compute(folded->second, tensor.dims);
        continue;
      }
      auto known = toTensor(&context, model, tensor);
      if (!known)
        return error() << known.error().message;
      values[tensor.name] = Imported(std::move(*known));
      values[tensor.name].held = heldType(&context, tensor.type);
    }
    return success();
  }

  /// Computes `e`, which has dims `dims`, from the arguments.
  Imported compute(const Expression &e, ArrayRef<int64_t> dims) {
    using Kind = Expression::Kind;
    auto operand = [&](size_t i) { return compute(e.operands[i], dims); };
    switch (e.kind) {
    case Kind::View: {
      Imported x{builder.getParameter(e.parameter)};
      for (size_t dim = 0; dim < e.starts.size(); ++dim)
        x = emit.slice(x, dim, e.starts[dim], e.limits[dim]);
      x = emit.reshape(emit.transpose(x, e.permutation), e.shape);
      return emit.broadcast(x, dims, /*asValue=*/true);
    }
    case Kind::Number:
      return emit.broadcast(emit.scalar(Float32Type::get(&context), e.number),
                            dims,
                            /*asValue=*/true);
    case Kind::Neg:
      return emit.unary<graph::NegOp>(operand(0));
    case Kind::Exp:
      return emit.unary<graph::ExpOp>(operand(0));
    case Kind::Log:
      return emit.unary<graph::LogOp>(operand(0));
    case Kind::Sqrt:
      return emit.unary<graph::SqrtOp>(operand(0));
    case Kind::Sigmoid:
      return emit.unary<graph::SigmoidOp>(operand(0));
    case Kind::Tanh:
      return emit.unary<graph::TanhOp>(operand(0));
    case Kind::Abs:
      return emit.unary<graph::AbsOp>(operand(0));
    case Kind::Relu:
      return emit.unary<graph::ReluOp>(operand(0));
    case Kind::Add:
      return emit.binary<graph::AddOp>(operand(0), operand(1));
    case Kind::Sub:
      return emit.binary<graph::SubOp>(operand(0), operand(1));
    case Kind::Mul:
      return emit.binary<graph::MulOp>(operand(0), operand(1));
    case Kind::Div:
      return emit.binary<graph::DivOp>(operand(0), operand(1));
    case Kind::Concat: {
      SmallVector<Imported> parts;
      for (const Expression &part : e.operands)
        parts.push_back(compute(part, part.shape));
      return emit.reshape(emit.concat(parts, 0), dims);
    }
    }
    llvm_unreachable("covered switch");
  }

  /// Finds the values through which no gradient passes, if this is a training
  /// plan.
  LogicalResult findGradients(const ModelState &state,
                              GraphImporter &importer) {
    if (!options.training)
      return success();
    Detached &detached = importer.detached =
        findDetached(model, state, options.detach);
    if (!detached.error.empty())
      return error() << detached.error;
    for (const std::string &warning : detached.warnings)
      emitWarning(fileLocation) << warning;
    importer.isDetached.assign(options.detach.size(), false);
    return success();
  }

  FailureOr<ParameterSpec> specify(const Parameter &parameter) {
    const StoredTensor &tensor = *parameter.tensor;
    Type elementType = storedType(&context, tensor.type);
    if (!elementType)
      return error() << "parameter `" << parameter.name << "` is "
                     << longNameOf(tensor.type) << ", which is not supported";
    ParameterSpec spec;
    spec.name = parameter.name;
    spec.aliases = parameter.aliases;
    spec.stored = RankedTensorType::get(parameter.getDims(), elementType);
    spec.computed = computedType(&context, tensor.type);
    spec.trainable = parameter.trainable;
    spec.transposed = parameter.transposed && tensor.span;
    // A tensor whose elements are encoded one by one has no span in the file.
    if (!tensor.span && !tensor.isAbsent && spec.stored.getNumElements() > 0) {
      auto known = toTensor(&context, model, tensor);
      if (!known)
        return error() << known.error().message;
      Imported elements(std::move(*known));
      if (parameter.transposed)
        elements = emit.transpose(elements, {1, 0});
      if (!elements.isConstant())
        return error() << "parameter `" << parameter.name
                       << "` is too large to be stored element by element; "
                          "store it as raw data";
      graph::Tensor stored = *elements.constant;
      stored.elementType = elementType;
      spec.value = stored.toAttribute();
    }
    if (!tensor.isAbsent)
      spec.span = tensor.span.value_or(FileSpan());
    return spec;
  }

  FailureOr<std::vector<std::pair<std::string, Imported>>> findOutputs() {
    if (model.graph.outputs.empty())
      return error() << "the model has no outputs";
    std::vector<std::pair<std::string, Imported>> outputs;
    for (const ValueInfo &output : model.graph.outputs) {
      auto found = values.find(output.name);
      if (found == values.end() || !found->second || found->second.sequence)
        return error() << "output `" << std::string(output.name)
                       << "` is no tensor that a node computes";
      outputs.emplace_back(output.name, found->second);
    }
    return outputs;
  }

  /// Sets the new values of buffers to what the graph computes.
  LogicalResult updateBuffers() {
    emit.setOrigin(fileLocation, "");
    for (const BufferUpdate &update : updates) {
      Value buffer = builder.getParameter(update.index);
      auto found = values.find(update.value);
      if (found == values.end() || !found->second || found->second.sequence)
        return error() << "buffer `" << update.buffer << "` becomes `"
                       << update.value << "`, which is no tensor";
      Value next = emit.materialize(found->second);
      if (next.getType() != buffer.getType())
        return error() << "buffer `" << update.buffer << "` is "
                       << buffer.getType() << ", but becomes `" << update.value
                       << "`, which is " << next.getType();
      emit.update(buffer, next);
    }
    return success();
  }

  LogicalResult checkDetached(const GraphImporter &importer) {
    for (auto [pattern, is] : llvm::zip(options.detach, importer.isDetached))
      if (!is)
        return error() << "--detach '" << pattern
                       << "' names values that have no gradient (constants, "
                          "integers) or that another pattern names; leave it "
                          "out";
    return success();
  }

  MLIRContext &context;
  const Model &model;
  const NamedTensors *named;
  const ImportOptions &options;
  ModuleBuilder builder;
  const Location fileLocation;
  Emitter &emit;
  std::vector<Input> inputs;
  std::vector<BufferUpdate> updates;
  Scope values;
};

} // namespace
} // namespace onnx

OwningOpRef<ModuleOp> importOnnx(MLIRContext &context, StringRef path,
                                 const ImportOptions &options) {
  context.loadDialect<func::FuncDialect, graph::GraphDialect>();
  auto model = onnx::readModel(path.str(), options.abstractWeights
                                               ? onnx::Weights::MayBeAbsent
                                               : onnx::Weights::Required);
  if (!model) {
    emitError(UnknownLoc::get(&context)) << model.error().message;
    return {};
  }
  std::optional<onnx::NamedTensors> named;
  if (!options.params.empty()) {
    auto opened = onnx::openNamedTensors(**model, options.params);
    if (!opened) {
      emitError(UnknownLoc::get(&context)) << opened.error().message;
      return {};
    }
    named = std::move(*opened);
  }
  return onnx::ModelImporter(context, **model, named ? &*named : nullptr,
                             options)
      .run();
}

} // namespace polyrank::frontends
