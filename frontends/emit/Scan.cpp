// Loops over the elements of sequences, as a single op.

#include "frontends/emit/Scan.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace polyrank::frontends {

/// Turns the outer values that the body uses into arguments of the body, and
/// returns these values.
static SmallVector<Value> isolate(Block &body, Location location) {
  llvm::SetVector<Value> used;
  for (Operation &op : body)
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() != &body)
        used.insert(operand);
  for (Value value : used) {
    Value inside = body.addArgument(value.getType(), location);
    value.replaceUsesWithIf(inside, [&](OpOperand &use) {
      return use.getOwner()->getBlock() == &body;
    });
  }
  return used.takeVector();
}

std::optional<Scanned> scan(Emitter &emit, ArrayRef<Imported> of,
                            ArrayRef<Imported> carried, bool isReversed,
                            IterationFn iterate) {
  Location location = emit.getLocation();
  OpBuilder &builder = emit.getBuilder();
  auto materialize = [&](ArrayRef<Imported> list) {
    return llvm::map_to_vector(
        list, [&](const Imported &x) { return emit.materialize(x); });
  };
  SmallVector<Value> sequences = materialize(of), starts = materialize(carried);
  auto region = std::make_unique<Region>();
  Block &body = region->emplaceBlock();
  std::vector<Imported> elements, before;
  for (Value sequence : sequences) {
    elements.emplace_back(body.addArgument(
        graph::ScanOp::getElementType(sequence.getType()), location));
    emit.addElement(elements.back().value, sequence);
  }
  for (Value start : starts)
    before.emplace_back(body.addArgument(start.getType(), location));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&body);
    std::optional<Scanned> given = iterate(elements, before);
    for (const Imported &element : elements)
      emit.removeElement(element.value);
    if (!given)
      return std::nullopt;
    graph::ScanYieldOp::create(builder, location, materialize(given->stacks),
                               materialize(given->carried));
  }
  SmallVector<Value> uses = isolate(body, location);
  int64_t count =
      cast<RankedTensorType>(sequences.front().getType()).getDimSize(0);
  auto numStacks = cast<graph::ScanYieldOp>(body.back()).getStack().size();
  SmallVector<Imported> operands;
  for (Value value : llvm::concat<Value>(sequences, starts, uses))
    operands.push_back(value);
  SmallVector<Imported> results =
      emit.emit(operands, [&](OpBuilder &b, ValueRange) -> Operation * {
        return graph::ScanOp::create(b, location, count, isReversed, sequences,
                                     starts, uses, std::move(region));
      });
  Scanned all;
  all.stacks.assign(results.begin(), results.begin() + numStacks);
  all.carried.assign(results.begin() + numStacks, results.end());
  return all;
}

} // namespace polyrank::frontends
