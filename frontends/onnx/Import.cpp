// ONNX model -> one function @forward in the graph dialect.

#include "frontends/onnx/Import.h"

#include <list>

#include "dialects/graph/Boundary.h"
#include "frontends/onnx/Detach.h"
#include "frontends/onnx/Freeze.h"
#include "frontends/onnx/NodeImporter.h"
#include "frontends/onnx/Origin.h"
#include "frontends/onnx/Parameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "runtime/Names.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

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

constexpr int maxCallDepth = 16;
constexpr size_t maxReasons = 20; // in one report

/// Values by their ONNX names; each call of a function has its own.
using Scope = llvm::StringMap<Imported>;

class ModelImporter {
public:
  ModelImporter(MLIRContext &context, const Model &model,
                const ImportOptions &options)
      : context(context), model(model), options(options),
        fileLocation(FileLineColLoc::get(&context, model.path, 0, 0)),
        module(ModuleOp::create(fileLocation)),
        emit(OpBuilder(&context), fileLocation, options.foldingBudget) {}

  OwningOpRef<ModuleOp> run() {
    if (failed(readOpsets()) || failed(checkLayerOptions()) ||
        failed(specialiseInputs()) || failed(createFunction()))
      return {};
    countUses(model.graph.nodes);
    for (const ValueInfo &output : model.graph.outputs)
      ++uses[output.name];
    importNodes(model.graph.nodes, values, opsets, 0, &uses);
    if (failed(report()) || failed(checkDetached()) || failed(createReturn()))
      return {};
    eraseUnused();
    if (failed(verify(*module)))
      return {};
    return std::move(module);
  }

private:
  using Opsets = std::map<std::string_view, int64_t>;

  InFlightDiagnostic error() { return emitError(fileLocation); }

  FailureOr<Opsets> toOpsets(const std::vector<OpsetImport> &imports) {
    Opsets result;
    for (const OpsetImport &each : imports) {
      std::string_view domain = each.domain == "ai.onnx" ? "" : each.domain;
      if (domain.empty() && each.version > newestOpset)
        return error() << "opset " << each.version
                       << " is not supported, only up to " << newestOpset
                       << "; export with opset_version=20";
      result[domain] = each.version;
    }
    return result;
  }

  LogicalResult readOpsets() {
    auto imports = toOpsets(model.opsets);
    if (failed(imports))
      return failure();
    opsets = *imports;
    return success();
  }

  /// An option for layers that the model does not have would change nothing.
  LogicalResult checkLayerOptions() {
    auto hasNode = [&](std::string_view type) {
      auto isOfType = [&](const Node &node) { return node.type == type; };
      return llvm::any_of(model.graph.nodes, isOfType) ||
             llvm::any_of(model.functions, [&](const Function &function) {
               return llvm::any_of(function.nodes, isOfType);
             });
    };
    if (options.batchNorm != BatchNorm::Unset && !hasNode("BatchNormalization"))
      return error() << "--batch-norm: the model has no batch normalization. "
                        "Exporters merge it into the convolutions: export "
                        "with dynamo=True, optimize=False to keep it, or leave "
                        "the option out";
    if (options.dropout.value_or(0) > 0 && !hasNode("Dropout") &&
        llvm::none_of(model.graph.nodes, [](const Node &node) {
          return attentionDropout(node) > 0;
        }))
      return error() << "--dropout: the model has no dropout, which a model in "
                        "evaluation mode is exported without; export it after "
                        "model.train(), or leave the option out";
    return success();
  }

  //===-- inputs ---------------------------------------------------------===//

  struct Input {
    std::string name;
    RankedTensorType type;
    DataType held;     // see Imported
    bool hasOpenBatch; // the file leaves dim 0 open
  };

  LogicalResult specialiseInputs() {
    std::set<std::string_view> initialised;
    for (const Tensor &tensor : model.graph.initializers)
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
      if (auto known = options.known.find(StringRef(value.name));
          known != options.known.end()) {
        values[value.name] = Imported(known->second);
        continue;
      }
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
                       << runtime::nearestWords(each.getKey(), words);
    return success();
  }

