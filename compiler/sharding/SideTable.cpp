// Reads a program into propagation's side table.

#include "compiler/sharding/SideTable.h"

#include <map>

#include "compiler/sharding/SubAxes.h"
#include "compiler/sharding/Why.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Provenance.h"
#include "dialects/sharding/Constraint.h"
#include "dialects/sharding/Sharding.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::sharding;
using graph::TensorFactors;
using sharding::LayoutAttr;

/// One new factor for each dim of a tensor.
static TensorFactors addFactors(graph::ShardingRule &rule,
                                ArrayRef<int64_t> shape) {
  TensorFactors factors(shape.size());
  for (auto [dim, size] : llvm::enumerate(shape))
    if (size != 1)
      factors[dim] = {rule.addFactor(size)};
  return factors;
}

static void addOperand(graph::ShardingRule &rule,
                       const TensorFactors &factors) {
  rule.operands.push_back(factors);
  for (auto &passes : rule.passes)
    passes.push_back(graph::PartialPass::None);
}

namespace {
class Reader {
public:
  explicit Reader(MeshAttr mesh) { table.mesh = mesh; }
  LogicalResult readFunction(func::FuncOp function);
  LogicalResult readParts(ArrayRef<Operation *> ops,
                          const llvm::MapVector<Value, LayoutAttr> &wanted,
                          StringRef reason);
  SideTable table;

private:
  int addValue(Value value, int node, unsigned result, int64_t executions);
  int addNode(NodeKind kind, Operation *op, std::string name,
              int64_t executions);
  void addUse(int node, OpOperand &slot);
  void addUse(int node, Value value, OpOperand *slot);
  LogicalResult readBlock(Block &block, int64_t executions);
  LogicalResult readMicrobatches(graph::MicrobatchesOp op, int64_t executions);
  LogicalResult readOp(Operation *op, int64_t executions);
  LogicalResult readArguments(func::FuncOp function);
  LogicalResult readReturn(func::FuncOp function, func::ReturnOp op);
  void pin(Operation *op, int64_t executions);

  std::vector<Node> &nodes = table.nodes;
  std::vector<TensorValue> &values = table.values;
  std::vector<Constraint> &constraints = table.constraints;
  llvm::DenseMap<Value, int> &current = table.current;
};
} // namespace

int Reader::addNode(NodeKind kind, Operation *op, std::string name,
                    int64_t executions) {
  nodes.emplace_back();
  Node &node = nodes.back();
  node.number = static_cast<int>(nodes.size()) - 1;
  node.kind = kind;
  node.op = op;
  node.name = std::move(name);
  node.executions = executions;
  return nodes.size() - 1;
}

int Reader::addValue(Value value, int node, unsigned result,
                     int64_t executions) {
  TensorValue entry;
  entry.value = value;
  entry.def = node;
  entry.result = result;
  entry.executions = executions;
  values.push_back(entry);
  int id = values.size() - 1;
  nodes[node].results.push_back(id);
  current[value] = id;
  return id;
}

void Reader::addUse(int node, Value value, OpOperand *slot) {
  int id = current.at(value);
  values[id].uses.push_back(
      {node, static_cast<unsigned>(nodes[node].operands.size()), slot});
  nodes[node].operands.push_back(id);
}

void Reader::addUse(int node, OpOperand &slot) {
  addUse(node, slot.get(), &slot);
}

static Constraint readConstraint(sharding::ConstraintAttr given) {
  Constraint constraint;
  constraint.layout = given.getLayout();
  constraint.open.assign(given.getOpen().begin(), given.getOpen().end());
  constraint.level = given.getPriority();
  constraint.text = given.getFrom().str();
  return constraint;
}

LogicalResult Reader::readArguments(func::FuncOp function) {
  // A parameter and its states of the same shape are one node.
  std::map<std::string, int> groups;
  graph::Boundary boundary(function);
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return function.emitError("argument ") << i << " is no tensor";
    int node = -1;
    std::string key = "input";
    bool isKept = boundary.isKept(i);
    if (isKept) {
      FlatSymbolRefAttr parameter = boundary.getParameter(i);
      key = parameter ? parameter.getValue().str() : boundary.getName(i);
      llvm::raw_string_ostream out(key);
      out << boundary.getView(i) << type;
      auto [it, isNew] = groups.try_emplace(out.str(), -1);
      if (isNew)
        it->second =
            addNode(NodeKind::Boundary, function, boundary.getName(i), 1);
      node = it->second;
    } else {
      node = addNode(NodeKind::Boundary, function, boundary.getName(i), 1);
    }
    Node &entry = nodes[node];
    entry.identity = key + entry.name;
    TensorFactors factors = entry.rule.results.empty()
                                ? addFactors(entry.rule, type.getShape())
                                : entry.rule.results.front();
    entry.rule.results.push_back(factors);
    addValue(argument, node, entry.results.size(), 1);
    if (auto given = sharding::getConstraint(function, i)) {
      Constraint constraint = readConstraint(given);
      constraint.isParameter = isKept;
      if (constraint.text.empty())
        constraint.text = nodes[node].name + "=" + constraint.layout.toString();
      nodes[node].constraint = constraints.size();
      constraints.push_back(std::move(constraint));
    }
  }
  return success();
}

