// form-segments: cuts the microbatches of a step into segments and orders them.

#include "compiler/lowering/Passes.h"
#include "compiler/lowering/PipelineSchedule.h"
#include "compiler/lowering/SegmentPlan.h"
#include "dialects/graph/Provenance.h"
#include "dialects/pipeline/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include <map>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

namespace polyrank::lowering {
#define GEN_PASS_DEF_FORMSEGMENTS
#include "compiler/lowering/Passes.h.inc"
} // namespace polyrank::lowering

namespace {
/// By id of a transfer: true if it goes to a later stage.
using Directions = DenseMap<int64_t, bool>;

/// Turns all runs but the last into a rank.microbatches; the last run comes
/// after it.
class SegmentFormer {
public:
  SegmentFormer(graph::MicrobatchesOp op, const SegmentPlan &plan,
                const Directions &directions)
      : op(op), body(op.getBody().front()),
        yield(cast<graph::YieldOp>(body.getTerminator())), plan(plan),
        directions(directions), builder(op) {}

  void run();

private:
  /// A result of the loop: a sum, or a value handed to a later segment or to
  /// the next microbatch. `value` is the microbatch's value, and `argument`
  /// stands for the result inside the body.
  struct Result {
    enum Kind { Sum, Stash, Carried } kind;
    unsigned number; // of the sum, the crossing or the carried value
    Value value, argument;
    int64_t writer; // segment
  };
  /// The values that a copy of a segment uses: by the body's values, and for
  /// sums by number.
  struct Found {
    IRMapping values;
    DenseMap<unsigned, Value> sums;
  };
  void collectResults();
  bool takes(const Result &result, int64_t segment, bool isFirst) const;
  Value find(Value value, int64_t segment, IRMapping &mapping);
  SmallVector<Operation *> orderOps(int64_t segment) const;
  DenseMap<Value, Value> copySegment(int64_t segment, Found &found);
  Value addPart(unsigned sum, Value part, Value sumSoFar);
  void buildLoop(ArrayRef<SegmentPlan::Run> runs, ValueRange of);
  rank::SegmentOp buildSegment(int64_t segment, bool isFirst, ValueRange of);
  Found findBehind(SegmentPlan::Run run, ValueRange of);
  Value getIndices();

  graph::MicrobatchesOp op;
  Block &body;
  graph::YieldOp yield;
  const SegmentPlan &plan;
  const Directions &directions;
  OpBuilder builder;
  SmallVector<Result> results;
  /// The values of `results` once the loop is built; empty if there is no loop.
  SmallVector<Value> values;
};
} // namespace

/// A constant with the numbers of all microbatches.
Value SegmentFormer::getIndices() {
  SmallVector<int64_t> numbers;
  for (int64_t number = 0; number < static_cast<int64_t>(op.getCount());
       ++number)
    numbers.push_back(number);
  auto values = builder.getI64TensorAttr(numbers);
  return rank::ConstantOp::create(builder, op.getLoc(), values.getType(),
                                  values, /*buffers=*/nullptr);
}

static RankedTensorType getElementType(Value stacked) {
  auto type = cast<RankedTensorType>(stacked.getType());
  return RankedTensorType::get(type.getShape().drop_front(),
                               type.getElementType());
}

/// Collects the results that some run of the loop gives.
void SegmentFormer::collectResults() {
  auto add = [&](Result result) {
    if (llvm::any_of(plan.getRuns().drop_back(), [&](SegmentPlan::Run run) {
          return run.segment == result.writer;
        }))
      results.push_back(result);
  };
  for (auto [i, value] : llvm::enumerate(yield.getSum()))
    add({Result::Sum,
         static_cast<unsigned>(i),
         value,
         {},
         plan.getSumSegment(i)});
  for (auto [i, crossing] : llvm::enumerate(plan.getCrossings()))
    add({Result::Stash, static_cast<unsigned>(i), crossing.value,
         crossing.value, plan.getSegment(crossing.value)});
  for (auto [i, value] : llvm::enumerate(yield.getCarry()))
    add({Result::Carried, static_cast<unsigned>(i), value, op.getCarried()[i],
         plan.getCarrySegment(i)});
}

bool SegmentFormer::takes(const Result &result, int64_t segment,
                          bool isFirst) const {
  switch (result.kind) {
  case Result::Sum:
    return result.writer == segment && !isFirst;
  case Result::Stash:
    return llvm::is_contained(plan.getCrossings()[result.number].readers,
                              segment);
  case Result::Carried:
    return plan.getSegment(result.argument) == segment;
  }
  llvm_unreachable("covered switch");
}