  LogicalResult specialise(
      const ValueInfo &value,
      std::map<std::string_view, std::pair<int64_t, std::string>> &sizes) {
    std::string name(value.name);
    auto inputError = [&] { return error() << "input `" << name << "` "; };
    Type elementType = toElementType(&context, value.type);
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
    inputs.push_back(
        {name, RankedTensorType::get(shape, elementType),
         isHeldWider(value.type) ? value.type : DataType::Undefined,
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

  //===-- the function ---------------------------------------------------===//

  LogicalResult createFunction() {
    ModelState state = findState(model, options.tie);
    if (!options.tie && state.copies == 0)
      return error() << "--no-tie: the file holds no copy of a tied matrix; "
                        "leave the option out";
    if (std::string reason = freeze(state, options.freeze, options.trainOnly);
        !reason.empty())
      return error() << reason;
    if (failed(findGradients(state)))
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
      held.insert(each.getKey());
    for (const auto &[operand, use] : state.operands)
      replaced[operand] = valueOf(use);
    for (auto [i, input] : llvm::enumerate(inputs)) {
      unsigned number = state.parameters.size() + i;
      Imported &value = values[input.name];
      value = Value(body->getArgument(number));
      value.held = input.held;
    }
    for (const Tensor &tensor : model.graph.initializers) {
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
      if (isHeldWider(tensor.type))
        values[tensor.name].held = tensor.type;
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
  LogicalResult findGradients(const ModelState &state) {
    if (!options.training)
      return success();
    detached = findDetached(model, state, options.detach);
    if (!detached.error.empty())
      return error() << detached.error;
    for (const std::string &warning : detached.warnings)
      emitWarning(fileLocation) << warning;
    isDetached.assign(options.detach.size(), false);
    return success();
  }

  /// `x` without its gradient, if it could have one.
  Imported detach(const Imported &x) {
    return x.value && isa<FloatType>(x.getElementType())
               ? emit.unary<graph::DetachOp>(x)
               : x;
  }

  /// The results of a node that patterns name.
  void detachResults(const Node &node, Scope &scope) {
    for (std::string_view name : node.outputs) {
      auto found = detached.values.find(StringRef(name));
      if (found == detached.values.end())
        continue;
      Imported &value = scope[name];
      if (!value.value || !isa<FloatType>(value.getElementType()))
        continue;
      value = detach(value);
      isDetached[found->second] = true;
    }
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
    const Tensor &tensor = *parameter.tensor;
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

  //===-- nodes ----------------------------------------------------------===//

  void countUses(const std::vector<Node> &nodes) {
    for (const Node &node : nodes)
      for (std::string_view input : node.inputs)
        ++uses[input];
  }

  /// `remaining` uses of each name, so that what was computed for shapes and
  /// masks is freed when it has served; null inside of functions.
  void importNodes(const std::vector<Node> &nodes, Scope &scope,
                   const Opsets &opsets, int depth,
                   std::map<std::string_view, int64_t> *remaining) {
    StringSet<> computed;
    for (const Node &node : nodes) {
      if (++importedNodes > maxNodes)
        return; // `report` says so
      // An Identity that makes a parameter of its own of a merged one.
      if (depth == 0 && node.type == "Identity" && node.outputs.size() == 1 &&
          held.contains(node.outputs[0]))
        continue;
      SmallVector<Imported> operands;
      bool complete = true;
      for (std::string_view name : node.inputs) {
        if (name.empty()) {
          operands.emplace_back();
          continue;
        }
        auto found = scope.find(StringRef(name));
        if (found == scope.end()) {
          fail(node, explainMissing(nodes, node, name));
          complete = false;
          break;
        }
        // Empty: the node that computes it has failed and said so.
        complete &= bool(found->second);
        auto other = replaced.find({&node, operands.size()});
        operands.push_back(other == replaced.end() ? found->second
                                                   : other->second);
        if (detached.operands.count({&node, operands.size() - 1})) {
          emit.setOrigin(locationOf(&context, node, originOf(node)),
                         originOf(node).scope);
          operands.back() = detach(operands.back());
        }
      }
      for (std::string_view name : node.outputs) {
        if (!name.empty() &&
            (!computed.insert(name).second || scope.contains(name))) {
          fail(node, "computes `" + std::string(name) +
                         "`, which is the name of an input, a weight or "
                         "another node's result; export the model again");
          complete = false;
        }
        scope[name] = Imported();
      }
      const Function *function = model.findFunction(node);
      if (function) {
        if (complete)
          importCall(node, *function, operands, scope, depth);
      } else {
        importNode(node, operands, complete, scope, opsets);
      }
      if (depth == 0)
        detachResults(node, scope);
      if (remaining)
        for (std::string_view name : node.inputs)
          if (--(*remaining)[name] == 0)
            scope.erase(name);
    }
  }

  /// Why there is no value called `name` when it is the turn of `node`, one of
  /// `nodes`.
  std::string explainMissing(const std::vector<Node> &nodes, const Node &node,
                             std::string_view name) {
    std::string text = "uses `" + std::string(name) + "`, ";
    if (failures.size() > maxReasons)
      return text + "which nothing before it computes"; // and is not shown
    std::map<std::string_view, const Node *> producers;
    for (const Node &each : nodes)
      for (std::string_view output : each.outputs)
        producers.try_emplace(output, &each);
    if (!producers.count(name))
      return text + "which is no input, no weight and no node's result";
    // Does what computes it need this node?
    std::vector<std::string_view> pending = {name};
    std::set<std::string_view> seen;
    while (!pending.empty()) {
      std::string_view next = pending.back();
      pending.pop_back();
      auto found = producers.find(next);
      if (found == producers.end() || !seen.insert(next).second)
        continue;
      if (found->second == &node)
        return text + "which is computed from its own result `" +
               std::string(next) + "`: the graph has a cycle";
      llvm::append_range(pending, found->second->inputs);
    }
    return text + "which only a later node, `" +
           std::string(producers[name]->name) +
           "`, computes; sort the nodes, or export the model again";
  }

  void importNode(const Node &node, ArrayRef<Imported> operands, bool complete,
                  Scope &scope, const Opsets &opsets) {
    auto opset = opsets.find(node.domain);
    const OpRow *row = opset == opsets.end()
                           ? nullptr
                           : findRow(node.domain, node.type, opset->second);
    if (!row) {
      unsupported[opName(node)].push_back(&node);
      return;
    }
    if (!complete)
      return;
    if (node.outputs.empty())
      return fail(node, "it has no output");
    Origin origin = originOf(node);
    emit.setOrigin(locationOf(&context, node, origin), origin.scope);
    if (std::string reason = whyNotOfUint64(node, operands); !reason.empty())
      return fail(node, reason);
    NodeImporter importer(emit, options, model, node, row->since, operands);
    LogicalResult imported = row->import(importer);
    std::string rejected = emit.takeError();
    if (failed(imported))
      return fail(node, importer.getReason().str());
    if (!rejected.empty())
      return fail(node, rejected);
    for (auto [name, result] : llvm::zip(node.outputs, importer.getResults())) {
      if (name.empty())
        continue;
      if (!result && uses[name] > 0)
        return fail(node,
                    "its result `" + std::string(name) + "` is not supported");
      scope[name] = hold(result, node, heldTypeOf(node, operands));
    }
  }

  /// `result` of a node whose elements are of `type`, which it is then held to.
  Imported hold(Imported result, const Node &node, DataType type) {
    if (type == DataType::Undefined || (!result.value && !result.constant) ||
        result.getElementType() != toElementType(&context, type))
      return result;
    if (mayOverflow(node.type))
      result = wrapAround(emit, result, type);
    result.held = type;
    return result;
  }

  /// Other ops give what one of their operands holds.
  static bool mayOverflow(StringRef type) {
    return llvm::is_contained({"Add", "Sub", "Mul", "Div", "Neg", "Abs", "Pow",
                               "Mod", "Sum", "ReduceSum", "ReduceProd",
                               "CumSum", "BitShift", "BitwiseNot", "Cast",
                               "CastLike"},
                              type);
  }

  /// Why an op cannot be computed on the bits of uint64 as on those of int64.
  static std::string whyNotOfUint64(const Node &node,
                                    ArrayRef<Imported> operands) {
    if (llvm::none_of(operands, [](const Imported &operand) {
          return operand.held == DataType::Uint64;
        }))
      return "";
    bool isOrdered = llvm::is_contained(
        {"Div", "Mod", "Max", "Min", "Less", "LessOrEqual", "Greater",
         "GreaterOrEqual", "Pow", "Clip", "ArgMax", "ArgMin", "ReduceMax",
         "ReduceMin", "Abs", "Sign", "Relu"},
        StringRef(node.type));
    if (node.type == "Cast")
      for (const Attribute &attribute : node.attributes)
        isOrdered |= attribute.name == "to" &&
                     isFloat(static_cast<DataType>(attribute.i));
    return isOrdered ? "of uint64, whose values above 2^63 have no int64; "
                       "convert it to int64"
                     : "";
  }

  //===-- functions ------------------------------------------------------===//

  void importCall(const Node &call, const Function &function,
                  ArrayRef<Imported> operands, Scope &scope, int depth) {
    if (depth == maxCallDepth)
      return fail(call, "functions call each other more than " +
                            std::to_string(maxCallDepth) + " deep");
    auto functionOpsets = toOpsets(function.opsets);
    if (failed(functionOpsets))
      return fail(call, "the function's opset is not supported");
    Scope inner;
    for (auto [i, name] : llvm::enumerate(function.inputs))
      inner[name] = i < operands.size() ? operands[i] : Imported();
    // The body with the call's attributes in place.
    std::vector<Node> body = function.nodes;
    for (Node &node : body) {
      if (find(node.metadata, "pkg.torch.onnx.name_scopes").empty())
        node.metadata = call.metadata;
      std::erase_if(node.attributes, [&](onnx::Attribute &attribute) {
        if (attribute.reference.empty())
          return false;
        for (const auto *given : {&call.attributes, &function.defaults})
          for (const onnx::Attribute &each : *given)
            if (each.name == attribute.reference) {
              std::string_view name = attribute.name;
              attribute = each;
              attribute.name = name;
              return false;
            }
        return true; // an attribute that neither has is left out
      });
      for (std::string_view input : node.inputs)
        ++uses[input];
    }
    for (std::string_view output : function.outputs)
      ++uses[output];
    bodies.push_back(std::move(body));
    importNodes(bodies.back(), inner, *functionOpsets, depth + 1, nullptr);
    for (auto [name, output] : llvm::zip(call.outputs, function.outputs))
      if (auto found = inner.find(StringRef(output)); found != inner.end())
        scope[name] = found->second;
  }

  //===-- what went wrong ------------------------------------------------===//

  LogicalResult checkDetached() {
    for (auto [pattern, is] : llvm::zip(options.detach, isDetached))
      if (!is)
        return error() << "--detach '" << pattern
                       << "' names values that have no gradient (constants, "
                          "integers) or that another pattern names; leave it "
                          "out";
    return success();
  }

  static std::string opName(const Node &node) {
    return node.domain.empty()
               ? std::string(node.type)
               : std::string(node.domain) + "." + std::string(node.type);
  }

  std::string describe(const Node &node) {
    std::string scope = originOf(node).scope;
    std::string text = "`" + std::string(node.name) + "`";
    if (node.name.empty() && !node.outputs.empty())
      text = "the one of `" + std::string(node.outputs[0]) + "`";
    return scope.empty() ? text : text + " in " + scope;
  }

  void fail(const Node &node, std::string reason) {
    failures[opName(node) + ": " + reason].push_back(&node);
  }

  /// What to write in the model instead of an op, after "is not supported".
  static StringRef wayOut(StringRef type) {
    constexpr StringRef rank =
        "; order and ranks are not computed: where one is "
        "wanted use max and argmax";
    constexpr StringRef dynamic =
        ": the shape of its result depends on values, and all shapes are known "
        "when a model is compiled; keep all elements and weigh those that do "
        "not count by 0 (torch.where), or do it before the data is given";
    constexpr StringRef cell =
        "; call a cell (torch.nn.LSTMCell, GRUCell, RNNCell) in a loop over "
        "the "
        "sequence instead, which is exported step by step";
    constexpr StringRef loop =
        "; write it without control flow. An embedding_bag of [batch, n] "
        "indices "
        "is embedding(indices).sum(1), .mean(1) or .amax(1)";
    return llvm::StringSwitch<StringRef>(type)
        .Cases({"Unique", "Compress"}, dynamic)
        .Cases({"LSTM", "GRU", "RNN"}, cell)
        .Cases({"Loop", "If", "Scan", "SequenceEmpty", "SequenceInsert"}, loop)
        .Case("TopK", rank)
        .Case("Det", "; compute it before the data is given")
        .Cases({"DFT", "STFT"}, "; compute it before the data is given, or "
                                "multiply with the matrix of the transform")
        .Default("");
  }

  std::string explainUnsupported(const Node &node) {
    auto opset = opsets.find(node.domain);
    if (opset == opsets.end())
      return ": the model names no opset of its domain, `" +
             std::string(node.domain) + "`";
    std::string text = " (opset " + std::to_string(opset->second) +
                       ") is not supported" + wayOut(node.type).str();
    if (int64_t oldest = oldestVersion(node.domain, node.type);
        oldest > opset->second)
      text += ", only from opset " + std::to_string(oldest) +
              " on; export with opset_version=20";
    return text;
  }

  /// All failures in one diagnostic, equal ones together.
  LogicalResult report() {
    if (importedNodes > maxNodes)
      return error() << "the model has more than " << maxNodes
                     << " nodes once calls of its functions are replaced by "
                        "their bodies";
    if (unsupported.empty() && failures.empty())
      return success();
    if (options.unsupported) {
      auto add = [&](std::string reason, ArrayRef<const Node *> nodes) {
        UnsupportedNodes &entry = options.unsupported->emplace_back();
        entry.reason = std::move(reason);
        for (const Node *node : nodes)
          entry.nodes.push_back(describe(*node));
      };
      for (const auto &[name, nodes] : unsupported)
        add(name + explainUnsupported(*nodes[0]), nodes);
      for (const auto &[reason, nodes] : failures)
        add(reason, nodes);
      return failure();
    }
    InFlightDiagnostic diagnostic = error();
    diagnostic << "the model cannot be imported";
    auto list = [&](StringRef text, ArrayRef<const Node *> nodes) {
      constexpr size_t shown = 3;
      SmallVector<std::string> names;
      for (const Node *node : nodes.take_front(shown))
        names.push_back(describe(*node));
      diagnostic << "\n  " << text << ": " << nodes.size()
                 << (nodes.size() == 1 ? " node, " : " nodes, ")
                 << llvm::join(names, ", ")
                 << (nodes.size() > shown ? ", ..." : "");
    };
    for (const auto &[name, nodes] : unsupported)
      list(name + explainUnsupported(*nodes[0]), nodes);
    size_t lines = 0;
    for (const auto &[reason, nodes] : failures) {
      if (++lines > maxReasons) {
        diagnostic << "\n  and " << failures.size() - maxReasons
                   << " more reasons";
        break;
      }
      list(reason, nodes);
    }
    return diagnostic;
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

  Opsets opsets;
  std::vector<Input> inputs;
  Scope values;
  Detached detached;
  std::vector<bool> isDetached; // by pattern: whether it has named any float
  StringSet<> held;             // names of values that are parameters
  /// Operands that are another parameter than their name says.
  std::map<std::pair<const Node *, size_t>, Imported> replaced;
  std::map<std::string_view, int64_t> uses;
  int64_t importedNodes = 0;
  std::list<std::vector<Node>> bodies; // of calls: failures point into them
  std::map<std::string, SmallVector<const Node *>> unsupported, failures;
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