LogicalResult Reader::readReturn(func::FuncOp function, func::ReturnOp op) {
  graph::Boundary boundary(function);
  for (OpOperand &slot : op->getOpOperands()) {
    unsigned i = slot.getOperandNumber();
    if (auto output = boundary.getResult<graph::OutputAttr>(i)) {
      std::string name = "output '" + output.getName().str() + "'";
      int node = addNode(NodeKind::Output, op, name, 1);
      auto type = cast<RankedTensorType>(slot.get().getType());
      addOperand(nodes[node].rule,
                 addFactors(nodes[node].rule, type.getShape()));
      addUse(node, slot);
      continue;
    }
    std::optional<unsigned> replaced = boundary.getReplaced(i);
    if (!replaced)
      return function.emitError("result ")
             << i << " is neither an output (#graph.output) nor the new value "
             << "of a parameter or state (#graph.next)";
    BlockArgument argument = function.getArgument(*replaced);
    if (argument.getType() != slot.get().getType())
      return function.emitError("result ")
             << i << " of type " << slot.get().getType()
             << " is the new value of "
             << boundary.getName(argument.getArgNumber()) << ", which has type "
             << argument.getType();
    // Arguments are never pinned, so this is their node.
    Node &node = nodes[values[current.at(argument)].def];
    addOperand(node.rule, node.rule.results.front());
    addUse(node.number, slot);
  }
  return success();
}

void Reader::pin(Operation *op, int64_t executions) {
  auto given = sharding::getConstraint(op);
  if (!given)
    return;
  Value value = op->getResult(given.getResult());
  Constraint constraint = readConstraint(given);
  if (constraint.text.empty())
    constraint.text = graph::describe(op) + "=" + constraint.layout.toString();
  int node = addNode(NodeKind::Pin, op, "constraint on " + graph::describe(op),
                     executions);
  nodes[node].constraint = constraints.size();
  constraints.push_back(std::move(constraint));
  auto type = cast<RankedTensorType>(value.getType());
  TensorFactors factors = addFactors(nodes[node].rule, type.getShape());
  addOperand(nodes[node].rule, factors);
  nodes[node].rule.results = {factors};
  addUse(node, value, nullptr);
  addValue(value, node, 0, executions);
}

LogicalResult Reader::readMicrobatches(graph::MicrobatchesOp op,
                                       int64_t executions) {
  int64_t inside = executions * op.getCount();
  auto tie = [&](NodeKind kind, StringRef what, Value like) {
    int node = addNode(kind, op, what.str() + " of microbatches", executions);
    return std::pair(
        node, addFactors(nodes[node].rule,
                         cast<RankedTensorType>(like.getType()).getShape()));
  };
  auto [index, none] = tie(NodeKind::Source, "index", op.getIndex());
  nodes[index].rule.results = {none};
  addValue(op.getIndex(), index, 0, inside);
  for (auto [i, slice] : llvm::enumerate(op.getSlices())) {
    auto [node, factors] = tie(NodeKind::Slice, "slice", slice);
    TensorFactors whole(factors);
    graph::ShardingRule &rule = nodes[node].rule;
    graph::DimFactors batch;
    if (op.getCount() != 1)
      batch = {rule.addFactor(op.getCount(), graph::FactorKind::Replicated)};
    whole.insert(whole.begin(), batch);
    addOperand(rule, whole);
    rule.results = {factors};
    addUse(node, op->getOpOperand(i));
    addValue(slice, node, 0, inside);
  }
  unsigned numOf = op.getOf().size();
  SmallVector<int> carries;
  for (auto [i, carried] : llvm::enumerate(op.getCarried())) {
    auto [node, factors] = tie(NodeKind::Carry, "carry", carried);
    addOperand(nodes[node].rule, factors);
    addOperand(nodes[node].rule, factors);
    nodes[node].rule.results = {factors, factors};
    addUse(node, op->getOpOperand(numOf + i));
    addValue(carried, node, 0, inside);
    carries.push_back(node);
  }
  Block &body = op.getBody().front();
  if (failed(readBlock(body, inside)))
    return failure();
  auto yield = cast<graph::YieldOp>(body.getTerminator());
  unsigned numSums = op.getNumSums();
  for (OpOperand &slot : yield->getOpOperands()) {
    unsigned i = slot.getOperandNumber();
    Value result = op->getResult(i);
    if (i >= numSums) {
      addUse(carries[i - numSums], slot);
      addValue(result, carries[i - numSums], 1, executions);
      continue;
    }
    auto [node, factors] = tie(NodeKind::Sum, "sum", result);
    addOperand(nodes[node].rule, factors);
    nodes[node].rule.results = {factors};
    // Sums stay partial until the end of the step.
    nodes[node].rule.setPass(sharding::ReductionKind::Sum, 0,
                             graph::PartialPass::Alone);
    addUse(node, slot);
    addValue(result, node, 0, executions);
  }
  return success();
}

