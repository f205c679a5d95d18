// Executes the nodes of a program's graphs on the values of its inputs.

#include "frontends/exported_program/GraphRunner.h"

#include <set>

#include "dialects/graph/NamePattern.h"
#include "frontends/aten/Batched.h"
#include "frontends/exported_program/Archive.h"
#include "frontends/import/OpCount.h"
#include "frontends/import/Source.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace polyrank::frontends::exported_program {

using aten::List;
using aten::Value;
using Kind = Argument::Kind;

/// The deepest nesting of graphs.
static constexpr int maxGraphDepth = 16;

static std::string nameOf(const Node &node) {
  for (const Argument &output : node.outputs) {
    if (output.kind == Kind::Name)
      return output.text;
    for (const Argument &each : output.elements)
      if (each.kind == Kind::Name)
        return each.text;
  }
  return node.target;
}

static StringRef metadataOf(const Node &node, const char *key) {
  auto found = node.metadata.find(key);
  return found == node.metadata.end() ? StringRef() : StringRef(found->second);
}

std::string moduleOf(const Node &node) {
  // "L__self__,,Model;L__self___h_0,h.0,Block": the last entry is the
  // innermost. The path of a module that is called again ends in "@1".
  StringRef stack = metadataOf(node, "nn_module_stack");
  StringRef last = stack.contains(';') ? stack.rsplit(';').second : stack;
  StringRef path = last.split(',').second.split(',').first;
  if (path.starts_with("_empty_nn_module_stack"))
    return "";
  // No module is nested so deeply; each prefix of a path is a module, too.
  constexpr size_t longestPath = 1024;
  if (path.size() > longestPath)
    return "";
  SmallVector<StringRef> parts;
  path.split(parts, '.', -1, /*KeepEmpty=*/false);
  std::string result;
  for (StringRef part : parts)
    result += (result.empty() ? "" : ".") + part.split('@').first.str();
  return result;
}

GraphRunner::GraphRunner(aten::Context &context, const Program &program,
                         Budget &budget)
    : lost(program.graph, program.isDecomposed), numbers(program),
      context(context), graph(program.graph), budget(budget),
      transforms(context) {
  isDetached.assign(context.options.detach.size(), false);
  if (context.options.training && !context.options.detach.empty())
    findDetached();
}

void GraphRunner::setOrigin(const Node &node) {
  MLIRContext *mlir = context.emit.getBuilder().getContext();
  std::string module = moduleOf(node), name = nameOf(node);
  context.place = "`" + name + "`" + (module.empty() ? "" : " in " + module);
  context.emit.setOrigin(
      NameLoc::get(
          StringAttr::get(mlir, module.empty() ? name : module + "/" + name),
          sourceOf(mlir, metadataOf(node, "stack_trace"))),
      module);
}

Value GraphRunner::fail(const Node &node, const std::string &reason) {
  context.failures.add(node.target + ": " + reason, context.place);
  return Value::unknown();
}

//===-- arguments --------------------------------------------------------===//

Value GraphRunner::valueOf(const Argument &argument, const Scope &values) {
  switch (argument.kind) {
  case Kind::None:
    return {};
  case Kind::Name: {
    auto found = values.find(argument.text);
    if (found != values.end())
      return found->second;
    context.failures.add("uses `" + argument.text +
                             "`, which nothing before it computes; export the "
                             "model again",
                         context.place);
    return Value::unknown();
  }
  case Kind::Int:
    return Value(argument.integer);
  case Kind::Float:
    return Value(argument.number);
  case Kind::Bool:
    return Value(argument.integer != 0);
  case Kind::String:
  case Kind::Device:
    return Value(argument.text);
  case Kind::ScalarType:
    if (auto type = typeOfNumber(argument.integer))
      return Value(static_cast<int64_t>(rowOf(*type).torch));
    context.failures.add("type number " + std::to_string(argument.integer) +
                             ", which torch.export does not have",
                         context.place);
    return Value::unknown();
  case Kind::MemoryFormat:
    // c10 counts from contiguous on; the format has no effect here.
    return Value(std::max<int64_t>(0, argument.integer - 1));
  case Kind::List: {
    List elements;
    for (const Argument &each : argument.elements)
      elements.push_back(valueOf(each, values));
    return Value::list(std::move(elements));
  }
  case Kind::Graph:
  case Kind::Operator:
  case Kind::Unsupported:
    context.failures.add("an argument of the kind `" +
                             (argument.kind == Kind::Unsupported ? argument.text
                              : argument.kind == Kind::Graph ? "as_graph"
                                                             : "as_operator") +
                             "`, which is not supported",
                         context.place);
    return Value::unknown();
  }
  llvm_unreachable("covered switch");
}

