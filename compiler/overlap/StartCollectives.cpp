// start-collectives: starts collectives early, and waits for them late.

#include "compiler/overlap/Commands.h"
#include "compiler/overlap/Passes.h"
#include "compiler/overlap/Queues.h"
#include "compiler/overlap/Remarks.h"
#include "compiler/overlap/Timeline.h"
#include "dialects/rank/Programs.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::overlap;

namespace polyrank::overlap {
#define GEN_PASS_DEF_STARTCOLLECTIVES
#include "compiler/overlap/Passes.h.inc"
} // namespace polyrank::overlap

/// The most collectives of one queue in flight at a time; every communicator
/// supports this.
static constexpr size_t mostInFlight = 8;

/// Gathers start earlier than they must by 1/slackPart of their duration.
static constexpr int64_t slackPart = 5;

namespace {

/// A collective in a range of commands. A place is the number of a command, and
/// means the point just before it.
struct Flight {
  rank::CollectiveOp op;
  uint32_t queue = 0;   // Queues::get
  int64_t place = 0;    // its original place
  int64_t earliest = 0; // the first place with all operands available
  int64_t need = 0;     // its first use
  int64_t start = 0;
  /// True if its operands need memory of their own until it ends.
  bool holdsOperands = false;
  /// True if its results need more memory than its operands.
  bool grows = false;
};

/// The commands of a block before or after its loop: a collective that is
/// started in such a range also ends in it.
class RangeScheduler {
public:
  /// The commands [begin, end) of one block.
  RangeScheduler(Block::iterator begin, Block::iterator end, int64_t prefetch,
                 const Durations &durations)
      : end(end), prefetch(prefetch), durations(durations) {
    for (Operation &op : llvm::make_range(begin, end)) {
      places[&op] = ops.size();
      ops.push_back(&op);
    }
  }

  void run();

private:
  void findFlights();
  void startEarly();
  void startLate();
  int64_t getNeed(Operation *op) const;
  int64_t getDeadline(Operation *op) const;
  bool mayBePutOff(Operation *op) const;
  void place();
  Operation *begin(Flight &flight);
  Operation *awaitResults(Operation *started);
  void joinIfAdjacent(rank::WaitOp wait);

  Block::iterator end;
  int64_t prefetch;
  const Durations &durations;
  Queues queues;
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int64_t> places;
  /// The time when the command of each place begins, without communication.
  std::vector<int64_t> times;
  std::vector<Flight> flights;
  /// Commands that are placed after the collectives that they wait for instead
  /// of at their original place.
  llvm::DenseSet<Operation *> putOff;
};

} // namespace

/// The place before which the results are needed: the first use.
int64_t RangeScheduler::getNeed(Operation *op) const {
  int64_t need = ops.size();
  for (Value result : op->getResults())
    for (Operation *user : result.getUsers())
      if (auto found = places.find(user); found != places.end())
        need = std::min(need, putOff.contains(user) ? getDeadline(user)
                                                    : found->second);
  return need;
}

/// The first place of the users of the command's results. A collective may be
/// started right after it.
int64_t RangeScheduler::getDeadline(Operation *op) const {
  int64_t deadline = ops.size();
  for (Operation *user : op->getUsers())
    if (auto found = places.find(user); found != places.end())
      deadline =
          std::min(deadline, isa<rank::CollectiveOp>(user) ? places.at(op)
                                                           : found->second);
  return deadline;
}

bool RangeScheduler::mayBePutOff(Operation *op) const {
  return addsReduced(
             op, [&](Operation *other) { return places.contains(other); }) &&
         getDeadline(op) > places.at(op);
}

void RangeScheduler::findFlights() {
  int64_t time = 0, numOps = ops.size();
  for (Operation *op : ops) {
    times.push_back(time);
    if (!isa<rank::CollectiveOp>(op))
      time += durations.get(op);
  }
  times.push_back(time);
  for (Operation *op : ops)
    if (mayBePutOff(op))
      putOff.insert(op);
  for (Operation *op : ops) {
    auto collective = dyn_cast<rank::CollectiveOp>(op);
    // If members run other programs, the order is common to all of them.
    if (!collective || rank::spansPrograms(collective))
      continue;
    Flight flight{collective, queues.get(op), places.at(op)};
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      flight.holdsOperands |=
          collective.getInPlace(i) != runtime::InPlace::Same;
      // The result of another collective is available at the place of this one.
      Operation *producer = operand.getDefiningOp();
      if (auto found = places.find(producer); found != places.end())
        flight.earliest =
            std::max(flight.earliest, isa<rank::CollectiveOp>(producer)
                                          ? flight.place
                                          : found->second + 1);
    }
    flight.need = getNeed(collective);
    // A result that is not read before the end usually replaces an argument.
    flight.grows = grows(collective) && flight.need < numOps;
    flight.start = flight.place;
    flights.push_back(flight);
  }
}

