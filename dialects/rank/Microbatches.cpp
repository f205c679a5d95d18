// Segments of a step and the order in which they run.

#include "dialects/rank/Rank.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

YieldOp SegmentOp::getYield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

SmallVector<MicrobatchesOp::Run> MicrobatchesOp::getRuns() {
  SmallVector<Run> runs;
  ArrayRef<int64_t> numbers = getSchedule();
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    runs.push_back({numbers[i], numbers[i + 1]});
  return runs;
}

namespace {
/// Runs [begin, begin + period + length). Each run from begin + period on
/// equals the run `period` places earlier, for a microbatch that is `shift`
/// higher.
struct Repetition {
  int64_t begin = 0, period = 1, length = 0, shift = 0;
};
} // namespace

static Repetition findLongestRepetition(ArrayRef<MicrobatchesOp::Run> runs) {
  constexpr int64_t longestPeriod = 32;
  Repetition longest;
  int64_t count = runs.size();
  for (int64_t period = 1; period <= std::min(longestPeriod, count / 2);
       ++period) {
    Repetition current;
    for (int64_t i = period; i < count; ++i) {
      int64_t shift = runs[i].microbatch - runs[i - period].microbatch;
      if (runs[i].segment != runs[i - period].segment || shift < 1)
        continue;
      bool continues = current.length > 0 && current.shift == shift &&
                       current.begin + period + current.length == i;
      if (!continues)
        current = {i - period, period, 0, shift};
      if (++current.length > longest.length)
        longest = current;
    }
  }
  return longest;
}

SmallVector<MicrobatchesOp::Run> MicrobatchesOp::getRunsToCheck() {
  SmallVector<Run> runs = getRuns();
  int64_t cycle = 1; // microbatches after which all slots repeat
  for (int64_t stash : getStashes())
    cycle = std::lcm(cycle, getSlots(stash));
  Repetition repeated = findLongestRepetition(runs);
  if (repeated.length == 0)
    return runs;
  int64_t turns = cycle / std::gcd(cycle, repeated.shift);
  int64_t all = repeated.length / repeated.period + 1, kept = turns + 2;
  if (all < kept + turns)
    return runs;
  int64_t dropped = (all - kept) / turns * turns;
  auto from = runs.begin() + repeated.begin + repeated.period * kept,
       behind = from + dropped * repeated.period;
  // The stretch is shortened only if the runs after it continue it and return
  // to none of the dropped microbatches. They would return if all backwards
  // came after all forwards.
  for (auto run = behind; run != runs.end(); ++run) {
    auto isOfSegment = [&](const Run &other) {
      return other.segment == run->segment;
    };
    if (llvm::none_of(llvm::make_range(from, behind), isOfSegment) ||
        llvm::any_of(llvm::make_range(from, behind), [&](const Run &other) {
          return isOfSegment(other) && other.microbatch >= run->microbatch;
        }))
      return runs;
  }
  auto rest = runs.erase(from, behind);
  for (Run &run : llvm::make_range(rest, runs.end()))
    run.microbatch -= dropped * repeated.shift;
  return runs;
}

SmallVector<SegmentOp, 4> MicrobatchesOp::getSegments() {
  return llvm::to_vector<4>(getBody().front().getOps<SegmentOp>());
}

SmallVector<Block *> MicrobatchesOp::getBlocks() {
  SmallVector<Block *> blocks;
  for (SegmentOp segment : getSegments())
    blocks.push_back(&segment.getBody().front());
  return blocks;
}

SmallVector<int64_t> MicrobatchesOp::countRuns() {
  SmallVector<int64_t> counts(getSegments().size());
  for (Run run : getRuns())
    ++counts[run.segment];
  return counts;
}

int64_t MicrobatchesOp::getCount() {
  int64_t count = 0;
  for (Run run : getRuns())
    count = std::max(count, run.microbatch + 1);
  return count;
}

int64_t MicrobatchesOp::getSlots(unsigned result) {
  bool isStash = llvm::is_contained(getStashes(), result);
  return isStash
             ? cast<RankedTensorType>(getResult(result).getType()).getDimSize(0)
             : 0;
}

Value MicrobatchesOp::getInitial(unsigned result) {
  unsigned first = getNumResults() - getCarry().size();
  return result < first ? Value() : getCarry()[result - first];
}