/// The value of the body's `value` in a copy of `segment`: an existing one, or
/// a recomputed one.
Value SegmentFormer::find(Value value, int64_t segment, IRMapping &mapping) {
  if (mapping.contains(value) || plan.getSegment(value) < 0)
    return mapping.lookupOrDefault(value);
  Operation *producer = value.getDefiningOp();
  assert(SegmentPlan::isFree(value) && "what a segment reads is handed to it");
  for (Value operand : producer->getOperands())
    mapping.map(operand, find(operand, segment, mapping));
  builder.clone(*producer, mapping);
  return mapping.lookup(value);
}

/// Adds a microbatch's part to the sum just after the part is computed, so that
/// it need not be kept until the end.
Value SegmentFormer::addPart(unsigned sum, Value part, Value sumSoFar) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *producer = part.getDefiningOp();
  Value value = yield.getSum()[sum];
  if (producer && value.getDefiningOp() && value.getParentBlock() == &body)
    builder.setInsertionPointAfter(producer);
  Value added = graph::AddOp::create(builder, value.getLoc(), sumSoFar, part);
  if (producer)
    graph::copyProvenance(producer, added.getDefiningOp());
  return added;
}

/// The ops of a segment in the order in which it executes them. What a later
/// stage sends back, such as the next value of a state, may depend on all that
/// this stage sends there. So it is received after what is sent to later stages
/// and does not depend on it.
SmallVector<Operation *> SegmentFormer::orderOps(int64_t segment) const {
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    if (plan.getSegment(&op) == segment)
      ops.push_back(&op);
  DenseSet<Operation *> late;
  auto dependsOnLate = [&](Operation *op) {
    return op
        ->walk([&](Operation *inner) {
          return llvm::any_of(inner->getOperands(),
                              [&](Value operand) {
                                Operation *producer = operand.getDefiningOp();
                                return producer && late.contains(producer);
                              })
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  };
  for (Operation *op : ops) {
    auto receive = dyn_cast<rank::RecvOp>(op);
    if ((receive && !directions.lookup(receive.getId())) || dependsOnLate(op))
      late.insert(op);
  }
  Operation *last = nullptr; // send to a later stage that depends on none
  for (Operation *op : ops)
    if (auto send = dyn_cast<rank::SendOp>(op))
      if (directions.lookup(send.getId()) && !late.contains(op))
        last = op;
  if (!last)
    return ops;
  auto begin = llvm::find(ops, last) + 1;
  std::stable_partition(ops.begin(), begin,
                        [&](Operation *op) { return !late.contains(op); });
  return ops;
}

/// Copies a segment to the builder's insertion point. Returns the copies of its
/// results by the microbatch's values; for sums, by the number of the sum.
DenseMap<Value, Value> SegmentFormer::copySegment(int64_t segment,
                                                  Found &found) {
  IRMapping &mapping = found.values;
  // A send waits for a free slot of its channel, and another stage frees the
  // slot when it has received what this stage sends. So all receives of one
  // direction come before the sends of that direction; stage_order::getSlots
  // counts the slots for this order.
  Operation *lastReceive[2] = {}; // by direction
  for (auto receive : body.getOps<rank::RecvOp>())
    if (plan.getSegment(receive.getOperation()) == segment)
      lastReceive[directions.lookup(receive.getId())] = receive;
  SmallVector<Operation *> sends[2]; // sends before the last receive
  auto sendNow = [&](bool direction) {
    for (Operation *send : sends[direction])
      builder.clone(*send, mapping);
    sends[direction].clear();
  };
  for (Operation *inner : orderOps(segment)) {
    // A free value is computed just before its first reader.
    bool isMadeLater = plan.getNumSegments() > 1 &&
                       inner->getNumResults() == 1 &&
                       SegmentPlan::isFree(inner->getResult(0));
    if (isMadeLater)
      continue;
    for (Value operand : inner->getOperands())
      if (plan.getSegment(operand) >= 0)
        mapping.map(operand, find(operand, segment, mapping));
    if (auto send = dyn_cast<rank::SendOp>(inner))
      if (bool direction = directions.lookup(send.getId());
          lastReceive[direction]) {
        sends[direction].push_back(inner);
        continue;
      }
    auto receive = dyn_cast<rank::RecvOp>(inner);
    bool direction = receive && directions.lookup(receive.getId());
    if (receive)
      sendNow(!direction);
    builder.clone(*inner, mapping);
    if (inner == lastReceive[direction]) {
      lastReceive[direction] = nullptr;
      sendNow(direction);
    }
  }
  DenseMap<Value, Value> given;
  for (auto [i, value] : llvm::enumerate(yield.getSum())) {
    if (plan.getSumSegment(i) != segment)
      continue;
    Value part = find(value, segment, mapping);
    // Looked up before operator[] makes an entry.
    Value before = found.sums.lookup(i);
    found.sums[i] = before ? addPart(i, part, before) : part;
  }
  for (auto [i, value] : llvm::enumerate(yield.getCarry()))
    if (plan.getCarrySegment(i) == segment)
      given[value] = find(value, segment, mapping);
  for (const SegmentPlan::Crossing &crossing : plan.getCrossings())
    if (plan.getSegment(crossing.value) == segment)
      given[crossing.value] = mapping.lookup(crossing.value);
  return given;
}

/// Builds a segment of the loop, for the first microbatch that runs it or for
/// the others.
rank::SegmentOp SegmentFormer::buildSegment(int64_t segment, bool isFirst,
                                            ValueRange of) {
  SmallVector<int64_t> taken, given;
  for (auto [i, result] : llvm::enumerate(results)) {
    if (takes(result, segment, isFirst))
      taken.push_back(i);
    if (result.writer == segment)
      given.push_back(i);
  }
  std::string name = plan.getName(segment);
  if (name.empty())
    name = isFirst ? "first" : "rest";
  else if (isFirst)
    name += " first";
  OpBuilder::InsertionGuard guard(builder);
  auto made = rank::SegmentOp::create(builder, op.getLoc(), name, taken, given);
  Block *block = builder.createBlock(&made.getBody());
  Found found;
  found.values.map(op.getCarried(), op.getCarry());
  for (auto [argument, stacked] : llvm::zip(body.getArguments(), of))
    found.values.map(argument, block->addArgument(getElementType(stacked),
                                                  argument.getLoc()));
  for (int64_t number : taken) {
    const Result &result = results[number];
    Value argument =
        block->addArgument(result.value.getType(), result.value.getLoc());
    if (result.kind == Result::Sum)
      found.sums[result.number] = argument;
    else
      found.values.map(result.argument, argument);
  }
  DenseMap<Value, Value> copied = copySegment(segment, found);
  rank::YieldOp::create(
      builder, yield.getLoc(), llvm::map_to_vector(given, [&](int64_t number) {
        const Result &result = results[number];
        return result.kind == Result::Sum ? found.sums.at(result.number)
                                          : copied.at(result.value);
      }));
  return made;
}

void SegmentFormer::buildLoop(ArrayRef<SegmentPlan::Run> runs, ValueRange of) {
  SmallVector<Type> types;
  SmallVector<Value> carry;
  SmallVector<int64_t> stashes, schedule;
  for (auto [i, result] : llvm::enumerate(results)) {
    auto type = cast<RankedTensorType>(result.value.getType());
    if (result.kind == Result::Carried)
      carry.push_back(op.getCarry()[result.number]);
    if (result.kind == Result::Stash) {
      SmallVector<int64_t> shape = {
          plan.getCrossings()[result.number].count.slots};
      llvm::append_range(shape, type.getShape());
      type = RankedTensorType::get(shape, type.getElementType());
      stashes.push_back(i);
    }
    types.push_back(type);
  }
  // The first run of a segment starts sums and takes carried values from their
  // operands, so it is a segment of its own.
  std::map<std::pair<int64_t, bool>, int64_t> numbers;
  DenseSet<int64_t> started;
  for (SegmentPlan::Run run : runs) {
    bool isApart = llvm::any_of(results, [&](const Result &result) {
      return result.kind != Result::Stash &&
             (result.writer == run.segment ||
              takes(result, run.segment, /*isFirst=*/false));
    });
    bool isFirst = started.insert(run.segment).second && isApart;
    auto [number, isNew] =
        numbers.try_emplace({run.segment, isFirst}, numbers.size());
    schedule.push_back(number->second);
    schedule.push_back(run.microbatch);
  }
  auto loop = rank::MicrobatchesOp::create(builder, op.getLoc(), types,
                                           schedule, of, carry, stashes,
                                           /*buffers=*/nullptr);
  SmallVector<std::pair<int64_t, bool>> ordered(numbers.size());
  for (auto [segment, number] : numbers)
    ordered[number] = segment;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&loop.getBody());
    for (auto [segment, isFirst] : ordered)
      buildSegment(segment, isFirst, of);
  }
  llvm::append_range(values, loop.getResults());
}

