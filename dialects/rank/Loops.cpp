// Commands that run once per element of dim 0.

#include "dialects/graph/Graph.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

YieldOp LoopOp::getYield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

LoopOp::Source LoopOp::getSource(BlockArgument argument) {
  unsigned number = argument.getArgNumber(), numOf = getOf().size();
  if (number < numOf)
    return {getOf()[number], /*isElement=*/true};
  if (number < numOf + getCarry().size())
    return {getResult(getNumStacks() + number - numOf)};
  return {getUses()[number - numOf - getCarry().size()]};
}

BufferAttr LoopOp::getElementBuffer(BufferAttr whole, Value element) {
  int64_t bytes = getByteSize(element.getType());
  return whole.getIteration(bytes, getFirst(bytes), getEach(bytes));
}

runtime::InPlace LoopOp::getInPlace(unsigned operand, unsigned result) {
  unsigned numOf = getOf().size();
  return operand >= numOf && result >= getNumStacks() &&
                 operand - numOf == result - getNumStacks()
             ? runtime::InPlace::Same
             : runtime::InPlace::Never;
}

LogicalResult LoopOp::verify() {
  int64_t count = getCount();
  if (count < 2)
    return emitOpError("[1] has ") << count << " iterations";
  SmallVector<Type> arguments, yielded;
  for (Type type : getOf().getTypes()) {
    if (!graph::ScanOp::isStack(type, count))
      return emitOpError("[1] goes through ")
             << type << " in " << count << " iterations";
    arguments.push_back(graph::ScanOp::getElementType(type));
  }
  llvm::append_range(arguments, getCarry().getTypes());
  llvm::append_range(arguments, getUses().getTypes());
  Block &block = getBody().front();
  if (TypeRange(block.getArgumentTypes()) != TypeRange(arguments))
    return emitOpError("[2] block arguments must be ") << arguments;
  if (getCarry().size() > getNumResults())
    return emitOpError("[3] carries more values than it has results");
  for (Type type : getResults().take_front(getNumStacks()).getTypes()) {
    if (!graph::ScanOp::isStack(type, count))
      return emitOpError("[1] stacks ") << count << " elements in " << type;
    yielded.push_back(graph::ScanOp::getElementType(type));
  }
  for (auto [operand, result] :
       llvm::zip_equal(getCarry(), getResults().drop_front(getNumStacks()))) {
    if (operand.getType() != result.getType())
      return emitOpError("[3] carries ")
             << operand.getType() << " on as " << result.getType();
    yielded.push_back(result.getType());
  }
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield || TypeRange(yield.getOperandTypes()) != TypeRange(yielded))
    return emitOpError("[3] must yield ") << yielded;
  for (Operation &op : block)
    if (isa<CollectiveOp, WaitOp, SendOp, RecvOp, LoopOp, MicrobatchesOp>(op))
      return (emitOpError("[4] holds a ") << op.getName())
                 .attachNote(op.getLoc())
             << "it stands here";
  return success();
}
