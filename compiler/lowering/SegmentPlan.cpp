// Decides into which segments a microbatch is cut, and when each runs.

#include "compiler/lowering/SegmentPlan.h"

#include "dialects/graph/Provenance.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;

using stage_order::Part;

FailureOr<SegmentPlan> SegmentPlan::build(graph::MicrobatchesOp op,
                                          MicrobatchCut cut) {
  SegmentPlan plan(op, std::move(cut));
  if (plan.cut.splitsBackward)
    plan.findWeightGradients();
  plan.assignOps();
  plan.orderRuns();
  if (failed(plan.checkCarried()))
    return failure();
  plan.findCrossings();
  for (Crossing &crossing : plan.crossings)
    crossing.count = countSlots(plan.getSpans(crossing));
  return plan;
}

int64_t SegmentPlan::getNumSegments() const {
  if (isPipeline())
    return cut.stages.size() * (cut.splitsBackward ? 3 : 2);
  return cut.ahead ? 2 : 1;
}

/// Segments are numbered: forwards by chunk, then backwards from the last chunk
/// on, then weight gradients. So no segment reads what a later one computes.
int64_t SegmentPlan::getSegment(Part part, int64_t chunk) const {
  int64_t chunks = cut.stages.size();
  switch (part) {
  case Part::Forward:
    return chunk;
  case Part::Backward:
  case Part::BackwardInput:
    return 2 * chunks - 1 - chunk;
  case Part::BackwardWeight:
    return 3 * chunks - 1 - chunk;
  }
  llvm_unreachable("covered switch");
}

std::string SegmentPlan::getName(int64_t segment) const {
  if (!isPipeline())
    return !cut.ahead ? "" : segment == 0 ? "forward" : "backward";
  int64_t chunks = cut.stages.size(), chunk = segment % chunks;
  std::string name = segment < chunks       ? "forward"
                     : segment < 2 * chunks ? "backward"
                                            : "weights";
  if (chunks > 1)
    name += " of chunk " +
            std::to_string(segment < chunks ? chunk : chunks - 1 - chunk);
  return name;
}

static graph::YieldOp getYield(graph::MicrobatchesOp op) {
  return cast<graph::YieldOp>(op.getBody().front().getTerminator());
}

static bool isBackward(Operation *op) {
  return graph::getMarkedPhase(op).value_or(graph::Phase::Forward) !=
         graph::Phase::Forward;
}

/// Finds the ops whose results lead to a single sum. The first stage sends
/// nothing back, yet its activation gradients lead to the gradients of several
/// weights.
void SegmentPlan::findWeightGradients() {
  constexpr int64_t nothing = -2, several = -1;
  DenseMap<Operation *, int64_t> leads;
  auto add = [](int64_t &to, int64_t more) {
    to = to == nothing || to == more ? more : more == nothing ? to : several;
  };
  Block &body = op.getBody().front();
  graph::YieldOp yield = getYield(op);
  for (Operation &inner : llvm::reverse(body.without_terminator())) {
    int64_t to = inner.getNumResults() ? nothing : several;
    for (OpOperand &use : inner.getUses()) {
      if (use.getOwner() != yield)
        add(to, leads.at(use.getOwner()));
      else
        add(to, use.getOperandNumber() < op.getNumSums()
                    ? static_cast<int64_t>(use.getOperandNumber())
                    : several);
    }
    leads[&inner] = to;
    if (to >= 0 && isBackward(&inner))
      weightGradients.insert(&inner);
  }
}

/// Returns nullopt for an op that each stage computes if it needs it.
std::optional<int64_t> SegmentPlan::getOwnSegment(Operation *inner) const {
  if (!isPipeline())
    return cut.ahead && isBackward(inner) ? 1 : 0;
  std::optional<int64_t> stage = graph::getStage(inner);
  if (!stage)
    return std::nullopt;
  int64_t chunk = llvm::find(cut.stages, *stage) - cut.stages.begin();
  return getSegment(weightGradients.contains(inner) ? Part::BackwardWeight
                    : isBackward(inner)             ? Part::Backward
                                                    : Part::Forward,
                    chunk);
}

/// An op's segment is at least the segments of its operands.
void SegmentPlan::assignOps() {
  Block &body = op.getBody().front();
  for (Operation &inner : body.without_terminator()) {
    int64_t segment = getOwnSegment(&inner).value_or(0);
    for (Value operand : inner.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        segment = std::max(segment, segments.lookup(producer));
    segments[&inner] = segment;
  }
  // An op without a stage is computed where it is first needed.
  for (Operation &inner : llvm::reverse(body.without_terminator())) {
    if (getOwnSegment(&inner) || inner.use_empty())
      continue;
    int64_t first = getNumSegments();
    for (Operation *user : inner.getUsers())
      first = std::min(first, user == body.getTerminator() ? segments[&inner]
                                                           : segments[user]);
    segments[&inner] = first;
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
    if ((cut.ahead > 1 || isPipeline()) && reader != giver)
      return op.emitOpError("hands on value ")
             << i << ", which '" << getName(reader) << "' reads and '"
             << getName(giver)
             << "' computes: no other microbatch can go forward in between";
  }
  return success();
}

/// Returns true if a segment computes nothing and yields no sum.
bool SegmentPlan::isEmpty(int64_t segment) const {
  for (unsigned i = 0; i < op.getNumSums(); ++i)
    if (getSumSegment(i) == segment)
      return false;
  return llvm::none_of(segments,
                       [&](auto entry) { return entry.second == segment; });
}

/// Takes the runs from the schedule of a pipeline. Otherwise, with two
/// segments, forwards and backwards alternate once `ahead` microbatches have
/// begun.
void SegmentPlan::orderRuns() {
  if (isPipeline()) {
    SmallVector<bool> empty;
    for (int64_t i = 0; i < getNumSegments(); ++i)
      empty.push_back(isEmpty(i));
    for (stage_order::Entry entry : cut.entries)
      if (int64_t segment = getSegment(entry.part, entry.chunk);
          !empty[segment])
        runs.push_back({segment, entry.microbatch});
    return;
  }
  int64_t count = op.getCount(), last = getNumSegments() - 1;
  int64_t numAhead = std::min(std::max<int64_t>(cut.ahead, 1), count);
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
  return producer &&
         ((producer->getNumOperands() == 0 && isPure(producer)) ||
          isa<graph::ReshapeOp, graph::BroadcastOp, graph::SeedOp>(producer));
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

/// By microbatch: the run that computes the value and the last run that reads
/// it.
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
  // The maximum of live values occurs where some value begins.
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