/// The values that the last run uses after the loop.
SegmentFormer::Found SegmentFormer::findBehind(SegmentPlan::Run run,
                                               ValueRange of) {
  Found found;
  auto view = [&](Value stacked, int64_t element) {
    RankedTensorType type = getElementType(stacked);
    return rank::ViewOp::create(builder, op.getLoc(), type, stacked,
                                element * type.getNumElements(),
                                /*buffers=*/nullptr);
  };
  for (auto [argument, stacked] : llvm::zip(body.getArguments(), of))
    found.values.map(argument, view(stacked, run.microbatch));
  found.values.map(op.getCarried(), op.getCarry());
  for (auto [result, value] : llvm::zip(results, values)) {
    if (result.kind == Result::Sum)
      found.sums[result.number] = value;
    else if (!takes(result, run.segment, /*isFirst=*/false))
      continue;
    else if (result.kind == Result::Carried)
      found.values.map(result.argument, value);
    else
      found.values.map(
          result.argument,
          view(value, run.microbatch %
                          plan.getCrossings()[result.number].count.slots));
  }
  return found;
}

void SegmentFormer::run() {
  SmallVector<Value> of = {getIndices()};
  llvm::append_range(of, op.getOf());
  collectResults();
  ArrayRef<SegmentPlan::Run> runs = plan.getRuns();
  SegmentPlan::Run last = runs.back();
  if (runs.size() > 1)
    buildLoop(runs.drop_back(), of);
  Found found = findBehind(last, of);
  DenseMap<Value, Value> copied = copySegment(last.segment, found);
  SmallVector<Value> replaced;
  for (unsigned i = 0; i < op.getNumSums(); ++i)
    replaced.push_back(found.sums.at(i));
  for (auto [i, value] : llvm::enumerate(yield.getCarry())) {
    bool isLast = plan.getCarrySegment(i) == last.segment;
    auto given = llvm::find_if(results, [&, i = i](const Result &result) {
      return result.kind == Result::Carried && result.number == i;
    });
    replaced.push_back(isLast ? copied.at(value)
                              : values[given - results.begin()]);
  }
  op.replaceAllUsesWith(replaced);
  op.erase();
}