MicrobatchesOp::Source MicrobatchesOp::getSource(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  if (number < getOf().size())
    return {getOf()[number], /*isSlice=*/true};
  auto segment = cast<SegmentOp>(argument.getOwner()->getParentOp());
  unsigned result = segment.getTakes()[number - getOf().size()];
  if (int64_t slots = getSlots(result))
    return {getResult(result), /*isSlice=*/true, slots};
  Value initial = getInitial(result);
  if (!initial)
    return {getResult(result)};
  // All runs of a segment find the initial value, or all find the result.
  SmallVector<SegmentOp, 4> segments = getSegments();
  for (Run run : getRuns()) {
    if (segments[run.segment] == segment)
      return {initial};
    if (llvm::is_contained(segments[run.segment].getGives(), result))
      break;
  }
  return {getResult(result)};
}

bool rank::isSum(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto segment = dyn_cast<SegmentOp>(argument.getOwner()->getParentOp());
    if (!segment)
      return false;
    auto source =
        cast<MicrobatchesOp>(segment->getParentOp()).getSource(argument);
    if (source.isSlice)
      return false;
    value = source.value;
  }
  auto loop = value.getDefiningOp<MicrobatchesOp>();
  if (!loop)
    return false;
  unsigned result = cast<OpResult>(value).getResultNumber();
  return !loop.getSlots(result) && !loop.getInitial(result);
}

namespace {
/// Tracks the values that runs leave for later runs.
class ScheduleVerifier {
public:
  explicit ScheduleVerifier(MicrobatchesOp op)
      : op(op), segments(op.getSegments()), last(op.getNumResults(), -1),
        slots(op.getNumResults()) {}

  LogicalResult run();

private:
  using Run = MicrobatchesOp::Run;
  LogicalResult take(Run run, unsigned result);
  LogicalResult give(Run run, unsigned result);
  InFlightDiagnostic emitError(const char *rule, Run run) {
    return op.emitOpError(rule)
           << " segment '" << segments[run.segment].getName()
           << "' of microbatch " << run.microbatch << " ";
  }

  MicrobatchesOp op;
  SmallVector<SegmentOp, 4> segments;
  // By result: the last microbatch that gave it, or -1.
  SmallVector<int64_t> last;
  /// By slot of a stash: the microbatch whose value it holds.
  SmallVector<DenseMap<int64_t, int64_t>> slots;
  /// True if a segment finds the initial value of a carried result.
  DenseMap<std::pair<int64_t, unsigned>, bool> findsInitial;
};
} // namespace

LogicalResult ScheduleVerifier::take(Run run, unsigned result) {
  if (int64_t count = op.getSlots(result)) {
    auto slot = slots[result].find(run.microbatch % count);
    if (slot == slots[result].end())
      return emitError("[4]", run)
             << "takes result " << result << ", which nobody has given yet";
    if (slot->second != run.microbatch)
      return emitError("[4]", run)
             << "takes result " << result << " from slot "
             << run.microbatch % count << ", where that of microbatch "
             << slot->second << " is";
    return success();
  }
  bool isInitial = last[result] < 0;
  if (isInitial && !op.getInitial(result))
    return emitError("[4]", run)
           << "takes result " << result << ", which nobody has given yet";
  auto [entry, isNew] =
      findsInitial.try_emplace({run.segment, result}, isInitial);
  if (entry->second != isInitial)
    return emitError("[4]", run)
           << "takes result " << result
           << " from another place than in an earlier microbatch; its first "
              "run must be a segment of its own";
  return success();
}

LogicalResult ScheduleVerifier::give(Run run, unsigned result) {
  if (int64_t count = op.getSlots(result)) {
    slots[result][run.microbatch % count] = run.microbatch;
  } else if (last[result] >= run.microbatch) {
    return emitError("[5]", run)
           << "gives result " << result << " after microbatch " << last[result];
  }
  last[result] = run.microbatch;
  return success();
}