void RangeScheduler::startEarly() {
  for (Flight &flight : flights)
    if (!flight.grows)
      flight.start = flight.earliest;
}

/// Goes from the last collective to the first and starts each one of a queue
/// before the next one.
void RangeScheduler::startLate() {
  llvm::MapVector<uint32_t, std::vector<Flight *>> byQueue;
  for (Flight &flight : flights)
    if (flight.grows && prefetch > 0)
      byQueue[flight.queue].push_back(&flight);
  for (auto &[queue, gathers] : byQueue) {
    llvm::stable_sort(gathers, [](const Flight *a, const Flight *b) {
      return a->need < b->need;
    });
    int64_t busyFrom = times.back();
    for (int64_t i = gathers.size() - 1; i >= 0; --i) {
      Flight &flight = *gathers[i];
      int64_t duration = durations.get(flight.op);
      // The times come from a model: a collective that is planned to end just
      // in time would end late.
      int64_t begins = std::min(busyFrom, times[flight.need]) - duration -
                       duration / slackPart;
      int64_t least = flight.earliest;
      if (i >= prefetch)
        least = std::max(least, gathers[i - prefetch]->need);
      auto behind = std::upper_bound(times.begin(), times.end(), begins);
      int64_t latest = behind == times.begin() ? 0 : behind - times.begin() - 1;
      flight.start =
          std::clamp(latest, std::min(least, flight.need), flight.need);
      busyFrom = std::min(begins, times[flight.start]);
    }
  }
}

/// Replaces the collective by one with results in flight.
Operation *RangeScheduler::begin(Flight &flight) {
  Operation *op = flight.op;
  OperationState state(op->getLoc(), op->getName(), op->getOperands(), {},
                       op->getAttrs());
  for (Type type : op->getResultTypes())
    state.addTypes(
        rank::PendingType::get(op->getContext(), cast<RankedTensorType>(type)));
  OpBuilder builder(op);
  return builder.create(state);
}

/// Creates the wait right after the start; `place` moves it later.
Operation *RangeScheduler::awaitResults(Operation *started) {
  OpBuilder builder(started->getBlock(), std::next(started->getIterator()));
  SmallVector<Type> types;
  for (Type type : started->getResultTypes())
    types.push_back(rank::getTensorType(type));
  auto wait = rank::WaitOp::create(builder, started->getLoc(), types,
                                   started->getResults(),
                                   started->getOperands(), /*buffers=*/nullptr);
  wait->setDiscardableAttrs(started->getDiscardableAttrDictionary());
  return wait;
}

/// Follows the timeline, and appends each command, start and wait to the new
/// order.
void RangeScheduler::place() {
  struct InFlight {
    Flight *flight;
    Operation *wait;
    runtime::QueueClock::Interval time;
  };
  std::vector<InFlight> inFlight;
  std::vector<std::vector<Flight *>> starts(ops.size() + 1);
  llvm::DenseSet<Operation *> replaced;
  // Among collectives that start at one place, the one that is needed first
  // comes first.
  for (Flight &flight : flights)
    if (times[flight.need] > times[flight.start]) {
      starts[flight.start].push_back(&flight);
      replaced.insert(flight.op);
    }
  for (std::vector<Flight *> &together : starts)
    llvm::stable_sort(together, [](const Flight *a, const Flight *b) {
      return a->need < b->need;
    });

  std::vector<Operation *> order;
  runtime::QueueClock clock;
  auto compute = [&](Operation *op) {
    order.push_back(op);
    clock.compute(durations.get(op));
  };
  // The number of collectives that each deferred command waits for.
  llvm::MapVector<Operation *, int64_t> waiting;
  auto awaitThose = [&](llvm::function_ref<bool(const InFlight &)> is) {
    llvm::erase_if(inFlight, [&](const InFlight &one) {
      if (!is(one))
        return false;
      clock.wait(one.time);
      order.push_back(one.wait);
      llvm::SmallSetVector<Operation *, 4> users;
      for (Value result : one.wait->getResults())
        users.insert(result.user_begin(), result.user_end());
      for (Operation *user : users)
        if (auto found = waiting.find(user);
            found != waiting.end() && --found->second == 0)
          compute(user);
      return true;
    });
  };
  // The number of its operands that are still in flight.
  auto countMissing = [&](Operation *op) {
    return llvm::count_if(inFlight, [&](const InFlight &one) {
      return llvm::is_contained(one.wait->getUsers(), op);
    });
  };
  for (int64_t i = 0, e = ops.size(); i <= e; ++i) {
    awaitThose([&](const InFlight &one) {
      return one.flight->need == i ||
             (one.flight->holdsOperands && !one.flight->grows &&
              one.time.end <= clock.now());
    });
    for (Flight *flight : starts[i]) {
      auto isOfQueue = [&](const InFlight &one) {
        return one.flight->queue == flight->queue;
      };
      if (llvm::count_if(inFlight, isOfQueue) >= ptrdiff_t(mostInFlight)) {
        Flight *oldest = llvm::find_if(inFlight, isOfQueue)->flight;
        awaitThose([&](const InFlight &one) { return one.flight == oldest; });
      }
      auto time = clock.start(flight->queue, durations.get(flight->op));
      Operation *started = begin(*flight);
      Operation *wait = awaitResults(started);
      flight->op->replaceAllUsesWith(wait->getResults());
      order.push_back(started);
      inFlight.push_back({flight, wait, time});
    }
    if (i == e)
      break;
    if (replaced.contains(ops[i]))
      continue;
    if (int64_t missing = putOff.contains(ops[i]) ? countMissing(ops[i]) : 0) {
      waiting[ops[i]] = missing;
      continue;
    }
    auto collective = dyn_cast<rank::CollectiveOp>(ops[i]);
    if (!collective) {
      compute(ops[i]);
      continue;
    }
    order.push_back(collective);
    clock.wait(clock.start(queues.get(collective), durations.get(collective)));
  }
  Block *block = ops.front()->getBlock();
  for (Operation *op : order)
    op->moveBefore(block, end);
  for (Operation *op : replaced)
    op->erase();
  for (Operation *op : order)
    if (auto wait = dyn_cast<rank::WaitOp>(op))
      joinIfAdjacent(wait);
}

