// Computes the costs of the ops of @forward, for the stage assignment.

#include "compiler/stages/StageCosts.h"

#include "compiler/cost/CostModel.h"
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

/// Returns true if the op computes nothing, or is computed together with its
/// reader.
static bool isFree(Operation *op) {
  return op->getNumOperands() == 0 || !isa<graph::GraphOp>(op) ||
         isa<graph::ReshapeOp, graph::BroadcastOp, graph::DetachOp>(op);
}

/// The element type in which an op computes: that of its first float, or else
/// of its first operand.
static Type getComputedType(Operation *op) {
  auto elementType = [](Value value) {
    return graph::getGlobalType(value).getElementType();
  };
  for (Value operand : op->getOperands())
    if (Type type = elementType(operand); isa<FloatType>(type))
      return type;
  return elementType(op->getOperand(0));
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
  double getForwardTime(Operation *op) const;
  int64_t getTime(Operation *op) const;

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

double CostReader::getForwardTime(Operation *op) const {
  if (isFree(op))
    return 0;
  graph::Cost cost = cast<graph::GraphOp>(op).getCost();
  double bytes = static_cast<double>(cost.bytesRead + cost.bytesWritten);
  // Only the rows of the table that are looked up are read.
  if (isa<graph::GatherOp>(op))
    bytes = 2.0 * static_cast<double>(cost.bytesWritten);
  return 1e12 * std::max(static_cast<double>(cost.flops) /
                             machine.getFlopsPerSecond(getComputedType(op)),
                         bytes / machine.getBytesPerSecond());
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
  return static_cast<int64_t>(getForwardTime(op) *
                              static_cast<double>(1 + backward));
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
      if (hasGradient && !isFree(op))
        entry.kept += bytes;
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
        // Weights and gradient are on each stage; the optimizer's two states
        // only on the owner.
        if (withGradient.contains(operand))
          problem.parameters.push_back({2 * bytes, 2 * bytes});
        else
          problem.parameters.push_back({bytes, 0});
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
