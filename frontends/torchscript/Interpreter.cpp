// Executes TorchScript's code: statements, and the calls of functions.

#include "frontends/torchscript/Interpreter.h"

#include "frontends/aten/Nested.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace polyrank::frontends::torchscript {

using Kind = Expression::Kind;
using Is = Statement::Kind;

SourceLine Interpreter::lineOf(const Frame &frame, uint32_t offset) {
  auto [found, isNew] = lines.try_emplace({&frame.file, offset});
  if (isNew)
    found->second = archive.sourceOf(frame.module, offset);
  return found->second;
}

std::string Interpreter::placeOf(const Frame &frame, uint32_t offset) {
  SourceLine line = lineOf(frame, offset);
  std::string place = line.file + ":" + std::to_string(line.line);
  return frame.scope.empty() ? place : place + " in " + frame.scope;
}

std::nullopt_t Interpreter::stop(const Frame &frame, uint32_t offset,
                                 const Twine &message) {
  if (error.empty())
    error = placeOf(frame, offset) + ": " + message.str();
  return std::nullopt;
}

static bool isContainer(const Value &value) {
  return value.isList() || value.isTuple() || value.isDict() ||
         value.isObject();
}

void Interpreter::keepNested(const Value &result) {
  bool isNested = false;
  if (result.isList() || result.isTuple())
    isNested = llvm::any_of(result.getElements(), isContainer);
  else if (result.isDict())
    isNested = llvm::any_of(result.getDict(), [](const auto &entry) {
      return isContainer(entry.first) || isContainer(entry.second);
    });
  if (isNested)
    keep(result);
}

void Interpreter::keepTaker(ArrayRef<Value> arguments,
                            const aten::Keywords &keywords) {
  for (const auto &[name, argument] : keywords)
    if (isContainer(argument))
      keep(argument);
  if (arguments.empty() || !isContainer(arguments[0]))
    return;
  if (llvm::any_of(arguments.drop_front(), isContainer) || !keywords.empty())
    keep(arguments[0]);
}

Interpreter::~Interpreter() {
  for (Value &value : kept) {
    if (value.isList() || value.isTuple())
      const_cast<aten::List &>(value.getElements()).clear();
    else if (value.isDict())
      value.getDict().clear();
    else if (auto instance = as<Instance>(value))
      instance->attributes.clear();
  }
}

bool Interpreter::charge(const Value &argument, const Frame &frame,
                         uint32_t offset) {
  if (argument.isString())
    return countStep(frame, offset,
                     static_cast<int64_t>(argument.getString().size()) /
                         charactersPerStep);
  if (!argument.isList() && !argument.isTuple() && !argument.isDict())
    return true;
  int64_t count = 0, most = comparisonsLeft();
  bool isCounted = aten::forEachValue(argument, [&](const Value &each) {
    count += each.isString()
                 ? 1 + static_cast<int64_t>(each.getString().size()) / 8
                 : 1;
    return count <= most;
  });
  return countStep(frame, offset,
                   isCounted ? count / elementsPerStep
                             : context.options.maxOps);
}

bool Interpreter::chargeMade(const Value &made, const Frame &frame,
                             uint32_t offset) {
  if (made.isString())
    return charge(made, frame, offset);
  size_t count = 0;
  if (made.isDict())
    count = 2 * made.getDict().size();
  else if (made.isList() || made.isTuple())
    count = made.getElements().size() +
            elementsPerStep * llvm::count_if(made.getElements(), isContainer);
  return countStep(frame, offset,
                   static_cast<int64_t>(count) / elementsPerStep);
}

int64_t Interpreter::comparisonsLeft() const {
  return elementsPerStep * (context.options.maxOps - steps + 1);
}

bool Interpreter::isTooDeep(const Frame &frame, uint32_t offset) {
  if (depth <= maxDepth)
    return false;
  stop(frame, offset,
       "the code is nested more than " + Twine(maxDepth) +
           " deep, with the blocks and expressions of all calls");
  return true;
}

bool Interpreter::countStep(const Frame &frame, uint32_t offset,
                            int64_t count) {
  steps += count;
  if (steps <= context.options.maxOps)
    return true;
  stop(frame, offset,
       "the model takes more than " + Twine(context.options.maxOps) +
           " steps when its loops are unrolled, which all are");
  return false;
}

