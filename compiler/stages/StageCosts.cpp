// Computes the costs of the ops of @forward, for the stage assignment.

#include "compiler/stages/StageCosts.h"

#include "compiler/cost/OpTime.h"
#include "compiler/stages/LaidOutCosts.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Parts.h"
#include "dialects/graph/Symbols.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;

int64_t polyrank::stages::getBytes(Value value) {
  return cost::getLocalBytes(cast<RankedTensorType>(value.getType()));
}

int64_t polyrank::stages::getFlops(Operation *op) {
  auto graphOp = dyn_cast<graph::GraphOp>(op);
  return graphOp ? graphOp.getCost().flops : 0;
}

namespace {
class CostReader {
public:
  CostReader(func::FuncOp forward, const cost::Machine &machine, bool train)
      : forward(forward), boundary(forward), symbols(forward), machine(machine),
        train(train) {}

  CutProblem read(ArrayRef<Operation *> ops);

private:
  bool isTrainable(BlockArgument argument);
  void findGradients();
  int64_t getTime(Operation *op) const;
  std::optional<LaidOutMemory> findLaidOutMemory(BlockArgument argument);

  func::FuncOp forward;
  graph::Boundary boundary;
  graph::Symbols symbols;
  const cost::Machine &machine;
  bool train;
  llvm::DenseSet<Value> withGradient;
};
} // namespace

bool CostReader::isTrainable(BlockArgument argument) {
  auto role =
      boundary.getArgument<graph::ParameterAttr>(argument.getArgNumber());
  if (!role || !train ||
      !isa<FloatType>(graph::getGlobalType(argument).getElementType()))
    return false;
  auto stored = symbols.lookup<graph::ParameterOp>(role.getSymbol());
  return stored && stored.getTrainable();
}

void CostReader::findGradients() {
  for (BlockArgument argument : forward.getArguments())
    if (isTrainable(argument))
      withGradient.insert(argument);
  for (Operation &op : forward.getBody().front())
    if (!isa<graph::DetachOp>(op) &&
        llvm::any_of(op.getOperands(), [&](Value operand) {
          return withGradient.contains(operand);
        }))
      for (Value result : op.getResults())
        if (isa<FloatType>(graph::getGlobalType(result).getElementType()))
          withGradient.insert(result);
}

int64_t CostReader::getTime(Operation *op) const {
  int64_t gradients = llvm::count_if(op->getOperands(), [&](Value operand) {
    return withGradient.contains(operand);
  });
  if (llvm::none_of(op->getResults(), [&](Value result) {
        return withGradient.contains(result);
      }))
    gradients = 0;
  int64_t backward = std::min<int64_t>(gradients, 1);
  if (graph::isProduct(op))
    backward = gradients;
  // The backward has two products for each of the forward's.
  if (isa<graph::AttentionOp>(op))
    backward *= 2;
  return static_cast<int64_t>(cost::getOpTime(op, machine) *
                              static_cast<double>(1 + backward));
}

std::optional<LaidOutMemory>
CostReader::findLaidOutMemory(BlockArgument argument) {
  FlatSymbolRefAttr symbol = boundary.getParameter(argument.getArgNumber());
  auto parameter =
      symbol ? symbols.lookup<graph::ParameterOp>(symbol) : nullptr;
  return parameter ? getLaidOutMemory(parameter) : std::nullopt;
}

CutProblem CostReader::read(ArrayRef<Operation *> ops) {
  findGradients();
  CutProblem problem;
  llvm::DenseMap<Operation *, int> numberOf;
  llvm::DenseMap<Value, int> parameters;
  for (Operation *op : ops) {
    CutOp &entry = problem.ops.emplace_back();
    entry.time = getTime(op);
    for (Value result : op->getResults()) {
      int64_t bytes = getBytes(result);
      bool hasGradient = withGradient.contains(result);
      entry.bytes += hasGradient ? 2 * bytes : bytes;
      entry.messages += hasGradient ? 2 : 1;
      if (hasGradient && !cost::isFree(op))
        entry.kept += bytes;
    }
    if (auto cost = getLaidOutCost(op)) {
      entry.time = cost->time;
      entry.bytes = llvm::any_of(op->getResults(),
                                 [&](Value result) {
                                   return withGradient.contains(result);
                                 })
                        ? 2 * cost->bytes
                        : cost->bytes;
      entry.kept = cost->kept;
    }
    for (Value operand : op->getOperands()) {
      if (auto found = numberOf.find(operand.getDefiningOp());
          found != numberOf.end()) {
        if (!llvm::is_contained(entry.operands, found->second))
          entry.operands.push_back(found->second);
        continue;
      }
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument || !boundary.isKept(argument.getArgNumber()))
        continue;
      auto [known, isNew] =
          parameters.try_emplace(operand, problem.parameters.size());
      if (isNew) {
        int64_t bytes = getBytes(operand);
        if (auto memory = findLaidOutMemory(argument)) {
          problem.parameters.push_back({memory->everywhere, memory->owned});
        } else if (withGradient.contains(operand)) {
          // Weights and gradient are on each stage; the optimizer's two states
          // only on the owner.
          problem.parameters.push_back({2 * bytes, 2 * bytes});
        } else {
          problem.parameters.push_back({bytes, 0});
        }
      }
      if (!llvm::is_contained(entry.parameters, known->second))
        entry.parameters.push_back(known->second);
    }
    numberOf[op] = static_cast<int>(problem.ops.size()) - 1;
  }
  return problem;
}

CutProblem polyrank::stages::getCutProblem(func::FuncOp forward,
                                           ArrayRef<Operation *> ops,
                                           const cost::Machine &machine,
                                           bool train) {
  return CostReader(forward, machine, train).read(ops);
}
