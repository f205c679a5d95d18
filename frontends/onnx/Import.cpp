// ONNX model -> one function @forward in the graph dialect.

#include "frontends/onnx/Import.h"

#include "dialects/graph/Boundary.h"
#include "frontends/onnx/Freeze.h"
#include "frontends/onnx/GraphImporter.h"
#include "frontends/onnx/Inputs.h"
#include "frontends/onnx/Parameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace polyrank::frontends {

namespace onnx {
namespace {

class ModelImporter {
public:
  ModelImporter(MLIRContext &context, const Model &model,
                const ImportOptions &options)
      : context(context), model(model), options(options),
        fileLocation(FileLineColLoc::get(&context, model.path, 0, 0)),
        module(ModuleOp::create(fileLocation)),
        emit(OpBuilder(&context), fileLocation, options.foldingBudget) {}

  OwningOpRef<ModuleOp> run() {
    auto opsets = toOpsets(fileLocation, model.opsets);
    if (failed(opsets) || failed(checkLayerOptions()))
      return {};
    auto specialised = specialiseInputs(fileLocation, model, options);
    if (failed(specialised))
      return {};
    inputs = std::move(*specialised);
    GraphImporter importer(emit, model, options, std::move(*opsets));
    if (failed(createFunction(importer)))
      return {};
    importer.run(values);
    if (failed(importer.report(fileLocation)) ||
        failed(checkDetached(importer)) || failed(createReturn()))
      return {};
    eraseUnused();
    if (failed(verify(*module)))
      return {};
    return std::move(module);
  }

private:
  InFlightDiagnostic error() { return emitError(fileLocation); }

  /// An option for layers that the model does not have would change nothing.
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
    ModelState state = findState(model, options.tie);
    if (!options.tie && state.copies == 0)
      return error() << "--no-tie: the file holds no copy of a tied matrix; "
                        "leave the option out";
    if (std::string reason = freeze(state, options.freeze, options.trainOnly);
        !reason.empty())
      return error() << reason;
    if (failed(findGradients(state, importer)))
      return failure();
    for (const std::string &warning : state.warnings)
      emitWarning(fileLocation) << warning;
    for (const std::string &note : state.notes)
      emitRemark(fileLocation) << note;
    noteConversions(state);

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
    for (const Parameter &parameter : state.parameters) {
      auto type = createParameter(builder, parameter);
      if (failed(type))
        return failure();
      addArgument(graph::ParameterAttr::get(
                      FlatSymbolRefAttr::get(&context, parameter.name)),
                  parameter.name, *type);
    }
    for (const Input &input : inputs) {
      auto role = graph::InputAttr::get(builder.getStringAttr(input.name));
      addArgument(input.hasOpenBatch ? role.withOpenBatch() : role, input.name,
                  input.type);
    }

    function = func::FuncOp::create(builder, fileLocation, "forward",
                                    builder.getFunctionType(types, {}),
                                    ArrayRef<NamedAttribute>(), attributes);
    Block *body =
        builder.createBlock(&function.getBody(), {}, types, locations);
    emit.getBuilder().setInsertionPointToEnd(body);
    emit.getRandomness = [this] { return getRandomness(); };

    // An argument has the model's orientation; the graph may use its transpose.
    auto valueOf = [&](ParameterUse use) {
      Imported argument{Value(body->getArgument(use.index))};
      return use.transposed ? emit.transpose(argument, {1, 0}) : argument;
    };
    for (const auto &each : state.values)
      values[each.getKey()] = valueOf(each.getValue());
    for (const auto &each : state.values)
      importer.held.insert(each.getKey());
    for (const auto &[operand, use] : state.operands)
      importer.replaced[operand] = valueOf(use);
    for (const auto &known : options.known)
      values[known.getKey()] = Imported(known.getValue());
    for (auto [i, input] : llvm::enumerate(inputs)) {
      unsigned number = state.parameters.size() + i;
      Imported &value = values[input.name];
      value = Value(body->getArgument(number));
      value.held = input.held;
    }
    for (const StoredTensor &tensor : model.graph.initializers) {
      if (values.contains(tensor.name))
        continue;
      if (auto folded = state.folded.find(StringRef(tensor.name));
          folded != state.folded.end()) {
        values[tensor.name] = compute(folded->second, body, tensor.dims);
        continue;
      }
      std::string reason;
      if (auto known = toTensor(&context, model, tensor, reason))
        values[tensor.name] = Imported(std::move(*known));
      else
        return error() << reason;
      values[tensor.name].held = toHeldType(&context, tensor.type);
    }
    return success();
  }

