// Which segments a microbatch is cut into, and when each of them runs.

#include "compiler/lowering/SegmentPlan.h"

#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

FailureOr<SegmentPlan> SegmentPlan::build(graph::MicrobatchesOp op,
                                          int64_t ahead) {
  SegmentPlan plan(op, ahead);
  plan.assignOps();
  plan.orderRuns();
  if (failed(plan.checkCarried()))
    return failure();
  plan.findCrossings();
  for (Crossing &crossing : plan.crossings)
    crossing.count = countSlots(plan.getSpans(crossing));
  return plan;
}

StringRef SegmentPlan::getName(int64_t segment) const {
  if (!ahead)
    return "";
  return segment == 0 ? "forward" : "backward";
}

/// What the backward computes is behind the cut, and all that reads it.
void SegmentPlan::assignOps() {
  for (Operation &inner : op.getBody().front().without_terminator()) {
    bool isBackward = graph::getMarkedPhase(&inner).value_or(
                          graph::Phase::Forward) != graph::Phase::Forward;
    int64_t segment = ahead && isBackward ? 1 : 0;
    for (Value operand : inner.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        segment = std::max(segment, segments.lookup(producer));
    segments[&inner] = segment;
  }
}

int64_t SegmentPlan::getSegment(Value value) const {
  if (Operation *producer = value.getDefiningOp()) {
    auto segment = segments.find(producer);
    return segment == segments.end() ? -1 : segment->second;
  }
  if (!llvm::is_contained(op.getCarried(), value))
    return -1;
  int64_t first = getNumSegments() - 1;
  for (Operation *user : value.getUsers())
    if (auto segment = segments.find(user); segment != segments.end())
      first = std::min(first, segment->second);
  return first;
}

static graph::YieldOp getYield(graph::MicrobatchesOp op) {
  return cast<graph::YieldOp>(op.getBody().front().getTerminator());
}

int64_t SegmentPlan::getSumSegment(unsigned i) const {
  int64_t segment = getSegment(getYield(op).getSum()[i]);
  return segment < 0 ? getNumSegments() - 1 : segment;
}

int64_t SegmentPlan::getCarrySegment(unsigned i) const {
  return std::max(getSegment(getYield(op).getCarry()[i]),
                  getSegment(op.getCarried()[i]));
}

LogicalResult SegmentPlan::checkCarried() {
  for (auto [i, argument] : llvm::enumerate(op.getCarried())) {
    int64_t reader = getSegment(argument), giver = getCarrySegment(i);
    if (ahead > 1 && reader != giver)
      return op.emitOpError("hands on value ")
             << i << ", which '" << getName(reader) << "' reads and '"
             << getName(giver)
             << "' computes: no other microbatch can go forward in between";
  }
  return success();
}

/// With two segments: one forward, one backward, in turn, once `ahead`
/// microbatches are on their way.
void SegmentPlan::orderRuns() {
  int64_t count = op.getCount(), last = getNumSegments() - 1;
  int64_t numAhead = std::min(std::max<int64_t>(ahead, 1), count);
  for (int64_t i = 0; last > 0 && i < numAhead; ++i)
    runs.push_back({0, i});
  for (int64_t i = 0; i < count; ++i) {
    runs.push_back({last, i});
    if (last > 0 && i + numAhead < count)
      runs.push_back({0, i + numAhead});
  }
}

bool SegmentPlan::isFree(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && ((producer->getNumOperands() == 0 && isPure(producer)) ||
                      isa<graph::ReshapeOp, graph::BroadcastOp>(producer));
}

void SegmentPlan::require(Value value, int64_t reader) {
  int64_t writer = getSegment(value);
  if (writer < 0 || writer == reader)
    return;
  if (isFree(value)) {
    for (Value operand : value.getDefiningOp()->getOperands())
      require(operand, reader);
    return;
  }
  auto known = llvm::find_if(crossings, [&](const Crossing &crossing) {
    return crossing.value == value;
  });
  if (known == crossings.end()) {
    crossings.push_back({value, {reader}});
  } else if (!llvm::is_contained(known->readers, reader)) {
    known->readers.push_back(reader);
  }
}

void SegmentPlan::findCrossings() {
  for (Operation &inner : op.getBody().front().without_terminator())
    for (Value operand : inner.getOperands())
      require(operand, segments.at(&inner));
  for (auto [i, value] : llvm::enumerate(getYield(op).getSum()))
    require(value, getSumSegment(i));
  for (auto [i, value] : llvm::enumerate(getYield(op).getCarry()))
    require(value, getCarrySegment(i));
}

/// From the run that gives a microbatch's value to the last that reads it.
SmallVector<std::pair<int64_t, int64_t>>
SegmentPlan::getSpans(const Crossing &crossing) const {
  int64_t writer = getSegment(crossing.value);
  SmallVector<std::pair<int64_t, int64_t>> spans(op.getCount());
  for (auto [i, run] : llvm::enumerate(runs)) {
    auto &[begin, end] = spans[run.microbatch];
    if (run.segment == writer)
      begin = i;
    else if (llvm::is_contained(crossing.readers, run.segment))
      end = i;
  }
  return spans;
}

SlotCount
polyrank::lowering::countSlots(ArrayRef<std::pair<int64_t, int64_t>> spans) {
  SlotCount count;
  // The most are there where some value begins.
  for (auto [begin, end] : spans)
    count.bound = std::max<int64_t>(
        count.bound, llvm::count_if(spans, [begin = begin](auto span) {
          return span.first <= begin && begin <= span.second;
        }));
  auto collides = [&](int64_t slots) {
    for (size_t m = 0; m < spans.size(); ++m)
      for (size_t n = m + slots; n < spans.size(); n += slots)
        if (spans[m].first <= spans[n].second &&
            spans[n].first <= spans[m].second)
          return true;
    return false;
  };
  for (count.slots = count.bound; collides(count.slots); ++count.slots)
    ;
  return count;
}