/// A collective is not started if no command runs between start and wait.
void RangeScheduler::joinIfAdjacent(rank::WaitOp wait) {
  Operation *started = wait.getCollective();
  for (Operation *op = started->getNextNode(); op != wait;
       op = op->getNextNode())
    if (durations.get(op) > 0)
      return;
  OpBuilder builder(wait);
  Operation *joined = builder.create(OperationState(
      started->getLoc(), started->getName(), started->getOperands(),
      wait->getResultTypes(), started->getAttrs()));
  wait->replaceAllUsesWith(joined);
  wait->erase();
  started->erase();
}

void RangeScheduler::run() {
  findFlights();
  if (flights.empty())
    return;
  startEarly();
  startLate();
  place();
}

namespace {
struct StartCollectivesPass
    : overlap::impl::StartCollectivesBase<StartCollectivesPass> {
  using StartCollectivesBase::StartCollectivesBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(startIn(function)))
        return signalPassFailure();
    remarks.emit();
  }

private:
  LogicalResult startIn(func::FuncOp function);
  void startIn(Block &block, const Durations &durations);

  Remarks remarks;
};
} // namespace

void StartCollectivesPass::startIn(Block &block, const Durations &durations) {
  forEachRange(
      block,
      [&](Block::iterator begin, Block::iterator end) {
        RangeScheduler(begin, end, prefetch, durations).run();
      },
      [&](Block &part, int64_t) { startIn(part, durations); });
}

LogicalResult StartCollectivesPass::startIn(func::FuncOp function) {
  auto durations = Durations::of(function);
  if (failed(durations))
    return failure();
  int64_t synchronous = simulate(function, *durations).makespan;
  startIn(function.getBody().front(), *durations);
  if (!report)
    return success();
  StepTime step = simulate(function, *durations);
  if (step.collectives == 0)
    return success();
  auto milliseconds = [](int64_t picoseconds) {
    return llvm::formatv("{0:F2}", picoseconds * 1e-9).str();
  };
  int64_t bound = step.getLowerBound();
  // How long a rank of a pipeline waits depends on all programs together, so
  // this is no time of a step.
  bool isWhole = !function->hasAttr(rank::placeAttrName);
  std::string text;
  llvm::raw_string_ostream(text)
      << (isWhole ? " takes " : " take ") << milliseconds(step.makespan)
      << " ms by the model"
      << (isWhole ? "" : " without waiting for other programs") << ", at least "
      << milliseconds(bound) << ", gap "
      << llvm::formatv("{0:F1}",
                       bound ? 100.0 * (step.makespan - bound) / bound : 0)
      << " %, and " << milliseconds(synchronous)
      << " with nothing overlapped: " << step.started << " of "
      << step.collectives << " collectives are started early, which hides "
      << milliseconds(synchronous - step.makespan) << " of "
      << milliseconds(step.getCommunication()) << " ms of communication";
  remarks.add(function, isWhole ? "a step" : "the commands of a step", text);
  return success();
}
