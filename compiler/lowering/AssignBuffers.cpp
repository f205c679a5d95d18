// assign-buffers: gives every value its place in the arena.

#include "compiler/cost/Machine.h"
#include "compiler/lowering/ArenaPacking.h"
#include "compiler/lowering/BufferClasses.h"
#include "compiler/lowering/Passes.h"
#include "dialects/graph/Boundary.h"
#include "dialects/graph/Graph.h"
#include "dialects/rank/Programs.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_ASSIGNBUFFERS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {

class BufferAssigner {
public:
  BufferAssigner(func::FuncOp function, BufferClasses &classes,
                 cost::Machine machine)
      : function(function), classes(classes), machine(machine),
        alignment(machine.getTarget().getAlignment()) {}

  LogicalResult run();

  ArenaPacking arena;

private:
  void tieBlock(Operation *terminator, ArrayRef<Place> targets);
  void tieMicrobatches();
  void tieLoops();
  void tieResults();
  void tieAddends();
  void placeBlocks();
  void mergeInPlace();
  void collectUnits();
  LogicalResult addScratch();
  void writeAttributes();
  rank::BufferAttr getBuffer(Value value);

  func::FuncOp function;
  BufferClasses &classes;
  cost::Machine machine;
  int64_t alignment;
  /// What the arena is packed from. A unit is a class (values that share a
  /// buffer), the classes of a bucket, or the scratch of a call.
  std::vector<ArenaUnit> units;
  /// The unit of a class, and its offset there.
  DenseMap<int, std::pair<int, int64_t>> unitOf;
  DenseMap<Operation *, int> scratchUnit;
};

} // namespace

/// Returns true if `value` is, or is a view of, a value that is computed before
/// the block: it is computed once, not for each microbatch.
static bool isFromOutside(Value value, Block *block) {
  auto view = value.getDefiningOp<rank::ViewOp>();
  for (; view; view = value.getDefiningOp<rank::ViewOp>())
    value = view.getInput();
  return value.getParentBlock() != block;
}

/// Makes operand i of the terminator lie at targets[i] (buffer -1: anywhere) at
/// the end of the block; if `terminator` is a loop, before its first iteration.
/// The operand is computed at this place if nothing prevents that, otherwise
/// copied there after all reads. An operand whose buffer is the target of
/// another operand is copied to a new buffer first.
void BufferAssigner::tieBlock(Operation *terminator, ArrayRef<Place> targets) {
  SmallVector<Place> wanted(targets);
  auto isWanted = [&](int buffer) {
    return llvm::any_of(wanted,
                        [&](const Place &at) { return at.buffer == buffer; });
  };
  for (auto [operand, target] :
       llvm::zip_equal(terminator->getOpOperands(), wanted)) {
    int current = classes.find(operand.get());
    if (current != target.buffer && isWanted(current))
      operand.set(classes.insertCopy(operand.get(), terminator, 0));
  }
  for (auto [i, operand] : llvm::enumerate(terminator->getOpOperands())) {
    const Place at = wanted[i];
    if (at.buffer < 0)
      continue;
    Place place = classes.getPlace(operand.get());
    if (place.beginsLike(at))
      continue;
    bool whole = place.isFirst() && classes.getSize(place.buffer) == at.size;
    bool hasSlots = at.stride != 0;
    if (!whole || classes.isPersistent(place.buffer) ||
        (hasSlots && isFromOutside(operand.get(), terminator->getBlock())) ||
        !classes.canPlace(place.buffer, at)) {
      operand.set(classes.insertCopy(operand.get(), terminator, 1));
      place = classes.getPlace(operand.get());
    }
    classes.place(place.buffer, at);
    for (Place &other : wanted)
      if (other.buffer == place.buffer)
        other.buffer = at.buffer;
  }
}

/// Gives each microbatch sum and carried value one buffer throughout, and each
/// stash one buffer with a slot for each microbatch in flight.
void BufferAssigner::tieMicrobatches() {
  rank::MicrobatchesOp loop = classes.getMicrobatches();
  if (!loop)
    return;
  SmallVector<rank::SegmentOp, 4> segments = loop.getSegments();
  for (rank::SegmentOp segment : llvm::reverse(segments)) {
    rank::YieldOp yield = segment.getYield();
    SmallVector<Place> targets;
    for (auto [number, value] :
         llvm::zip_equal(segment.getGives(), yield.getOperands())) {
      int buffer = classes.find(loop.getResult(number));
      int64_t slots = loop.getSlots(number);
      targets.push_back(slots ? getSlotPlace(buffer, value, slots)
                              : classes.getWhole(buffer));
    }
    tieBlock(yield, targets);
  }
}

/// Gives each carried value one buffer from before the loop to after it, and
/// each stack one buffer with an element for each iteration.
void BufferAssigner::tieLoops() {
  function.walk([&](rank::LoopOp loop) {
    SmallVector<Place> starts(loop->getNumOperands()), targets;
    unsigned numOf = loop.getOf().size(), numStacks = loop.getNumStacks();
    rank::YieldOp yield = loop.getYield();
    for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
      Place whole = classes.getPlace(loop.getResult(i));
      bool isStack = i < numStacks;
      targets.push_back(isStack ? getElementPlace(whole, value, loop) : whole);
      if (!isStack)
        starts[numOf + i - numStacks] = targets.back();
    }
    tieBlock(yield, targets);
    tieBlock(loop, starts);
  });
}