std::optional<Value>
Interpreter::call(const std::shared_ptr<Instance> &instance, StringRef method,
                  aten::List arguments) {
  const Class &type = *instance->type.definition;
  const Function *function = type.findMethod(method);
  if (!function) {
    error = "class `" + instance->className + "` has no method `" +
            method.str() + "`";
    return std::nullopt;
  }
  arguments.insert(arguments.begin(),
                   Value(std::shared_ptr<aten::Object>(instance)));
  return callFunction(*function, *instance->type.file, instance->type.module,
                      instance->path, std::move(arguments), {}, nullptr, 0);
}

std::optional<Value>
Interpreter::callFunction(const Function &function, const SourceFile &file,
                          const std::string &module, std::string scope,
                          aten::List positional, const aten::Keywords &keywords,
                          const Frame *caller, uint32_t offset) {
  Frame frame{file, module, std::move(scope)};
  const Frame &blamed = caller ? *caller : frame;
  if (calls == maxCalls)
    return stop(blamed, offset,
                "calls are nested more than " + Twine(maxCalls) + " deep");
  ++calls;
  llvm::scope_exit leave([&] { --calls; });
  if (positional.size() > function.arguments.size())
    return stop(blamed, offset,
                "`" + Twine(function.name) + "` takes " +
                    Twine(function.arguments.size()) + " arguments, but " +
                    Twine(positional.size()) + " are given");
  for (auto [i, argument] : llvm::enumerate(function.arguments)) {
    if (i < positional.size()) {
      frame.locals[argument.name] = std::move(positional[i]);
      continue;
    }
    auto given = llvm::find_if(keywords, [&](const auto &each) {
      return each.first == argument.name;
    });
    if (given != keywords.end()) {
      frame.locals[argument.name] = given->second;
    } else if (argument.defaultValue) {
      auto value = evaluate(*argument.defaultValue, frame);
      if (!value)
        return std::nullopt;
      frame.locals[argument.name] = std::move(*value);
    } else {
      return stop(blamed, offset,
                  "`" + Twine(function.name) + "` is not given its argument `" +
                      argument.name + "`");
    }
  }
  for (const auto &keyword : keywords)
    if (!frame.locals.count(keyword.first))
      return stop(blamed, offset,
                  "`" + Twine(function.name) + "` has no argument `" +
                      keyword.first + "`");
  if (execute(function.body, frame) == Flow::Stopped)
    return std::nullopt;
  return std::move(frame.result);
}

Interpreter::Flow Interpreter::execute(const std::vector<Statement> &body,
                                       Frame &frame) {
  for (const Statement &statement : body)
    if (Flow flow = execute(statement, frame); flow != Flow::Next)
      return flow;
  return Flow::Next;
}

Interpreter::Flow Interpreter::execute(const Statement &statement,
                                       Frame &frame) {
  Level level(depth);
  if (isTooDeep(frame, statement.offset) || !countStep(frame, statement.offset))
    return Flow::Stopped;
  switch (statement.kind) {
  case Is::Pass:
    return Flow::Next;
  case Is::Evaluate:
    return evaluate(*statement.values[0], frame) ? Flow::Next : Flow::Stopped;
  case Is::Assign:
    return assign(statement, frame) ? Flow::Next : Flow::Stopped;
  case Is::Return: {
    auto value = evaluate(*statement.values[0], frame);
    if (!value)
      return Flow::Stopped;
    frame.result = std::move(*value);
    return Flow::Returned;
  }
  case Is::If: {
    auto isTaken = condition(statement, frame);
    if (!isTaken)
      return Flow::Stopped;
    return execute(*isTaken ? statement.body : statement.otherwise, frame);
  }
  case Is::While:
    for (;;) {
      auto goesOn = condition(statement, frame);
      if (!goesOn)
        return Flow::Stopped;
      if (!*goesOn)
        return Flow::Next;
      if (Flow flow = execute(statement.body, frame); flow != Flow::Next)
        return flow;
    }
  case Is::For: {
    auto count = evaluate(*statement.values[0], frame);
    if (!count)
      return Flow::Stopped;
    if (count->isUnknown())
      return Flow::Stopped; // the failure is recorded
    if (!count->isInt()) {
      stop(frame, statement.offset,
           "a loop runs as often as " + count->describe() + " says");
      return Flow::Stopped;
    }
    for (int64_t i = 0; i < count->getInt(); ++i) {
      frame.locals[statement.targets[0]->text] = Value(i);
      if (!countStep(frame, statement.offset))
        return Flow::Stopped;
      if (Flow flow = execute(statement.body, frame); flow != Flow::Next)
        return flow;
    }
    return Flow::Next;
  }
  case Is::With:
    return executeWith(statement, frame);
  }
  llvm_unreachable("covered switch");
}

