// Executes TorchScript's code: calls of operators, methods and functions.

#include "frontends/emit/Known.h"
#include "frontends/import/OpCount.h"
#include "frontends/torchscript/Builtins.h"
#include "frontends/torchscript/Interpreter.h"
#include "frontends/torchscript/PythonValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;

namespace {

/// For operators whose result depends on whether the model trains, the index of
/// the argument that says so.
std::optional<size_t> trainingArgument(StringRef name,
                                       ArrayRef<Value> arguments) {
  // The overload for a packed sequence has one more argument before it.
  size_t ofRecurrent = !arguments.empty() && arguments[0].isObject() ? 7 : 6;
  return llvm::StringSwitch<std::optional<size_t>>(name)
      .Cases({"aten::dropout", "aten::dropout_", "aten::feature_dropout",
              "aten::feature_dropout_", "aten::alpha_dropout",
              "aten::alpha_dropout_", "aten::feature_alpha_dropout",
              "aten::feature_alpha_dropout_"},
             2)
      .Cases({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"},
             ofRecurrent)
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
        Value made = Value::tuple(std::move(*fields));
        keepNested(made);
        return made;
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

/// Calls a method of an object or, if the name is empty, the function that it
/// is.
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
    return leave(instance->path, std::move(*result), frame, call.offset);
  }
  if (method == "tolist" && object.isTensor()) {
    Value list;
    if (!countStep(frame, call.offset,
                   countElements(object.getTensor()->getShape())))
      return std::nullopt;
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

std::optional<Value> Interpreter::construct(const std::string &className,
                                            const Expression &call,
                                            Frame &frame) {
  auto type = archive.findClass(className);
  if (!type)
    return stop(frame, call.offset, type.error().message);
  auto instance = std::make_shared<Instance>();
  instance->className = className;
  // The file has no relevant code for torch.no_grad and the like.
  if (!type->definition)
    return stop(frame, call.offset,
                "the file defines no class `" + Twine(className) + "`");
  instance->type = *type;
  Value made{std::shared_ptr<aten::Object>(instance)};
  keep(made);
  return made;
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
    std::string message =
        arguments->empty()
            ? ""
            : toText((*arguments)[0]).value_or((*arguments)[0].describe());
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
  // The plan decides on computing in other types.
  if (name == "aten::is_autocast_enabled" ||
      name == "aten::is_autocast_cpu_enabled")
    return Value(false);
  if (keywords.empty() && arguments->size() == 1 && (*arguments)[0].isTensor())
    if (auto attribute = tensorAttribute(name, (*arguments)[0]))
      return attribute;
  // The type of a device, which is represented by its name.
  if (name == "prim::type" && arguments->size() == 1 &&
      (*arguments)[0].isString())
    return Value(StringRef((*arguments)[0].getString()).split(':').first.str());
  if (name == "prim::data" && arguments->size() == 1)
    name = "aten::detach"; // both share their elements, for writes too
  // Operators whose meaning depends on the version of the file.
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
  // The time of these does not depend on the length of a list, and for a dict
  // the comparisons that find a key are counted.
  constexpr StringRef quick[] = {"aten::append", "aten::__getitem__",
                                 "aten::len", "aten::_set_item", "aten::pop"};
  bool isPopInside =
      name == "aten::pop" && arguments.size() == 2 && !arguments[0].isDict();
  bool isQuick = !arguments.empty() && !isPopInside && keywords.empty() &&
                 llvm::is_contained(quick, name);
  for (const Value &argument : llvm::drop_begin(arguments, isQuick))
    if (!charge(argument, frame, offset))
      return std::nullopt;
  for (const auto &[keyword, argument] : keywords)
    if (!charge(argument, frame, offset))
      return std::nullopt;
  keepTaker(arguments, keywords);
  if (keywords.empty()) {
    int64_t before = comparisonsLeft(), left = before;
    if (auto value = callBuiltin(name, arguments, left)) {
      if (!chargeComparisons(before, left, frame, offset))
        return std::nullopt;
      if (!*value)
        return stop(frame, offset, "the code " + value->error().message);
      // A growing list is not searched at each append: see keepTaker.
      if (!arguments[0].isSame(**value)) {
        if (!chargeMade(**value, frame, offset))
          return std::nullopt;
        keepNested(**value);
      }
      return std::move(**value);
    }
  }
  if (training)
    if (auto number = trainingArgument(name, arguments);
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
    // An operator that writes its first argument needs that argument itself.
    size_t first = name.ends_with("_") && !name.ends_with("__") ? 1 : 0;
    for (Value &argument : llvm::drop_begin(arguments, first))
      if (auto detached = detach(argument, frame, offset))
        argument = std::move(*detached);
      else
        return std::nullopt;
  }
  ++counts[name.str()];
  OpCount made(context.emit.getBuilder());
  Value result = aten::call(context, name, std::nullopt, arguments, keywords);
  if (!countStep(frame, offset, stepsPerOp * made.get()))
    return std::nullopt;
  keepNested(result);
  return result;
}

} // namespace polyrank::frontends::torchscript
