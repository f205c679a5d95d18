// Reads and writes the costs of ops in the layouts of the step.

#include "compiler/stages/LaidOutCosts.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::stages;

static constexpr StringLiteral costName = "stages.cost",
                               memoryName = "stages.memory";

/// The numbers of an attribute; empty if there are not `count`.
static ArrayRef<int64_t> getNumbers(Operation *op, StringRef name,
                                    size_t count) {
  auto numbers = op->getAttrOfType<DenseI64ArrayAttr>(name);
  return numbers && numbers.size() == static_cast<int64_t>(count)
             ? numbers.asArrayRef()
             : ArrayRef<int64_t>();
}

std::optional<LaidOutCost> polyrank::stages::getLaidOutCost(Operation *op) {
  ArrayRef<int64_t> numbers = getNumbers(op, costName, 3);
  if (numbers.empty())
    return std::nullopt;
  return LaidOutCost{numbers[0], numbers[1], numbers[2]};
}

std::optional<LaidOutMemory>
polyrank::stages::getLaidOutMemory(graph::ParameterOp parameter) {
  ArrayRef<int64_t> numbers = getNumbers(parameter, memoryName, 2);
  if (numbers.empty())
    return std::nullopt;
  return LaidOutMemory{numbers[0], numbers[1]};
}

void polyrank::stages::setLaidOutCost(Operation *op, const LaidOutCost &cost) {
  op->setAttr(costName,
              DenseI64ArrayAttr::get(op->getContext(),
                                     {cost.time, cost.bytes, cost.kept}));
}

void polyrank::stages::setLaidOutMemory(graph::ParameterOp parameter,
                                        const LaidOutMemory &memory) {
  parameter->setAttr(memoryName,
                     DenseI64ArrayAttr::get(parameter->getContext(),
                                            {memory.everywhere, memory.owned}));
}

void polyrank::stages::removeLaidOutCosts(ModuleOp module) {
  module.walk([](Operation *op) {
    op->removeAttr(costName);
    op->removeAttr(memoryName);
  });
}