/// Executes a `with` statement. `torch.no_grad` and other context managers are
/// classes with two methods.
Interpreter::Flow Interpreter::executeWith(const Statement &statement,
                                           Frame &frame) {
  auto manager = evaluate(*statement.values[0], frame);
  if (!manager)
    return Flow::Stopped;
  auto instance = as<Instance>(*manager);
  if (!instance) {
    stop(frame, statement.offset, "`with` on " + manager->describe());
    return Flow::Stopped;
  }
  auto entered = call(instance, "__enter__", {});
  if (!entered)
    return Flow::Stopped;
  if (!statement.targets.empty())
    frame.locals[statement.targets[0]->text] = *entered;
  Flow flow = execute(statement.body, frame);
  if (flow != Flow::Stopped &&
      !call(instance, "__exit__", {Value(), Value(), Value()}))
    return Flow::Stopped;
  return flow;
}

/// Evaluates a condition. Reports a condition that depends on data, with
/// advice; a condition on something that could not be imported has already been
/// reported.
std::optional<bool> Interpreter::condition(const Statement &statement,
                                           Frame &frame) {
  const Expression *expression = statement.values[0];
  // A `bool(x)` of a tensor is where data decides.
  const Expression *tested = expression;
  if (expression->is(Kind::Call) && expression->operands.size() == 2 &&
      expression->operands[0]->isName("bool"))
    tested = expression->operands[1];
  auto value = evaluate(*tested, frame);
  if (!value)
    return std::nullopt;
  if (value->isUnknown())
    return std::nullopt;
  if (value->isTensor()) {
    Imported read = value->getTensor()->read(context.emit);
    if (!read.isConstant())
      return stop(
          frame, statement.offset,
          Twine(statement.kind == Is::If ? "a branch" : "a loop") +
              " depends on " + value->describe() +
              ", which is computed from the model's inputs or weights; what "
              "decides must be known when the model is compiled (sizes, "
              "numbers, attributes). Use torch.where for a choice between "
              "values, or trace the model for one of its ways");
    auto known =
        callTable("aten::Bool", {*value}, {}, expression->offset, frame);
    if (!known || !known->isBool())
      return std::nullopt;
    return known->getBool();
  }
  if (!value->isNumber())
    return stop(frame, statement.offset,
                "a condition is " + value->describe() + ", not a truth value");
  return value->getNumber() != 0;
}

bool Interpreter::assign(const Statement &statement, Frame &frame) {
  auto values = evaluateAll(statement.values, frame);
  if (!values)
    return false;
  if (!statement.isUnpacked && values->size() == statement.targets.size()) {
    for (auto [target, value] : llvm::zip_equal(statement.targets, *values))
      if (!assignTo(*target, std::move(value), frame))
        return false;
    return true;
  }
  Value &whole = (*values)[0];
  if (whole.isUnknown()) {
    for (const Expression *target : statement.targets)
      if (!assignTo(*target, Value::unknown(), frame))
        return false;
    return true;
  }
  if (!(whole.isTuple() || whole.isList()) ||
      whole.getElements().size() != statement.targets.size()) {
    stop(frame, statement.offset,
         Twine(statement.targets.size()) + " names take the elements of " +
             whole.describe());
    return false;
  }
  aten::List elements = whole.getElements();
  for (auto [target, value] : llvm::zip_equal(statement.targets, elements))
    if (!assignTo(*target, std::move(value), frame))
      return false;
  return true;
}

bool Interpreter::assignTo(const Expression &target, Value value,
                           Frame &frame) {
  if (target.is(Kind::Attribute))
    return setAttribute(target, std::move(value), frame);
  frame.locals[target.text] = std::move(value);
  return true;
}

bool Interpreter::setAttribute(const Expression &target, Value value,
                               Frame &frame) {
  auto object = evaluate(*target.operands[0], frame);
  if (!object)
    return false;
  auto instance = as<Instance>(*object);
  if (!instance) {
    stop(frame, target.offset,
         "attribute `" + Twine(target.text) + "` of " + object->describe() +
             " is set");
    return false;
  }
  instance->attributes[target.text] = std::move(value);
  return true;
}

} // namespace polyrank::frontends::torchscript