LogicalResult ScheduleVerifier::run() {
  llvm::SmallSetVector<std::pair<int64_t, int64_t>, 16> seen;
  for (Run run : op.getRuns()) {
    if (run.segment < 0 || run.segment >= static_cast<int64_t>(segments.size()))
      return op.emitOpError("[2] runs segment ")
             << run.segment << " of " << segments.size();
    if (!seen.insert({run.segment, run.microbatch}))
      return emitError("[2]", run) << "runs twice";
    if (run.microbatch < 0)
      return emitError("[2]", run) << "is before the first";
    for (Type type : op.getOf().getTypes())
      if (run.microbatch >= cast<RankedTensorType>(type).getDimSize(0))
        return emitError("[2]", run) << "is none that " << type << " has";
    SegmentOp segment = segments[run.segment];
    for (int64_t result : segment.getTakes())
      if (failed(take(run, result)))
        return failure();
    for (int64_t result : segment.getGives())
      if (failed(give(run, result)))
        return failure();
  }
  for (auto [i, segment] : llvm::enumerate(segments))
    if (llvm::none_of(seen, [&, i = i](auto run) {
          return run.first == static_cast<int64_t>(i);
        }))
      return op.emitOpError("[1] never runs segment '")
             << segment.getName() << "'";
  for (auto [result, microbatch] : llvm::enumerate(last))
    if (microbatch < 0)
      return op.emitOpError("[5] no segment gives result ") << result;
  return success();
}

static LogicalResult verifyStashes(MicrobatchesOp op) {
  int64_t numOthers = op.getNumResults() - op.getCarry().size(), previous = -1;
  for (int64_t stash : op.getStashes()) {
    if (stash <= previous || stash >= numOthers)
      return op.emitOpError("[3] has stash ")
             << stash << "; stashes ascend, among the first " << numOthers
             << " results";
    previous = stash;
    auto type = cast<RankedTensorType>(op.getResult(stash).getType());
    if (type.getRank() == 0 || type.getDimSize(0) < 1)
      return op.emitOpError("[3] stash ")
             << stash << " is " << type << ", which has no slots along dim 0";
  }
  return success();
}

/// The type in which a segment takes or gives a result.
static Type getPartType(MicrobatchesOp op, unsigned result) {
  auto type = cast<RankedTensorType>(op.getResult(result).getType());
  return op.getSlots(result)
             ? RankedTensorType::get(type.getShape().drop_front(),
                                     type.getElementType())
             : type;
}

static LogicalResult verifySegment(MicrobatchesOp op, SegmentOp segment) {
  SmallVector<Type> arguments, yielded;
  for (Type operand : op.getOf().getTypes()) {
    auto type = cast<RankedTensorType>(operand);
    if (type.getRank() == 0)
      return op.emitOpError("[2] ") << type << " has no dim of microbatches";
    arguments.push_back(RankedTensorType::get(type.getShape().drop_front(),
                                              type.getElementType()));
  }
  for (auto [numbers, types] : {std::pair(segment.getTakes(), &arguments),
                                std::pair(segment.getGives(), &yielded)})
    for (int64_t number : numbers) {
      if (number < 0 || number >= op.getNumResults())
        return segment.emitOpError("[1] names result ")
               << number << " of " << op.getNumResults();
      types->push_back(getPartType(op, number));
    }
  Block &block = segment.getBody().front();
  if (TypeRange(block.getArgumentTypes()) != TypeRange(arguments))
    return segment.emitOpError("[2] block arguments must be ") << arguments;
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield || TypeRange(yield.getOperandTypes()) != TypeRange(yielded))
    return segment.emitOpError("[3] must yield ") << yielded;
  return success();
}

LogicalResult MicrobatchesOp::verify() {
  for (Operation &op : getBody().front())
    if (!isa<SegmentOp>(op))
      return emitOpError("[1] holds ")
             << op.getName() << " outside of segments";
  if (getSchedule().size() % 2)
    return emitOpError("[2] has half a run");
  if (getCarry().size() > getNumResults())
    return emitOpError("[3] carries more values than it has results");
  for (auto [operand, result] :
       llvm::zip_equal(getCarry(), getResults().take_back(getCarry().size())))
    if (operand.getType() != result.getType())
      return emitOpError("[3] carries ")
             << operand.getType() << " on as " << result.getType();
  if (failed(verifyStashes(*this)))
    return failure();
  for (SegmentOp segment : getSegments())
    if (failed(verifySegment(*this, segment)))
      return failure();
  return ScheduleVerifier(*this).run();
}