//===-- nodes ------------------------------------------------------------===//

void GraphRunner::run(Scope &values) { runNodes(graph, values, 0); }

void GraphRunner::runNodes(const Graph &graph, Scope &values, int depth) {
  for (const Node &node : graph.nodes) {
    setOrigin(node);
    if (numOps > context.options.maxOps) {
      fail(node, "before it the program has made " + std::to_string(numOps) +
                     " operators already, of which it may make " +
                     std::to_string(context.options.maxOps));
      return;
    }
    auto dependent = runDependent(graph, node, values);
    Value result = dependent ? *dependent : runNode(node, values, depth);
    if (isOver) {
      fail(node, budget.describe() + ", operators and values");
      return;
    }
    bind(node, result, values);
    for (const Argument &output : node.outputs)
      if (output.kind == Kind::Name)
        numbers.learn(graph, output.text, values[output.text]);
    if (depth == 0 && context.options.training)
      detachResults(node, values);
  }
}

std::optional<Value> GraphRunner::runDependent(const Graph &graph,
                                               const Node &node,
                                               const Scope &values) {
  numbers.describe(graph, node, context);
  StringRef target = node.target;
  bool isNumber = node.outputs.size() == 1 &&
                  node.outputs[0].kind == Kind::Name &&
                  graph.numbers.count(node.outputs[0].text);
  auto putOff = [&](DependentNumbers::Reason reason) {
    const std::string &name = node.outputs[0].text;
    if (auto known = numbers.find(graph, name))
      return *known;
    numbers.putOff(graph, name, std::move(reason));
    return Value::unknown();
  };
  if (const auto *reason = numbers.findOpen(graph, node)) {
    if (target.starts_with("torch.ops.aten._assert") ||
        target.starts_with("torch.ops.aten.sym_constrain_range"))
      return Value();
    if (isNumber)
      return putOff(*reason);
    context.failures.add(reason->text, reason->place);
    return Value::unknown();
  }
  bool isItem = target == "torch.ops.aten.item.default" ||
                target == "torch.ops.aten._local_scalar_dense.default";
  if (!isItem || !isNumber || node.inputs.size() != 1)
    return std::nullopt;
  Value given = valueOf(node.inputs[0].value, values);
  if (!given.isTensor() || given.getTensor()->read(context.emit).constant)
    return std::nullopt;
  const NumberMeta &meta = graph.numbers.at(node.outputs[0].text);
  return putOff({"aten::item: " + aten::explainDependentNumber().str() +
                     (meta.integer ? numbers.wayOut(*meta.integer) : ""),
                 context.place});
}

Value GraphRunner::runNode(const Node &node, const Scope &values, int depth) {
  StringRef target = node.target;
  if (target.consume_front("torch.ops.higher_order."))
    return runHigherOrder(target, node, values, depth);
  if (target.consume_front("torch.ops.")) {
    auto [space, rest] = target.split('.');
    auto [name, overload] = rest.rsplit('.');
    return runOperator((space + "::" + name).str(),
                       overload == "default" ? "" : overload, node, values);
  }
  return runPython(target, node, values);
}

Value GraphRunner::runOperator(StringRef name, StringRef overload,
                               const Node &node, const Scope &values) {
  aten::Keywords keywords;
  std::vector<Value> positional;
  for (const NamedArgument &input : node.inputs) {
    Value value = valueOf(input.value, values);
    // `--train` and `--eval` override the file.
    bool isMode = input.name == "train" || input.name == "training";
    if (isMode && value.isBool() && context.options.trainingMode)
      value = Value(*context.options.trainingMode);
    if (input.name.empty())
      positional.push_back(std::move(value));
    else
      keywords.emplace_back(input.name, std::move(value));
  }
  if (transforms.refusesToDraw(name, keywords))
    return Value::unknown();
  OpCount made(context.emit.getBuilder());
  Value result = aten::call(context, name, overload, positional, keywords);
  // The memory of an op together with its result values.
  constexpr uint64_t bytesOfOp = 512;
  int64_t count = made.get();
  numOps += count;
  isOver |= !budget.take(static_cast<uint64_t>(count) * bytesOfOp);
  return result;
}

