// What is asked of loops: sizes, dependences, passes; their text.

#include "compiler/codegen/Loops.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

SmallVector<int64_t> Loops::sizes() const {
  SmallVector<int64_t> result;
  for (const Variable &variable : variables)
    result.push_back(variable.size);
  return result;
}

int64_t Loops::product(bool reduced) const {
  int64_t result = 1;
  for (const Variable &variable : variables)
    if (variable.isReduced == reduced)
      result *= variable.size;
  return result;
}

bool Loops::hasReductions() const {
  return llvm::any_of(
      nodes, [](const Node &node) { return node.kind == Node::Reduce; });
}

std::vector<uint64_t> Loops::dependences() const {
  uint64_t reduced = 0;
  for (auto [v, variable] : llvm::enumerate(variables))
    if (variable.isReduced)
      reduced |= uint64_t(1) << v;
  std::vector<uint64_t> sets(nodes.size());
  // Operands come before their users.
  for (auto [i, node] : llvm::enumerate(nodes)) {
    for (auto [v, c] : llvm::enumerate(node.expression.coefficients))
      if (c != 0)
        sets[i] |= uint64_t(1) << v;
    for (int operand : node.operands)
      sets[i] |= sets[operand];
    if (node.predicate >= 0)
      sets[i] |= sets[node.predicate];
    if (node.kind == Node::Reduce)
      sets[i] &= ~reduced;
  }
  return sets;
}

std::vector<int> Loops::passes() const {
  std::vector<int> result(nodes.size());
  for (auto [i, node] : llvm::enumerate(nodes)) {
    for (int operand : node.operands)
      result[i] = std::max(result[i], result[operand]);
    if (node.predicate >= 0)
      result[i] = std::max(result[i], result[node.predicate]);
    result[i] += node.kind == Node::Reduce;
  }
  return result;
}

bool Loops::isFull(const Store &store) const {
  for (auto [c, variable] :
       llvm::zip_equal(store.offset.coefficients, variables))
    if (c != 0 && variable.isReduced)
      return true;
  return false;
}

int Loops::numPasses() const {
  std::vector<int> passes = this->passes();
  int count = 0;
  for (auto [i, node] : llvm::enumerate(nodes))
    if (node.kind == Node::Reduce)
      count = std::max(count, passes[i]);
  for (const Store &store : stores)
    if (isFull(store))
      count = std::max(count, passes[store.node] + 1);
  return count;
}

std::string Loops::toString() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](const Affine &affine) {
    os << "[" << affine.constant;
    for (auto [v, c] : llvm::enumerate(affine.coefficients))
      if (c != 0)
        os << " + " << c << " v" << v;
    os << "]";
  };
  for (auto [v, variable] : llvm::enumerate(variables))
    os << "v" << v << " < " << variable.size
       << (variable.isReduced ? " reduced\n" : "\n");
  static constexpr StringRef kinds[] = {"load",  "constant", "index",
                                        "range", "apply",    "reduce"};
  for (auto [i, node] : llvm::enumerate(nodes)) {
    os << "n" << i << " = " << kinds[node.kind] << " " << node.type << " f"
       << static_cast<int>(node.function) << " p" << node.parameter << " "
       << node.value << " ";
    if (!node.expression.coefficients.empty())
      print(node.expression);
    for (int operand : node.operands)
      os << " n" << operand;
    if (node.predicate >= 0)
      os << " if n" << node.predicate;
    os << "\n";
  }
  for (const Store &store : stores) {
    os << "store r" << store.result;
    print(store.offset);
    os << " = n" << store.node << "\n";
  }
  return text;
}

bool polyrank::codegen::mayAlias(const Loops &loops, unsigned result,
                                 unsigned argument) {
  bool isInit =
      loops.scatter && loops.scatter->init == static_cast<int>(argument);
  if ((loops.scatter && !isInit) ||
      loops.resultTypes[result].getElementType() !=
          loops.argumentTypes[argument].getElementType() ||
      loops.resultTypes[result].getNumElements() !=
          loops.argumentTypes[argument].getNumElements())
    return false;
  const Store *store = nullptr;
  for (const Store &candidate : loops.stores)
    if (candidate.result == result)
      store = &candidate;
  for (const Node &node : loops.nodes)
    if (node.kind == Node::Load &&
        node.parameter == static_cast<int64_t>(argument) &&
        (isInit || !node.operands.empty() || node.predicate >= 0 ||
         node.expression != store->offset))
      return false;
  return true;
}

graph::Cost polyrank::codegen::getCost(const Loops &loops) {
  graph::Cost cost;
  std::vector<uint64_t> dependences = loops.dependences();
  auto points = [&](uint64_t set) {
    int64_t count = 1;
    for (auto [v, variable] : llvm::enumerate(loops.variables))
      count *= set >> v & 1 ? variable.size : 1;
    return count;
  };
  for (auto [i, node] : llvm::enumerate(loops.nodes)) {
    if (!isa<FloatType>(node.type))
      continue;
    if (node.kind == Node::Reduce)
      cost.flops += points(dependences[node.operands[0]]);
    else if (node.kind == Node::Apply && node.function != Function::Select)
      cost.flops += points(dependences[i]);
  }
  auto bytes = [](RankedTensorType type) {
    return type.getNumElements() *
           llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  };
  // Of an argument that is read by index, at most what is asked for.
  std::vector<int64_t> read(loops.numArguments);
  for (auto [i, node] : llvm::enumerate(loops.nodes))
    if (node.kind == Node::Load)
      read[node.parameter] +=
          points(dependences[i]) *
          llvm::divideCeil(node.type.getIntOrFloatBitWidth(), 8);
  for (auto [amount, type] : llvm::zip_equal(read, loops.argumentTypes))
    cost.bytesRead += std::min<int64_t>(amount, bytes(type));
  for (RankedTensorType type : loops.resultTypes)
    cost.bytesWritten += bytes(type);
  if (loops.scatter) {
    int64_t updates = points(dependences[loops.scatter->updates]);
    cost.flops += updates;
    // In place, at most each update's element.
    if (loops.scatter->init >= 0)
      cost.bytesWritten = std::min(
          cost.bytesWritten,
          updates * static_cast<int64_t>(llvm::divideCeil(
                        loops.resultTypes[0].getElementTypeBitWidth(), 8)));
  }
  return cost;
}
