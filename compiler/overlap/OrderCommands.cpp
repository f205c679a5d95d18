// order-commands: moves computation to where it overlaps with collectives.

#include "compiler/overlap/CommandOrder.h"
#include "compiler/overlap/Commands.h"
#include "compiler/overlap/Passes.h"
#include "compiler/overlap/Remarks.h"
#include "dialects/rank/Programs.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::overlap;

namespace polyrank::overlap {
#define GEN_PASS_DEF_ORDERCOMMANDS
#include "compiler/overlap/Passes.h.inc"
} // namespace polyrank::overlap

/// The largest distance from a collective of a command that may be moved:
/// commands from further away would hold memory for long.
static constexpr int window = 128;

namespace {

/// Fills the time in which a rank would wait for a collective with nearby
/// commands.
class Filling {
public:
  Filling(CommandOrder &order, int64_t duration, int collective)
      : order(order), duration(duration), collective(collective) {}

  void run();

private:
  bool isMovable(int command) const {
    return order.getWork(command) > 0 &&
           isa<rank::LaunchOp, rank::LibraryCallOp>(order.getOp(command));
  }
  void putOff();
  void bringForward();
  bool bringForward(int command, int &to);
  bool isThere(int command, int position) const;

  CommandOrder &order;
  int64_t duration;
  int collective;
  int64_t missing = 0; // picoseconds of waiting
};

} // namespace

void Filling::run() {
  int start = order.getStart(collective), need = order.getNeed(collective);
  missing = duration;
  for (int position = start; position < need && missing > 0; ++position)
    missing -= order.getWork(order.at(position));
  if (missing > 0)
    putOff();
  if (missing > 0)
    bringForward();
}

/// Defers commands before the collective's start whose results are used only
/// after it.
void Filling::putOff() {
  int start = order.getStart(collective);
  // The command moves to this position; all commands between shift to the front
  // by one.
  int to = start == order.getPosition(collective) ? start : start - 1;
  llvm::DenseSet<int> needed = {collective};
  int first = std::max(0, start - window);
  for (int earlier : order.getBefore(collective))
    needed.insert(earlier);
  for (int position = start - 1; position >= first && missing > 0; --position) {
    int command = order.at(position);
    // Commands before a receive fill the time until the value arrives.
    if (isa<rank::RecvOp>(order.getOp(command)))
      break;
    if (needed.contains(command)) {
      for (int earlier : order.getBefore(command))
        needed.insert(earlier);
      continue;
    }
    if (isMovable(command) &&
        llvm::all_of(order.getAfter(command),
                     [&](int user) { return order.getPosition(user) > to; }) &&
        order.moveBack(command, to)) {
      missing -= order.getWork(command);
      --to;
    }
  }
}

/// Returns true if the command's results are available at the position without
/// waiting.
bool Filling::isThere(int command, int position) const {
  if (order.getPosition(command) >= position)
    return false;
  auto op = dyn_cast<rank::CollectiveOp>(order.getOp(command));
  // An earlier user has already waited for it.
  return !op || order.getNeed(command) < position;
}

/// Moves the command together with the views that it reads.
bool Filling::bringForward(int command, int &to) {
  SmallVector<int> views;
  for (int earlier : order.getBefore(command)) {
    if (isThere(earlier, to))
      continue;
    if (!order.isView(earlier) ||
        !llvm::all_of(order.getBefore(earlier),
                      [&](int source) { return isThere(source, to); }))
      return false;
    views.push_back(earlier);
  }
  for (int view : views)
    if (!order.moveForward(view, to++))
      llvm_unreachable("a view takes no memory");
  if (!order.moveForward(command, to))
    return false;
  ++to;
  return true;
}

/// Moves commands after the collective's use that do not depend on it to before
/// that use.
void Filling::bringForward() {
  int need = order.getNeed(collective);
  int last = std::min(order.size() - 1, need + window);
  for (int position = need + 1; position <= last && missing > 0; ++position) {
    int command = order.at(position);
    // Another rank waits for the sent value.
    if (isa<rank::SendOp>(order.getOp(command)))
      break;
    // A command that takes much longer would delay what follows.
    if (!isMovable(command) || order.getWork(command) > 2 * missing)
      continue;
    if (bringForward(command, need))
      missing -= order.getWork(command);
  }
}

namespace {
struct OrderCommandsPass : overlap::impl::OrderCommandsBase<OrderCommandsPass> {
  using OrderCommandsBase::OrderCommandsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(order(function)))
        return signalPassFailure();
    remarks.emit();
  }

private:
  struct Outcome {
    int64_t before = 0, after = 0; // picoseconds
    int64_t peakBefore = 0, peakAfter = 0;
  };
  LogicalResult order(func::FuncOp function);
  void order(Block &block, const Durations &durations, int64_t executions,
             Outcome &outcome);

  Remarks remarks;
};
} // namespace

void OrderCommandsPass::order(Block &block, const Durations &durations,
                              int64_t executions, Outcome &outcome) {
  auto orderRange = [&](Block::iterator begin, Block::iterator end) {
    CommandOrder commands(begin, end, durations);
    int64_t before = commands.getMakespan(), after = before;
    for (int i = 0; i < commands.size(); ++i)
      if (auto op = dyn_cast<rank::CollectiveOp>(commands.getOp(i));
          op && !commands.isPrefetched(i) && !rank::spansPrograms(op))
        Filling(commands, durations.get(op), i).run();
    // The simulated makespan decides, since a move may cost elsewhere what it
    // gains here.
    if (int64_t then = commands.getMakespan(); then < before) {
      after = then;
      outcome.peakAfter = std::max(outcome.peakAfter, commands.getPeak());
      commands.apply(end);
    } else {
      outcome.peakAfter = std::max(outcome.peakAfter, commands.getLimit());
    }
    outcome.before += executions * before;
    outcome.after += executions * after;
    outcome.peakBefore = std::max(outcome.peakBefore, commands.getLimit());
  };
  forEachRange(block, orderRange, [&](Block &part, int64_t runs) {
    order(part, durations, executions * runs, outcome);
  });
}

LogicalResult OrderCommandsPass::order(func::FuncOp function) {
  auto durations = Durations::of(function);
  if (failed(durations))
    return failure();
  int64_t bound = simulate(function, *durations).getLowerBound();
  Outcome outcome;
  order(function.getBody().front(), *durations, 1, outcome);
  // A gain of less than a thousandth is not reported.
  if (!report || outcome.before - outcome.after < outcome.before / 1000)
    return success();
  auto milliseconds = [](int64_t picoseconds) {
    return llvm::formatv("{0:F2} ms", picoseconds * 1e-9).str();
  };
  auto mebibytes = [](int64_t bytes) {
    return llvm::formatv("{0:F2} MiB", bytes / double(1 << 20)).str();
  };
  std::string text;
  llvm::raw_string_ostream(text)
      << ", so that reductions have more to hide behind: "
      << milliseconds(outcome.after) << " instead of "
      << milliseconds(outcome.before) << ", at least " << milliseconds(bound)
      << ", gap "
      << llvm::formatv("{0:F1}",
                       bound ? 100.0 * (outcome.after - bound) / bound : 0)
      << " %; values take at most " << mebibytes(outcome.peakAfter)
      << ", before " << mebibytes(outcome.peakBefore);
  remarks.add(function, "commands in another order", text);
  return success();
}
