// Numbers that depend on the values of inputs.

#include "frontends/exported_program/DependentNumbers.h"

#include "frontends/exported_program/Symbols.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace polyrank::frontends::exported_program {

using aten::Value;

/// Returns true for torch.export's symbol of a number that depends on values:
/// `u0`.
static bool isDependent(StringRef symbol) {
  return symbol.consume_front("u") && !symbol.empty() &&
         llvm::all_of(symbol, llvm::isDigit);
}

DependentNumbers::DependentNumbers(const Program &program) {
  for (const auto &[symbol, range] : program.ranges)
    if (range.least && range.least == range.most)
      symbols[symbol] = *range.least;
}

std::optional<int64_t>
DependentNumbers::evaluate(const SymbolicInt &size) const {
  if (size.value)
    return size.value;
  return SymbolicExpression(size.expression)
      .evaluate([&](StringRef symbol) -> std::optional<int64_t> {
        auto found = symbols.find(symbol);
        if (found == symbols.end())
          return std::nullopt;
        return found->second;
      });
}

std::string DependentNumbers::wayOut(const SymbolicInt &number) const {
  std::string symbol = SymbolicExpression(number.expression).getSymbol();
  if (!isDependent(symbol))
    return "";
  return "; where it is always the same number, give it with --dim " + symbol +
         "=N";
}

void DependentNumbers::describe(const Graph &graph, const Node &node,
                                aten::Context &context) const {
  context.resultShape.reset();
  context.wayOut.clear();
  const Argument *first = node.outputs.empty() ? nullptr : &node.outputs[0];
  while (first && !first->elements.empty())
    first = &first->elements[0];
  if (!first || first->kind != Argument::Kind::Name)
    return;
  auto meta = graph.tensors.find(first->text);
  if (meta == graph.tensors.end())
    return;
  Shape shape;
  for (const SymbolicInt &size : meta->second.sizes) {
    auto value = evaluate(size);
    if (!value) {
      context.wayOut = wayOut(size);
      return;
    }
    shape.push_back(*value);
  }
  context.resultShape = std::move(shape);
}

void DependentNumbers::learn(const Graph &graph, const std::string &name,
                             const Value &result) {
  auto meta = graph.tensors.find(name);
  if (meta == graph.tensors.end() || !result.isTensor())
    return;
  Shape shape = result.getTensor()->getShape();
  for (const auto &[size, actual] : llvm::zip(meta->second.sizes, shape))
    if (!size.value)
      if (std::string symbol = SymbolicExpression(size.expression).getSymbol();
          isDependent(symbol))
        symbols.try_emplace(symbol, actual);
}

std::optional<Value> DependentNumbers::find(const Graph &graph,
                                            const std::string &name) const {
  auto meta = graph.numbers.find(name);
  if (meta == graph.numbers.end())
    return std::nullopt;
  if (meta->second.flag)
    return Value(*meta->second.flag);
  if (meta->second.integer)
    if (auto value = evaluate(*meta->second.integer))
      return Value(*value);
  return std::nullopt;
}

const DependentNumbers::Reason *
DependentNumbers::findOpen(const Graph &graph, const Node &node) const {
  if (open.empty())
    return nullptr;
  const Reason *reason = nullptr;
  auto visit = [&](auto &self, const Argument &argument) -> void {
    for (const Argument &each : argument.elements)
      self(self, each);
    if (argument.kind != Argument::Kind::Name || reason)
      return;
    if (auto found = open.find({&graph, argument.text}); found != open.end())
      reason = &found->second;
  };
  for (const NamedArgument &input : node.inputs)
    visit(visit, input.value);
  return reason;
}

std::set<std::string> findDependentSymbols(const Program &program) {
  std::set<std::string> symbols;
  auto add = [&](const SymbolicInt &size) {
    if (!size.value)
      SymbolicExpression(size.expression)
          .evaluate([&](StringRef symbol) -> std::optional<int64_t> {
            if (isDependent(symbol))
              symbols.insert(symbol.str());
            return 1;
          });
  };
  for (const auto &[name, meta] : program.graph.tensors)
    for (const SymbolicInt &size : meta.sizes)
      add(size);
  for (const auto &[name, meta] : program.graph.numbers)
    if (meta.integer)
      add(*meta.integer);
  return symbols;
}

} // namespace polyrank::frontends::exported_program
