// Executes TorchScript's code: calls of operators, methods, functions, and of
// what belongs to the language.

#include "dialects/graph/NamePattern.h"
#include "frontends/torchscript/Builtins.h"
#include "frontends/torchscript/Interpreter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

namespace {

/// The operands of a call without what is called.
ArrayRef<const Expression *> argumentsOf(const Expression &call) {
  return ArrayRef(call.operands).drop_front();
}

/// The last name of a type: "int" of `int`, "Optional" of `Optional[Tensor]`.
std::string typeName(const Expression &type) {
  if (type.is(Kind::Subscript))
    return type.operands[0]->dotted();
  if (type.is(Kind::None))
    return "NoneType";
  return type.dotted();
}

/// Whether `value` is of `type`; nullopt for a type that is not understood.
std::optional<bool> isOfType(const Value &value, const Expression &type) {
  std::string name = typeName(type);
  if (name == "int")
    return value.isInt();
  if (name == "float")
    return value.isFloat();
  if (name == "bool")
    return value.isBool();
  if (name == "number" || name == "Scalar")
    return value.isNumber() && !value.isBool();
  if (name == "str" || name == "Device")
    return value.isString();
  if (name == "Tensor")
    return value.isTensor();
  if (name == "NoneType" || name == "None")
    return value.isNone();
  if (name == "Any")
    return true;
  if (name == "Dict" || name == "dict")
    return value.isDict();
  if (name == "list" || name == "tuple")
    return name == "list" ? value.isList() : value.isTuple();
  if (name.rfind("__torch__.", 0) == 0) {
    auto instance = as<Instance>(value);
    auto member = as<EnumMember>(value);
    return (instance && instance->className == name) ||
           (member && member->className == name);
  }
  if (!type.is(Kind::Subscript))
    return std::nullopt;
  const Expression &inner = *type.operands[1];
  if (name == "Optional")
    return value.isNone() ? std::optional<bool>(true) : isOfType(value, inner);
  auto allOf = [&](const aten::List &elements) -> std::optional<bool> {
    for (const Value &element : elements) {
      auto is = isOfType(element, inner);
      if (!is || !*is)
        return is;
    }
    return true;
  };
  if (name == "List")
    return value.isList() ? allOf(value.getList()) : false;
  if (name == "Tuple") {
    SmallVector<const Expression *> parts = {&inner};
    if (inner.is(Kind::Tuple))
      parts.assign(inner.operands.begin(), inner.operands.end());
    if (!value.isTuple() || value.getTuple().size() != parts.size())
      return false;
    for (auto [element, part] : llvm::zip_equal(value.getTuple(), parts)) {
      auto is = isOfType(element, *part);
      if (!is || !*is)
        return is;
    }
    return true;
  }
  if (name == "Union" && inner.is(Kind::Tuple)) {
    for (const Expression *part : inner.operands) {
      auto is = isOfType(value, *part);
      if (!is || *is)
        return is;
    }
    return false;
  }
  return std::nullopt;
}

/// Operators whose result is decided by whether the model trains, and the
/// number of the argument that says so.
std::optional<size_t> trainingArgument(StringRef name) {
  return llvm::StringSwitch<std::optional<size_t>>(name)
      .Cases({"aten::dropout", "aten::dropout_", "aten::feature_dropout",
              "aten::feature_dropout_", "aten::alpha_dropout",
              "aten::alpha_dropout_", "aten::feature_alpha_dropout",
              "aten::feature_alpha_dropout_"},
             2)
      .Cases({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"}, 6)
      .Case("aten::batch_norm", 5)
      .Default(std::nullopt);
}

} // namespace

std::optional<Value> Interpreter::evaluateCall(const Expression &call,
                                               Frame &frame) {
  if (!countStep(frame, call.offset))
    return std::nullopt;
  const Expression &callee = *call.operands[0];
  if (callee.is(Kind::Name)) {
    auto local = frame.locals.find(callee.text);
    if (local == frame.locals.end()) {
      if (auto value = callLanguage(callee.text, call, frame))
        return *value;
      return stop(frame, call.offset,
                  "`" + Twine(callee.text) + "` is no function that is known");
    }
    return callMethod(local->second, "", call, frame);
  }
  std::string name = callee.dotted();
  StringRef rest(name);
  if (!name.empty() && !frame.locals.count(rest.split('.').first.str())) {
    if (rest.consume_front("torch.")) {
      if (rest == "device")
        return evaluate(*call.operands.at(call.operands.size() - 1), frame);
      return callOperator("aten::" + rest.str(), call, frame);
    }
    if (rest.consume_front("ops.")) {
      auto [space, op] = rest.split('.');
      return callOperator(space.str() + "::" + op.str(), call, frame);
    }
    if (rest.starts_with("__torch__.")) {
      if (rest.ends_with(".__new__"))
        return construct(name.substr(0, name.rfind('.')), call, frame);
      auto type = archive.findClass(name);
      if (!type)
        return stop(frame, call.offset, type.error().message);
      if (type->definition && type->definition->base == "NamedTuple") {
        auto fields = evaluateAll(argumentsOf(call), frame);
        if (!fields)
          return std::nullopt;
        return Value::tuple(std::move(*fields));
      }
      auto function = evaluateGlobal(name, call, frame);
      if (!function)
        return std::nullopt;
      return callMethod(*function, "", call, frame);
    }
  }
  if (!callee.is(Kind::Attribute))
    return stop(frame, call.offset, "what is called is no function");
  auto object = evaluate(*callee.operands[0], frame);
  if (!object)
    return std::nullopt;
  return callMethod(*object, callee.text, call, frame);
}

/// A method of an object, or with an empty name the function that it is.
std::optional<Value> Interpreter::callMethod(const Value &object,
                                             StringRef method,
                                             const Expression &call,
                                             Frame &frame) {
  if (object.isUnknown())
    return object;
  auto arguments = evaluateAll(argumentsOf(call), frame);
  if (!arguments)
    return std::nullopt;
  aten::Keywords keywords;
  size_t numPositional = arguments->size() - call.keywords.size();
  for (auto [i, name] : llvm::enumerate(call.keywords))
    keywords.emplace_back(name, (*arguments)[numPositional + i]);
  arguments->resize(numPositional);
  if (auto function = as<FunctionValue>(object); function && method.empty())
    return callFunction(*function->function.definition,
                        *function->function.file, function->function.module,
                        frame.scope, std::move(*arguments), keywords, &frame,
                        call.offset);
  if (auto instance = as<Instance>(object); instance && !method.empty()) {
    const Function *function =
        instance->type.definition->findMethod(method.str());
    if (!function)
      return stop(frame, call.offset,
                  "class `" + Twine(instance->className) + "` has no method `" +
                      method + "`");
    arguments->insert(arguments->begin(), object);
    auto result =
        callFunction(*function, *instance->type.file, instance->type.module,
                     instance->isModule() ? instance->path : frame.scope,
                     std::move(*arguments), keywords, &frame, call.offset);
    if (!result || !instance->isModule() || method != "forward")
      return result;
    return leave(instance->path, std::move(*result));
  }
  if (method == "tolist" && object.isTensor()) {
    Value list;
    if (!toList(object, list, frame))
      return stop(frame, call.offset,
                  "a list is made of " + object.describe() +
                      ", whose elements are not known when the model is "
                      "compiled");
    return list;
  }
  return stop(frame, call.offset,
              "`" + Twine(method.empty() ? "()" : method) + "` of " +
                  object.describe() + " is called");
}

/// Whether what is computed depends on something that trains, other than
/// through `detach`.
bool Interpreter::requiresGrad(const Value &tensor) {
  Imported read = tensor.getTensor()->read(context.emit);
  if (!read.value || !isa<FloatType>(read.getElementType()))
    return false;
  llvm::DenseSet<mlir::Value> seen = {read.value};
  SmallVector<mlir::Value> next = {read.value};
  while (!next.empty()) {
    mlir::Value value = next.pop_back_val();
    if (trained.contains(value))
      return true;
    Operation *op = value.getDefiningOp();
    if (!op || isa<graph::DetachOp>(op))
      continue;
    for (mlir::Value operand : op->getOperands())
      if (seen.insert(operand).second)
        next.push_back(operand);
  }
  return false;
}

std::optional<Value> Interpreter::tensorAttribute(StringRef name,
                                                  const Value &value) {
  if (!name.consume_front("prim::"))
    return std::nullopt;
  const aten::Tensor &tensor = *value.getTensor();
  if (name == "dtype")
    return Value(static_cast<int64_t>(tensor.getType()));
  if (name == "device")
    return Value(std::string("cpu"));
  if (name == "layout") // strided
    return Value(0);
  if (name == "requires_grad")
    return Value(requiresGrad(value));
  if (name == "shape")
    return Value::ints(tensor.getShape());
  if (name == "ndim")
    return Value(tensor.getRank());
  if (name == "itemsize")
    return Value(static_cast<int64_t>(archive::byteSize(tensor.getType())));
  if (name == "is_cpu")
    return Value(true);
  constexpr StringRef others[] = {
      "is_cuda",    "is_xpu",  "is_sparse",    "is_sparse_csr", "is_mkldnn",
      "is_vulkan",  "is_ipu",  "is_quantized", "is_ort",        "is_mps",
      "is_meta",    "is_mtia", "is_maia",      "is_nested",     "is_hpu",
      "is_complex", "is_xla"};
  if (llvm::is_contained(others, name))
    return Value(false);
  return std::nullopt;
}

Value Interpreter::detach(const Value &value) {
  if (value.isTensor())
    return aten::call(context, "aten::detach", std::nullopt, {value});
  if (!value.isTuple() && !value.isList())
    return value;
  aten::List elements;
  for (const Value &element : value.getElements())
    elements.push_back(detach(element));
  return value.isList() ? Value::list(std::move(elements))
                        : Value::tuple(std::move(elements));
}

Value Interpreter::leave(StringRef path, Value value) {
  bool isMeant = false;
  for (auto [pattern, is] : llvm::zip_equal(detachPatterns, isDetached))
    if (graph::matchesName(pattern, path))
      isMeant = is = true;
  return isMeant ? detach(value) : value;
}

/// The elements of a tensor that is known, as nested lists.
bool Interpreter::toList(const Value &tensor, Value &result, Frame &frame) {
  if (tensor.getTensor()->getRank() == 0) {
    Imported read = tensor.getTensor()->read(context.emit);
    if (!read.isConstant())
      return false;
    bool isBool = tensor.getTensor()->getType() == aten::ScalarType::Bool;
    const graph::Tensor &known = *read.constant;
    if (isBool)
      result = Value(known.integers[0] != 0);
    else if (aten::isFloat(tensor.getTensor()->getType()))
      result = Value(known.floats[0]);
    else
      result = Value(int64_t(known.integers[0]));
    return true;
  }
  int64_t count = tensor.getTensor()->getShape()[0];
  if (count > int64_t(maxListSize))
    return false;
  aten::List elements;
  for (int64_t i = 0; i < count; ++i) {
    Value part = aten::call(context, "aten::select", std::nullopt,
                            {tensor, Value(int64_t(0)), Value(i)});
    Value element;
    if (!part.isTensor() || !toList(part, element, frame))
      return false;
    elements.push_back(std::move(element));
  }
  result = Value::list(std::move(elements));
  return true;
}

std::optional<Value> Interpreter::construct(const std::string &className,
                                            const Expression &call,
                                            Frame &frame) {
  auto type = archive.findClass(className);
  if (!type)
    return stop(frame, call.offset, type.error().message);
  auto instance = std::make_shared<Instance>();
  instance->className = className;
  // torch.no_grad and the like have no code in the file that matters.
  if (!type->definition)
    return stop(frame, call.offset,
                "the file defines no class `" + Twine(className) + "`");
  instance->type = *type;
  return Value(std::shared_ptr<aten::Object>(instance));
}

std::optional<std::optional<Value>>
Interpreter::callLanguage(StringRef name, const Expression &call,
                          Frame &frame) {
  using Result = std::optional<Value>;
  size_t count = call.operands.size() - 1;
  if (name == "annotate" && count == 2)
    return annotated(call, frame);
  if (name == "unchecked_cast" && count == 2)
    return evaluate(*call.operands[2], frame);
  if (name == "uninitialized" && count == 1)
    return Result(Value::unknown()); // nothing reads it
  if (name == "isinstance" && count == 2)
    return isInstance(call, frame);
  if ((name == "int" || name == "float" || name == "bool" || name == "str") &&
      count == 1)
    return converted(name, call, frame);
  if (name == "getattr" && count == 2) {
    auto values = evaluateAll(argumentsOf(call), frame);
    if (!values)
      return Result();
    if (!(*values)[1].isString())
      return Result(stop(frame, call.offset, "an attribute has no name"));
    return attributeOf((*values)[0], (*values)[1].getString(), call, frame);
  }
  if (name == "print") { // of no effect on what is computed
    if (!evaluateAll(argumentsOf(call), frame))
      return Result();
    return Result(Value());
  }
  if (name == "sorted" && count == 1) {
    auto value = evaluate(*call.operands[1], frame);
    if (!value)
      return Result();
    if (!value->isList() || !llvm::all_of(value->getList(), [](const Value &e) {
          return e.isNumber();
        }))
      return Result(stop(frame, call.offset,
                         value->describe() + " is sorted, which is only "
                                             "supported of numbers"));
    aten::List sorted = value->getList();
    llvm::sort(sorted, [](const Value &a, const Value &b) {
      return a.getNumber() < b.getNumber();
    });
    return Result(Value::list(std::move(sorted)));
  }
  if (name == "fork")
    return Result(stop(frame, call.offset,
                       "torch.jit.fork is not supported; call the function "
                       "directly"));
  return std::nullopt;
}

/// `annotate(number, tensor)` is how a trace writes that a tensor becomes a
/// number.
std::optional<Value> Interpreter::annotated(const Expression &call,
                                            Frame &frame) {
  auto value = evaluate(*call.operands[2], frame);
  if (!value || !value->isTensor())
    return value;
  std::string type = typeName(*call.operands[1]);
  StringRef op =
      llvm::StringSwitch<StringRef>(type)
          .Cases({"number", "Scalar", "Union"}, "aten::ScalarImplicit")
          .Case("int", "aten::IntImplicit")
          .Case("float", "aten::FloatImplicit")
          .Default("");
  if (op.empty())
    return value;
  return callTable(op, {*value}, {}, call.offset, frame);
}

std::optional<Value>
Interpreter::converted(StringRef name, const Expression &call, Frame &frame) {
  auto value = evaluate(*call.operands[1], frame);
  if (!value || value->isUnknown())
    return value;
  if (name == "str")
    return Value(toText(*value));
  if (value->isString()) {
    StringRef text(value->getString());
    int64_t integer = 0;
    double number = 0;
    if (name == "int" && !text.trim().getAsInteger(10, integer))
      return Value(integer);
    if (name == "float" && !text.trim().getAsDouble(number))
      return Value(number);
    return stop(frame, call.offset,
                "`" + Twine(name) + "` of " + value->describe());
  }
  if (value->isNumber()) {
    double number = value->getNumber();
    if (name == "bool")
      return Value(number != 0);
    if (name == "float")
      return Value(number);
    if (!value->isFloat())
      return Value(value->isInt() ? value->getInt() : int64_t(number));
    if (!(number > -0x1p63 && number < 0x1p63))
      return stop(frame, call.offset, "`int` of " + value->describe());
    return Value(static_cast<int64_t>(number));
  }
  if (!value->isTensor())
    return stop(frame, call.offset,
                "`" + Twine(name) + "` of " + value->describe());
  StringRef op = name == "int"     ? "aten::Int"
                 : name == "float" ? "aten::Float"
                                   : "aten::Bool";
  return callTable(op, {*value}, {}, call.offset, frame);
}

std::optional<Value> Interpreter::isInstance(const Expression &call,
                                             Frame &frame) {
  auto value = evaluate(*call.operands[1], frame);
  if (!value || value->isUnknown())
    return value;
  const Expression &type = *call.operands[2];
  SmallVector<const Expression *> types = {&type};
  if (type.is(Kind::Tuple))
    types.assign(type.operands.begin(), type.operands.end());
  for (const Expression *each : types) {
    auto is = isOfType(*value, *each);
    if (!is)
      return stop(frame, call.offset,
                  "`isinstance` asks for the type `" + Twine(typeName(*each)) +
                      "`, which is not supported");
    if (*is)
      return Value(true);
  }
  return Value(false);
}

std::optional<Value> Interpreter::callOperator(std::string name,
                                               const Expression &call,
                                               Frame &frame) {
  auto arguments = evaluateAll(argumentsOf(call), frame);
  if (!arguments)
    return std::nullopt;
  aten::Keywords keywords;
  size_t numPositional = arguments->size() - call.keywords.size();
  for (auto [i, keyword] : llvm::enumerate(call.keywords))
    keywords.emplace_back(keyword, (*arguments)[numPositional + i]);
  arguments->resize(numPositional);
  if (name == "prim::RaiseException") {
    std::string message = arguments->empty() ? "" : toText((*arguments)[0]);
    return stop(frame, call.offset,
                "the model raises an exception: " + message);
  }
  if (name == "aten::set_grad_enabled" && arguments->size() == 1 &&
      (*arguments)[0].isBool()) {
    isGradEnabled = (*arguments)[0].getBool();
    return Value();
  }
  if (name == "aten::is_grad_enabled" && arguments->empty())
    return Value(isGradEnabled);
  // What computes in other types is the plan's to decide.
  if (name == "aten::is_autocast_enabled" ||
      name == "aten::is_autocast_cpu_enabled")
    return Value(false);
  if (keywords.empty() && arguments->size() == 1 && (*arguments)[0].isTensor())
    if (auto attribute = tensorAttribute(name, (*arguments)[0]))
      return attribute;
  // Of a device, which is its name here.
  if (name == "prim::type" && arguments->size() == 1 &&
      (*arguments)[0].isString())
    return Value(StringRef((*arguments)[0].getString()).split(':').first.str());
  if (name == "prim::data" && arguments->size() == 1)
    name = "aten::detach"; // what is written into it is seen by both
  // What a version of the file means by an operator.
  bool isOldDiv =
      archive.getVersion() < 4 && (name == "aten::div" || name == "aten::div_");
  bool isOldFull = archive.getVersion() < 5 && name == "aten::full";
  if (isOldDiv || isOldFull)
    return stop(frame, call.offset,
                "`" + Twine(name) + "` in a file of version " +
                    Twine(archive.getVersion()) +
                    " is that of PyTorch before 1.6, which rounded otherwise; "
                    "load the file and save it with a newer PyTorch");
  return callTable(name, std::move(*arguments), keywords, call.offset, frame);
}

std::optional<Value> Interpreter::callTable(StringRef name,
                                            aten::List arguments,
                                            const aten::Keywords &keywords,
                                            uint32_t offset, Frame &frame) {
  if (keywords.empty())
    if (auto value = callBuiltin(name, arguments)) {
      if (!*value)
        return stop(frame, offset, "the code " + value->error().message);
      return std::move(**value);
    }
  if (training)
    if (auto number = trainingArgument(name);
        number && *number < arguments.size())
      arguments[*number] = Value(*training);
  SourceLine line = lineOf(frame, offset);
  MLIRContext *mlir = context.emit.getBuilder().getContext();
  std::string label = name.split("::").second.str();
  if (!frame.scope.empty())
    label = frame.scope + "/" + label;
  context.emit.setOrigin(
      NameLoc::get(StringAttr::get(mlir, label),
                   FileLineColLoc::get(mlir, line.file,
                                       static_cast<unsigned>(line.line), 0)),
      frame.scope);
  context.place = placeOf(frame, offset);
  if (!isGradEnabled) {
    // The first argument of an operator that writes it stays itself.
    size_t first = name.ends_with("_") && !name.ends_with("__") ? 1 : 0;
    for (Value &argument : llvm::drop_begin(arguments, first))
      argument = detach(argument);
  }
  ++counts[name.str()];
  return aten::call(context, name, std::nullopt, arguments, keywords);
}

} // namespace polyrank::frontends::torchscript
