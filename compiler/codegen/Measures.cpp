// A cache of what the target measures of kernels.

#include "compiler/codegen/Measures.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

Measures::Key Measures::keyOf(Body body) {
  Key key;
  DenseMap<Value, uintptr_t> numbers;
  auto number = [&](Value value) {
    key.push_back(
        reinterpret_cast<uintptr_t>(value.getType().getAsOpaquePointer()));
    numbers.try_emplace(value, numbers.size());
  };
  for (Value argument : body.arguments)
    number(argument);
  auto visit = [&](auto &self, Value value) -> void {
    if (numbers.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    if (!op) { // not in this body
      key.push_back(reinterpret_cast<uintptr_t>(value.getAsOpaquePointer()));
      return number(value);
    }
    for (Value operand : op->getOperands())
      self(self, operand);
    key.push_back(
        reinterpret_cast<uintptr_t>(op->getName().getAsOpaquePointer()));
    key.push_back(reinterpret_cast<uintptr_t>(
        op->getPropertiesAsAttribute().getAsOpaquePointer()));
    for (Value operand : op->getOperands())
      key.push_back(numbers.lookup(operand));
    for (Value result : op->getResults())
      number(result);
  };
  for (Value result : body.results)
    visit(visit, result);
  for (Value result : body.results)
    key.push_back(numbers.lookup(result));
  return key;
}

target::KernelMeasurePtr Measures::measure(Body body) {
  std::string reason;
  OpBuilder builder(body.results[0].getContext());
  FailureOr<kernel::LoopsOp> loops = buildLoops(
      builder, builder.getUnknownLoc(), body,
      [&](Operation *op) { return target.hasCode(op); }, reason);
  if (failed(loops))
    return nullptr;
  target::KernelMeasurePtr result = target.measureKernel(*loops);
  loops->erase();
  return result;
}

target::KernelMeasurePtr Measures::get(Body body) {
  auto [entry, isNew] = known.try_emplace(keyOf(body));
  if (isNew)
    entry->second = measure(body);
  return entry->second;
}