/// Gives results that replace arguments the buffers of these arguments.
void BufferAssigner::tieResults() {
  Operation *terminator = function.getBody().front().getTerminator();
  graph::Boundary boundary(function);
  SmallVector<Place> wanted;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    std::optional<unsigned> replaced = boundary.getReplaced(i);
    wanted.push_back(replaced ? classes.getWhole(classes.find(
                                    function.getArgument(*replaced)))
                              : Place());
  }
  tieBlock(terminator, wanted);
}

/// Gives the result of a library call and its addend one buffer.
void BufferAssigner::tieAddends() {
  function.walk([&](rank::LibraryCallOp call) {
    std::optional<unsigned> number = call.getAddendNumber();
    if (!number)
      return;
    OpOperand &addend = call->getOpOperand(*number);
    Place place = classes.getPlace(addend.get()),
          at = classes.getPlace(call->getResult(0));
    if (place.beginsLike(at))
      return;
    bool whole = place.isFirst() && classes.getSize(place.buffer) == at.size;
    if (!whole || classes.isPersistent(place.buffer) ||
        !classes.canPlace(place.buffer, at)) {
      addend.set(classes.insertCopy(addend.get(), call, 1));
      place = classes.getPlace(addend.get());
    }
    classes.place(place.buffer, at);
  });
}

/// Places the results of reduce_scatter and the operands of all_gather as
/// blocks inside the collective's operand or result, so that a device does not
/// copy its own block. The containing value then lives as long as the block,
/// which must not increase the peak memory of the step.
void BufferAssigner::placeBlocks() {
  LiveBytes live;
  auto add = [&](LiveBytes &sum, ArrayRef<Lifetime> lifetimes, int buffer,
                 int64_t sign) {
    if (!classes.isPersistent(buffer))
      sum.add(lifetimes, sign * classes.getSize(buffer));
  };
  for (int buffer : classes.getClasses())
    add(live, classes.getLifetimes(buffer), buffer, 1);
  auto placeBlock = [&](Value part, Value whole, rank::AxesAttr axes) {
    int64_t bytes = rank::getByteSize(part.getType());
    Place own = classes.getPlace(part), around = classes.getPlace(whole);
    Place at = around.getBlock(axes, bytes);
    if (own.buffer == around.buffer || !own.isFirst() || around.axes ||
        classes.getSize(own.buffer) != bytes ||
        classes.isPersistent(own.buffer) || !classes.canPlace(own.buffer, at))
      return;
    SmallVector<Lifetime> lifetimes = classes.getLifetimes(own.buffer);
    SmallVector<Lifetime> before = classes.getLifetimes(around.buffer);
    LiveBytes then(live);
    add(then, lifetimes, own.buffer, -1);
    add(then, before, around.buffer, -1);
    llvm::append_range(lifetimes, before);
    add(then, joinLifetimes(lifetimes), around.buffer, 1);
    if (then.getLargest() > live.getLargest())
      return;
    live = std::move(then);
    classes.place(own.buffer, at);
  };
  function.walk([&](Operation *op) {
    if (!isa<rank::CollectiveOp>(op))
      return;
    for (auto [i, operand, result] :
         llvm::enumerate(op->getOperands(), op->getResults())) {
      InPlace way = classes.getInPlace(op, i, i);
      // An argument must keep its value until the step's end.
      if (way == InPlace::Block && !classes.isPersistent(classes.find(operand)))
        placeBlock(result, operand, cast<rank::CollectiveOp>(op).getAxes());
      if (way == InPlace::Whole)
        placeBlock(operand, result, cast<rank::CollectiveOp>(op).getAxes());
    }
  });
}

/// Lets the results of other commands reuse the buffers of operands that are
/// not read after the command.
void BufferAssigner::mergeInPlace() {
  function.walk([&](Operation *op) {
    if (!isa<rank::LaunchOp, rank::CollectiveOp, rank::LibraryCallOp>(op))
      return;
    for (OpResult result : op->getResults())
      for (OpOperand &operand : op->getOpOperands()) {
        Place place = classes.getPlace(operand.get());
        int target = classes.find(result);
        if (place.buffer == target)
          break;
        if (place.isFirst() && classes.getPlace(result).isFirst() &&
            !classes.isPersistent(place.buffer) &&
            llvm::alignTo(classes.getSize(place.buffer), alignment) ==
                llvm::alignTo(classes.getSize(target), alignment) &&
            classes.getInPlace(op, operand.getOperandNumber(),
                               result.getResultNumber()) == InPlace::Same &&
            classes.canMerge(place.buffer, target)) {
          classes.merge(target, place.buffer);
          break;
        }
      }
  });
}