  /// The value of `e`, which has `dims`, over the arguments of `body`.
  Imported compute(const Expression &e, Block *body, ArrayRef<int64_t> dims) {
    using Kind = Expression::Kind;
    auto operand = [&](size_t i) { return compute(e.operands[i], body, dims); };
    switch (e.kind) {
    case Kind::View: {
      Imported x{Value(body->getArgument(e.parameter))};
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
    }
    llvm_unreachable("covered switch");
  }

  /// Where no gradient passes: of use in training alone.
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

  /// Arguments behind all others, by their roles.
  std::array<Value, 3> getRandomness() {
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

  /// What the rule of element types changes, in one note.
  void noteConversions(const ModelState &state) {
    std::map<std::string, size_t> counts;
    for (const Parameter &parameter : state.parameters)
      if (Type type = toElementType(&context, parameter.tensor->type);
          type && isa<FloatType>(type) &&
          parameter.tensor->type != DataType::Float)
        ++counts[nameOf(parameter.tensor->type)];
    for (const auto &[type, count] : counts)
      emitRemark(fileLocation)
          << count << (count == 1 ? " tensor is " : " tensors are ") << type
          << " in the file; computed and saved in float32";
  }

  /// The type of the argument that holds the parameter.
  FailureOr<RankedTensorType> createParameter(OpBuilder &builder,
                                              const Parameter &parameter) {
    const StoredTensor &tensor = *parameter.tensor;
    Type elementType = toStoredType(&context, tensor.type);
    if (!elementType)
      return error() << "parameter `" << parameter.name << "` is "
                     << nameOf(tensor.type) << ", which is not supported";
    auto type = RankedTensorType::get(parameter.getDims(), elementType);
    // Elements that are encoded one by one have no span in the file.
    ElementsAttr value;
    if (!tensor.span && !tensor.isAbsent && type.getNumElements() > 0) {
      std::string reason;
      auto known = toTensor(&context, model, tensor, reason);
      if (!known)
        return error() << reason;
      Imported elements(std::move(*known));
      if (parameter.transposed)
        elements = emit.transpose(elements, {1, 0});
      if (!elements.isConstant())
        return error() << "parameter `" << parameter.name
                       << "` is too large to be stored element by element; "
                          "store it as raw data";
      graph::Tensor stored = *elements.constant;
      stored.elementType = elementType;
      value = stored.toAttribute();
    }
    SmallVector<StringRef> aliases(parameter.aliases.begin(),
                                   parameter.aliases.end());
    FileSpan span =
        tensor.isAbsent ? FileSpan() : tensor.span.value_or(FileSpan());
    graph::ParameterOp::create(
        builder, NameLoc::get(builder.getStringAttr(parameter.name)),
        parameter.name, type, span.path, static_cast<int64_t>(span.offset),
        static_cast<int64_t>(span.length), parameter.trainable,
        aliases.empty() ? ArrayAttr() : builder.getStrArrayAttr(aliases),
        parameter.transposed && tensor.span, value);
    return type.clone(toElementType(&context, tensor.type));
  }

  LogicalResult createReturn() {
    if (model.graph.outputs.empty())
      return error() << "the model has no outputs";
    OpBuilder &builder = emit.getBuilder();
    SmallVector<Value> results;
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    emit.setOrigin(fileLocation, "");
    for (const ValueInfo &output : model.graph.outputs) {
      auto found = values.find(output.name);
      if (found == values.end() || !found->second || found->second.sequence)
        return error() << "output `" << std::string(output.name)
                       << "` is no tensor that a node computes";
      Value value = emit.materialize(found->second);
      results.push_back(value);
      types.push_back(value.getType());
      attributes.push_back(graph::Boundary::asDictionary(
          graph::OutputAttr::get(builder.getStringAttr(output.name))));
    }
    // What a step leaves in parameters beside the optimizer: running
    // statistics.
    for (auto [parameter, value] : emit.getUpdates()) {
      unsigned number = cast<BlockArgument>(parameter).getArgNumber();
      results.push_back(value);
      types.push_back(value.getType());
      attributes.push_back(graph::Boundary::asDictionary(
          graph::NextAttr::get(&context, number)));
    }
    graph::Boundary boundary(function);
    for (const auto &[argument, range] : emit.getIndexRanges()) {
      unsigned number = cast<BlockArgument>(argument).getArgNumber();
      if (auto input = boundary.getArgument<graph::InputAttr>(number))
        boundary.setArgument(number,
                             input.withRange(range.limit, range.ignored));
    }
    func::ReturnOp::create(builder, fileLocation, results);
    function.setType(
        builder.getFunctionType(function.getArgumentTypes(), types));
    function.setAllResultAttrs(attributes);
    return success();
  }

  void eraseUnused() {
    Operation *op = &function.getBody().front().back();
    while (op) {
      Operation *previous = op->getPrevNode();
      if (isOpTriviallyDead(op))
        op->erase();
      op = previous;
    }
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
  const ImportOptions &options;
  Location fileLocation;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  /// Seed, step and microbatch, where the model has randomness.
  std::array<Value, 3> randomness;
  Emitter emit;

  std::vector<Input> inputs;
  Scope values;
};

} // namespace
} // namespace onnx

OwningOpRef<ModuleOp> importOnnx(MLIRContext &context, StringRef path,
                                 const ImportOptions &options) {
  context.loadDialect<func::FuncDialect, graph::GraphDialect>();
  std::string error;
  auto model =
      onnx::readModel(path.str(), error,
                      options.abstractWeights ? onnx::Weights::MayBeAbsent
                                              : onnx::Weights::Required);
  if (!model) {
    emitError(UnknownLoc::get(&context)) << error;
    return {};
  }
  return onnx::ModelImporter(context, *model, options).run();
}

} // namespace polyrank::frontends