LogicalResult Reader::readOp(Operation *op, int64_t executions) {
  if (auto microbatches = dyn_cast<graph::MicrobatchesOp>(op))
    return readMicrobatches(microbatches, executions);
  if (isa<sharding::ReshardOp>(op)) {
    // A reshard is a barrier: its operand has any layout, its result the given
    // one.
    for (Value result : op->getResults()) {
      LayoutAttr layout = sharding::getLayout(result);
      if (!layout)
        return op->emitOpError("needs the layout that it leads to");
      int node = addNode(NodeKind::Fixed, op, graph::describe(op), executions);
      nodes[node].rule.results = {
          addFactors(nodes[node].rule,
                     cast<RankedTensorType>(result.getType()).getShape())};
      nodes[node].fixedResults = {layout};
      addValue(result, node, 0, executions);
    }
    return success();
  }
  auto graphOp = dyn_cast<graph::GraphOp>(op);
  if (!graphOp)
    return op->emitOpError(
        "has no sharding rule, so its layout cannot be propagated");
  int node =
      addNode(op->getNumOperands() == 0 ? NodeKind::Source : NodeKind::Op, op,
              graph::describe(op), executions);
  nodes[node].rule = graphOp.getShardingRule();
  for (OpOperand &slot : op->getOpOperands()) {
    addUse(node, slot);
    const Node &def = nodes[values[nodes[node].operands.back()].def];
    nodes[node].isUpdate |=
        def.isUpdate || isa_and_present<graph::GradientOp>(def.op);
  }
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    addValue(result, node, i, executions);
  pin(op, executions);
  return success();
}

LogicalResult Reader::readBlock(Block &block, int64_t executions) {
  for (Operation &op : block.without_terminator())
    if (failed(readOp(&op, executions)))
      return failure();
  return success();
}

LogicalResult Reader::readFunction(func::FuncOp function) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError("must be one block");
  if (failed(readArguments(function)) ||
      failed(readBlock(function.getBody().front(), 1)) ||
      failed(readReturn(
          function,
          cast<func::ReturnOp>(function.getBody().front().getTerminator()))))
    return failure();
  return completeTable(table, function);
}

LogicalResult
Reader::readParts(ArrayRef<Operation *> ops,
                  const llvm::MapVector<Value, LayoutAttr> &wanted,
                  StringRef reason) {
  if (!reason.empty()) {
    table.outside = static_cast<int>(constraints.size());
    constraints.emplace_back().text = reason.str();
    constraints.back().layout = LayoutAttr::getReplicated(table.mesh, 0);
  }
  auto addFixed = [&](Operation *op) {
    return addNode(NodeKind::Fixed, op, graph::describe(op), 1);
  };
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  for (Operation *op : ops) {
    for (Value operand : op->getOperands()) {
      if (inside.contains(operand.getDefiningOp()) || current.count(operand))
        continue;
      LayoutAttr layout = sharding::getLayout(operand);
      if (!layout)
        return op->emitOpError("uses a value that has no layout");
      int node = addFixed(op);
      Node &entry = nodes[node];
      entry.rule.results = {addFactors(
          entry.rule, cast<RankedTensorType>(operand.getType()).getShape())};
      entry.fixedResults = {layout};
      addValue(operand, node, 0, 1);
    }
    if (failed(readOp(op, 1)))
      return failure();
  }
  for (auto [value, layout] : wanted) {
    int node = addFixed(value.getDefiningOp());
    Node &entry = nodes[node];
    addOperand(entry.rule,
               addFactors(entry.rule,
                          cast<RankedTensorType>(value.getType()).getShape()));
    entry.fixedOperands = {layout};
    addUse(node, value, nullptr);
  }
  return completeTable(table, ops.front());
}

FailureOr<SideTable> polyrank::sharding::readFunction(MeshAttr mesh,
                                                      func::FuncOp function) {
  Reader reader(mesh);
  if (failed(reader.readFunction(function)))
    return failure();
  return std::move(reader.table);
}

FailureOr<SideTable>
polyrank::sharding::readParts(MeshAttr mesh, ArrayRef<Operation *> ops,
                              const llvm::MapVector<Value, LayoutAttr> &wanted,
                              StringRef reason) {
  Reader reader(mesh);
  if (failed(reader.readParts(ops, wanted, reason)))
    return failure();
  return std::move(reader.table);
}