/// The directions of all transfers between the module's programs.
static Directions findDirections(ModuleOp module) {
  DenseMap<int64_t, int64_t> senders;
  module.walk([&](rank::SendOp send) {
    senders[send.getId()] = graph::getStage(send).value_or(0);
  });
  Directions directions;
  module.walk([&](rank::RecvOp receive) {
    directions[receive.getId()] =
        senders.lookup(receive.getId()) < graph::getStage(receive).value_or(0);
  });
  return directions;
}

namespace {
struct FormSegmentsPass : lowering::impl::FormSegmentsBase<FormSegmentsPass> {
  using FormSegmentsBase::FormSegmentsBase;

  /// The cut by the schedule of the module's pipeline, if it has one.
  FailureOr<MicrobatchCut> getCut(graph::MicrobatchesOp op) {
    MicrobatchCut cut;
    cut.ahead = ahead;
    auto at =
        op->getParentOp()->getAttrOfType<DictionaryAttr>(rank::placeAttrName);
    std::optional<pipeline::Stages> stages =
        pipeline::getStages(getOperation());
    if (!at || !stages)
      return cut;
    int64_t here = at.getAs<IntegerAttr>(stages->axis).getInt();
    for (auto [stage, coordinate] : llvm::enumerate(stages->coordinates))
      if (coordinate == here)
        cut.stages.push_back(stage);
    FailureOr<stage_order::Schedule> schedule =
        getSchedule(getOperation(), op.getCount());
    if (failed(schedule))
      return failure();
    cut.entries = schedule->ranks[here];
    cut.splitsBackward = schedule->splitsBackward;
    return cut;
  }

  void runOnOperation() override {
    if (ahead < 0) {
      getOperation().emitError("ahead is ")
          << ahead.getValue() << ", no number of microbatches";
      return signalPassFailure();
    }
    Directions directions = findDirections(getOperation());
    SmallVector<graph::MicrobatchesOp> regions;
    getOperation().walk(
        [&](graph::MicrobatchesOp op) { regions.push_back(op); });
    for (graph::MicrobatchesOp op : regions) {
      FailureOr<MicrobatchCut> cut = getCut(op);
      if (failed(cut))
        return signalPassFailure();
      FailureOr<SegmentPlan> plan = SegmentPlan::build(op, *std::move(cut));
      if (failed(plan))
        return signalPassFailure();
      for (const SegmentPlan::Crossing &crossing : plan->getCrossings())
        if (crossing.count.slots > crossing.count.bound)
          emitRemark(crossing.value.getLoc())
              << "has " << crossing.count.slots << " slots, where "
              << crossing.count.bound << " microbatches need it at once";
      SegmentFormer(op, *plan, directions).run();
    }
  }
};
} // namespace