Value GraphRunner::runPython(StringRef target, const Node &node,
                             const Scope &values) {
  std::vector<Value> arguments;
  for (const NamedArgument &input : node.inputs)
    arguments.push_back(valueOf(input.value, values));
  if (target.consume_front("torch._functorch.predispatch."))
    return transforms.run(target, arguments);
  StringRef name = target.rsplit('.').second;
  // A sum of any number of terms.
  if (name == "sym_sum" && arguments.size() == 1 && arguments[0].isList()) {
    Value sum(0);
    for (const Value &each : arguments[0].getList())
      sum = aten::call(context, "aten::add", std::nullopt, {sum, each});
    return sum;
  }
  if (name == "sym_ite" && arguments.size() == 3) {
    if (arguments[0].isBool())
      return arguments[arguments[0].getBool() ? 1 : 2];
    if (arguments[0].isUnknown())
      return Value::unknown();
  }
  StringRef found = llvm::StringSwitch<StringRef>(name)
                        .Case("add", "aten::add")
                        .Case("sub", "aten::sub")
                        .Case("mul", "aten::mul")
                        .Case("truediv", "aten::div")
                        .Case("floordiv", "aten::floordiv")
                        .Case("mod", "aten::remainder")
                        .Cases({"pow", "sym_pow"}, "aten::pow")
                        .Case("neg", "aten::neg")
                        .Case("eq", "aten::eq")
                        .Case("ne", "aten::ne")
                        .Case("lt", "aten::lt")
                        .Case("le", "aten::le")
                        .Case("gt", "aten::gt")
                        .Case("ge", "aten::ge")
                        .Case("and_", "aten::__and__")
                        .Case("or_", "aten::__or__")
                        .Cases({"not_", "sym_not"}, "aten::__not__")
                        .Case("getitem", "aten::__getitem__")
                        .Cases({"trunc", "sym_int"}, "aten::Int")
                        .Case("sym_float", "aten::Float")
                        .Case("floor", "aten::floor")
                        .Case("ceil", "aten::ceil")
                        .Cases({"sqrt", "_sym_sqrt"}, "aten::sqrt")
                        .Case("sym_max", "prim::max")
                        .Case("sym_min", "prim::min")
                        .Case("abs", "prim::abs")
                        .Default("");
  if (found.empty()) {
    context.failures.addUnsupported(target.str() + " is not supported",
                                    context.place);
    return Value::unknown();
  }
  // Integers to a power stay integers.
  std::optional<StringRef> overload;
  if (found == "aten::pow" && arguments.size() == 2 && arguments[0].isInt() &&
      arguments[1].isInt() && arguments[1].getInt() >= 0)
    overload = "int_to_int";
  return aten::call(context, found, overload, arguments);
}

Value GraphRunner::runGraph(const Graph &graph, ArrayRef<Value> inputs,
                            int depth) {
  Scope values;
  for (const auto &[argument, value] : llvm::zip(graph.inputs, inputs))
    values[argument.text] = value;
  runNodes(graph, values, depth);
  List results;
  for (const Argument &output : graph.outputs)
    results.push_back(valueOf(output, values));
  return Value::tuple(std::move(results));
}

Value GraphRunner::runHigherOrder(StringRef name, const Node &node,
                                  const Scope &values, int depth) {
  if (depth >= maxGraphDepth)
    return fail(node, "graphs that lie " + std::to_string(maxGraphDepth) +
                          " deep in each other");
  std::vector<Value> arguments;
  std::vector<const Graph *> graphs;
  for (const NamedArgument &input : node.inputs) {
    const Argument &argument = input.value;
    if (argument.kind == Kind::Graph)
      graphs.push_back(argument.graph.get());
    else
      arguments.push_back(valueOf(argument, values));
  }
  auto runOne = [&](size_t first) -> Value {
    if (graphs.size() != 1 || arguments.size() < first ||
        arguments.size() - first != graphs[0]->inputs.size())
      return fail(node, "its arguments are not those of one graph");
    return runGraph(*graphs[0], ArrayRef(arguments).drop_front(first),
                    depth + 1);
  };
  if (name == "wrap_with_set_grad_enabled") {
    if (arguments.empty() || !arguments[0].isBool())
      return fail(node, "it does not say whether gradients are computed");
    Value result = runOne(1);
    return arguments[0].getBool() ? result : detached(result);
  }
  if (name == "wrap_with_autocast") {
    // The arguments are device, dtype, enabled, cache.
    if (arguments.size() >= 3 && arguments[2].isBool() &&
        !arguments[2].getBool())
      return runOne(4);
    return fail(node, "torch.autocast, in which ops are computed in another "
                      "type; export the model without it, and give "
                      "--precision bf16");
  }
  if (name == "cond") {
    if (graphs.size() != 2 || arguments.size() != 2 || !arguments[1].isList())
      return fail(node, "its arguments are not those of two graphs");
    Value condition = arguments[0];
    if (condition.isTensor())
      condition = aten::call(context, "aten::Bool", std::nullopt, {condition});
    if (condition.isUnknown())
      return condition;
    if (!condition.isBool())
      return fail(node, "its condition is " + condition.describe());
    return runGraph(*graphs[condition.getBool() ? 0 : 1],
                    arguments[1].getList(), depth + 1);
  }
  return fail(node,
              "it is not supported; write the steps of a loop in Python, where "
              "each is exported, and choose with torch.where");
}