void BufferAssigner::collectUnits() {
  auto add = [&](ArrayRef<int> members) {
    ArenaUnit unit;
    unit.isPersistent = classes.isPersistent(members.front());
    int64_t end = 0;
    for (int member : members) {
      unitOf[member] = {static_cast<int>(units.size()), end};
      end += llvm::alignTo(classes.getSize(member), alignment);
      llvm::append_range(unit.packed.lifetimes, classes.getLifetimes(member));
    }
    unit.packed.size = end;
    unit.packed.lifetimes = joinLifetimes(unit.packed.lifetimes);
    units.push_back(unit);
  };
  // Buckets.
  function.walk([&](Operation *op) {
    if (!isa<rank::CollectiveOp>(op) || op->getNumOperands() == 1)
      return;
    for (auto values :
         {ValueRange(op->getOperands()), ValueRange(op->getResults())}) {
      SmallVector<int> members;
      for (Value value : values)
        members.push_back(classes.find(value));
      bool free = llvm::all_of(members, [&](int member) {
        return !classes.isPersistent(member) && !unitOf.contains(member) &&
               llvm::count(members, member) == 1;
      });
      if (free)
        add(members);
    }
  });
  for (int buffer : classes.getClasses())
    if (!unitOf.contains(buffer))
      add(buffer);
  function.walk([&](Operation *op) {
    if (isa<rank::CollectiveOp>(op))
      for (auto values :
           {ValueRange(op->getOperands()), ValueRange(op->getResults())})
        for (Value value : values)
          units[unitOf.at(classes.find(value)).first].region =
              rank::Region::Shared;
  });
}

/// Adds the memory in which library calls work.
LogicalResult BufferAssigner::addScratch() {
  LogicalResult result = success();
  function.walk([&](rank::LibraryCallOp call) {
    auto target = target::getLibraryTarget(call);
    FailureOr<int64_t> bytes;
    if (succeeded(target))
      bytes = target->getScratchBytes(call, machine.getThreads());
    if (failed(bytes))
      result = failure();
    if (failed(bytes) || *bytes == 0)
      return;
    int64_t position = classes.getPosition(call);
    ArenaUnit unit;
    unit.packed.size = *bytes;
    unit.packed.lifetimes = {{position, position}};
    scratchUnit[call] = units.size();
    units.push_back(unit);
  });
  return result;
}

rank::BufferAttr BufferAssigner::getBuffer(Value value) {
  Place place = classes.getPlace(value);
  auto [unit, offset] = unitOf.at(place.buffer);
  return rank::BufferAttr::get(
      function.getContext(), units[unit].region,
      units[unit].packed.offset + offset + place.offset, place.size,
      place.stride, place.slots, place.step, place.axes, place.each);
}

void BufferAssigner::writeAttributes() {
  Builder builder(function.getContext());
  auto list = [&](ValueRange values) {
    return builder.getArrayAttr(llvm::map_to_vector(
        values, [&](Value value) -> Attribute { return getBuffer(value); }));
  };
  for (BlockArgument argument : function.getArguments())
    function.setArgAttr(argument.getArgNumber(), rank::bufferAttrName,
                        getBuffer(argument));
  function.walk([&](Operation *op) {
    if (auto command = dyn_cast<rank::CommandOp>(op))
      command.setBuffersAttr(list(op->getResults()));
    if (auto scratch = scratchUnit.find(op); scratch != scratchUnit.end()) {
      const ArenaUnit &unit = units[scratch->second];
      cast<rank::LibraryCallOp>(op).setScratchAttr(
          rank::BufferAttr::get(function.getContext(), unit.region,
                                unit.packed.offset, unit.packed.size));
    }
  });
  function->setAttr(
      rank::arenaAttrName,
      rank::ArenaAttr::get(function.getContext(), arena.shared.size,
                           arena.privately.size, arena.lowerBound));
}

LogicalResult BufferAssigner::run() {
  tieMicrobatches();
  tieLoops();
  tieResults();
  tieAddends();
  placeBlocks();
  mergeInPlace();
  collectUnits();
  if (failed(addScratch()))
    return failure();
  arena = packArena(units, alignment);
  writeAttributes();
  return success();
}

namespace {
struct AssignBuffersPass
    : lowering::impl::AssignBuffersBase<AssignBuffersPass> {
  using AssignBuffersBase::AssignBuffersBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      auto machine = cost::Machine::of(function);
      FailureOr<BufferClasses> classes = BufferClasses::build(function);
      if (failed(machine) || failed(classes))
        return signalPassFailure();
      BufferAssigner assigner(function, *classes, *machine);
      if (failed(assigner.run()))
        return signalPassFailure();
      if (!report)
        continue;
      int64_t size = assigner.arena.shared.size + assigner.arena.privately.size;
      function.emitRemark()
          << "arena of " << size << " bytes (" << assigner.arena.shared.size
          << " shared, " << assigner.arena.privately.size
          << " private); at least " << assigner.arena.lowerBound
          << " are live at once, gap " << size - assigner.arena.lowerBound;
    }
  }
};
} // namespace