/// Assigns a result to its names: to one, to one for each element of a list, or
/// to several.
void GraphRunner::bind(const Node &node, const Value &result, Scope &values) {
  auto assign = [&](auto &self, const Argument &to,
                    const Value &value) -> void {
    if (to.kind == Kind::Name) {
      // A graph returns a tuple, even of a single result.
      bool isOne = value.isTuple() && value.getTuple().size() == 1;
      values[to.text] = isOne ? value.getTuple()[0] : value;
      return;
    }
    bool isList = value.isList() || value.isTuple();
    size_t given = isList ? value.getElements().size() : 0;
    for (const auto &[i, each] : llvm::enumerate(to.elements))
      self(self, each, i < given ? value.getElements()[i] : Value::unknown());
    if (given < to.elements.size() && !value.isUnknown())
      fail(node, "it gives " + value.describe() + " where the file names " +
                     std::to_string(to.elements.size()));
  };
  if (node.outputs.size() == 1)
    return assign(assign, node.outputs[0], result);
  Argument all;
  all.kind = Kind::List;
  all.elements = node.outputs;
  assign(assign, all, result);
}

//===-- gradients --------------------------------------------------------===//

Value GraphRunner::detached(const Value &value) {
  if (aten::heldTensor(value))
    return aten::call(context, "aten::detach", std::nullopt, {value});
  if (!value.isTuple() && !value.isList())
    return value;
  List elements;
  for (const Value &each : value.getElements())
    elements.push_back(detached(each));
  return value.isTuple() ? Value::tuple(std::move(elements))
                         : Value::list(std::move(elements));
}

/// A pattern matches values of the graph, or modules; a module stands for the
/// values that leave it.
void GraphRunner::findDetached() {
  llvm::StringMap<std::vector<std::string>> users; // modules, by value
  std::set<std::string> outputs;
  auto forEachName = [](const Argument &argument, auto callback) {
    auto visit = [&](auto &self, const Argument &each) -> void {
      if (each.kind == Kind::Name)
        callback(each.text);
      for (const Argument &inner : each.elements)
        self(self, inner);
    };
    visit(visit, argument);
  };
  std::set<std::string> names;
  for (const Node &node : graph.nodes) {
    std::string module = moduleOf(node);
    for (const NamedArgument &input : node.inputs)
      forEachName(input.value, [&](const std::string &name) {
        users[name].push_back(module);
      });
    for (StringRef path = module; !path.empty();
         path = path.contains('.') ? path.rsplit('.').first : "")
      names.insert(path.str());
  }
  for (const Argument &output : graph.outputs)
    forEachName(output, [&](const std::string &name) { outputs.insert(name); });
  for (const auto &[number, pattern] :
       llvm::enumerate(context.options.detach)) {
    for (const Node &node : graph.nodes) {
      std::string module = moduleOf(node), matched;
      for (StringRef path = module; !path.empty();
           path = path.contains('.') ? path.rsplit('.').first : "")
        if (graph::matchesName(pattern, path))
          matched = path.str();
      auto leaves = [&](const std::string &name) {
        return outputs.count(name) ||
               llvm::any_of(users[name], [&](const std::string &user) {
                 return user != matched &&
                        !StringRef(user).starts_with(matched + ".");
               });
      };
      for (const Argument &output : node.outputs)
        forEachName(output, [&](const std::string &name) {
          names.insert(name);
          if (graph::matchesName(pattern, name) ||
              (!matched.empty() && leaves(name)))
            toDetach.try_emplace(name, number);
        });
    }
  }
  detachableNames.assign(names.begin(), names.end());
}

void GraphRunner::detachResults(const Node &node, Scope &values) {
  auto visit = [&](auto &self, const Argument &argument) -> void {
    for (const Argument &each : argument.elements)
      self(self, each);
    if (argument.kind != Kind::Name)
      return;
    auto pattern = toDetach.find(argument.text);
    if (pattern == toDetach.end() && !lost.knows(argument.text))
      return;
    Value &value = values[argument.text];
    auto tensor = aten::heldTensor(value);
    if (!tensor || !isFloat(tensor->getType()))
      return;
    Imported x = tensor->read(context.emit);
    if (x.constant)
      return;
    if (pattern != toDetach.end())
      isDetached[pattern->second] = true;
    else if (!lost.isLost(argument.text, x.value))
      return;
    value = detached(value);
  };
  for (const Argument &output : node.outputs)
    visit(visit, output);
}

} // namespace polyrank::frontends::exported_program
