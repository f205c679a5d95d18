// Collects the communication of one step among ranks that run different
// functions.

#include "compiler/lowering/PipelinePrograms.h"

#include "compiler/lowering/SegmentPrograms.h"

#include <deque>
#include <map>
#include <set>

using namespace mlir;
using namespace polyrank;
using namespace polyrank::lowering;
using progress::Command;

namespace {
/// Unrolls one function after another.
class Unroller {
public:
  explicit Unroller(const rank::Programs &programs) : programs(programs) {
    all.ranks.mesh = getMesh(programs.getMesh());
    all.ranks.classAxes.assign(programs.getAxes().begin(),
                               programs.getAxes().end());
    all.ranks.programOf.assign(programs.getFunctionOf().begin(),
                               programs.getFunctionOf().end());
  }

  LogicalResult visit(func::FuncOp function);
  PipelinePrograms take() { return std::move(all); }

private:
  /// A movement as one function sees it: sent, received, or both.
  using Moved = std::pair<int64_t, char>; // id, 's', 'r' or 'c'

  LogicalResult visit(Block &block, std::optional<int64_t> microbatch);
  LogicalResult add(rank::CollectiveOp op, std::optional<int64_t> microbatch);
  LogicalResult add(rank::WaitOp op);
  LogicalResult add(const rank::Transfer &transfer, Operation *op,
                    std::optional<int64_t> microbatch);
  LogicalResult checkEnd(const rank::Transfer &transfer, Operation *op);
  FailureOr<int64_t> getMicrobatch(Operation *op, Moved moved,
                                   std::optional<int64_t> microbatch);
  void addWait(Operation *op, int32_t started);
  int32_t addCommand(Operation *op, Command command);
  Command getCommand(Operation *op, int64_t microbatch,
                     llvm::function_ref<progress::Movement()> movement,
                     llvm::function_ref<progress::Group()> group);

  const rank::Programs &programs;
  PipelinePrograms all;
  DenseMap<Operation *, Command> known; // by op, whatever its microbatch

  // State of the current function.
  func::FuncOp function;
  std::map<Moved, std::set<int64_t>> moved; // microbatches of each movement
  std::set<Moved> inSegment, inFront;
  DenseMap<Operation *, int32_t> started; // in this segment
  /// By id: the sends that may occupy slots, in order.
  std::map<int64_t, std::deque<int32_t>> sent;
};
} // namespace

int32_t Unroller::addCommand(Operation *op, Command command) {
  int32_t number = all.ranks.programs.back().size();
  all.ranks.programs.back().push_back(command);
  all.commands.back().push_back(op);
  return number;
}

void Unroller::addWait(Operation *op, int32_t startedBy) {
  Command command;
  command.action = Command::Action::Wait;
  command.started = startedBy;
  addCommand(op, command);
}

/// The command of the op. Its movement and group are stored once.
Command Unroller::getCommand(Operation *op, int64_t microbatch,
                             llvm::function_ref<progress::Movement()> movement,
                             llvm::function_ref<progress::Group()> group) {
  auto [entry, isNew] = known.try_emplace(op);
  Command &command = entry->second;
  if (isNew) {
    std::vector<progress::Group> &groups = all.ranks.groups;
    progress::Group own = group();
    auto found = llvm::find(groups, own);
    command.group = found - groups.begin();
    if (found == groups.end())
      groups.push_back(std::move(own));
    command.movement = all.ranks.movements.size();
    all.ranks.movements.push_back(movement());
  }
  command.microbatch = microbatch;
  return command;
}

/// The microbatch for which a value is moved. A transfer outside of the
/// microbatches moves the value of the first microbatch that those inside do
/// not.
FailureOr<int64_t> Unroller::getMicrobatch(Operation *op, Moved what,
                                           std::optional<int64_t> microbatch) {
  if (!inSegment.insert(what).second)
    return op->emitOpError("moves the value with id ")
           << what.first << " a second time in one segment";
  std::set<int64_t> &done = moved[what];
  if (!microbatch)
    for (microbatch = 0; done.count(*microbatch);)
      ++*microbatch;
  else if (done.count(*microbatch))
    return op->emitOpError("moves the value with id ")
           << what.first << " a second time for microbatch " << *microbatch;
  done.insert(*microbatch);
  return *microbatch;
}

LogicalResult Unroller::add(rank::CollectiveOp op,
                            std::optional<int64_t> microbatch) {
  auto number = getMicrobatch(op, {op.getId(), 'c'}, microbatch);
  if (failed(number))
    return failure();
  if (op.getAxes().getMesh() != programs.getMesh())
    return emitOtherMesh(op, op.getAxes().getMesh(), programs.getMesh());
  Command command = getCommand(
      op, *number, [&] { return getMovement(op); },
      [&] { return getGroup(op.getAxes()); });
  command.action =
      op.isStarted() ? Command::Action::Start : Command::Action::Run;
  started[op] = addCommand(op, command);
  return success();
}

LogicalResult Unroller::add(rank::WaitOp op) {
  auto found = started.find(op.getCollective());
  if (found == started.end())
    return emitWaitsElsewhere(op);
  addWait(op, found->second);
  return success();
}

/// Checks that the end of the transfer belongs to the ranks of this function.
LogicalResult Unroller::checkEnd(const rank::Transfer &transfer,
                                 Operation *op) {
  sharding::MeshAttr mesh = transfer.axes.getMesh();
  if (mesh != programs.getMesh())
    return emitOtherMesh(op, mesh, programs.getMesh());
  int64_t index = 0;
  for (sharding::AxisRef ref : transfer.axes.getAxes()) {
    auto coordinate = rank::getCoordinate(function, mesh, ref.axis);
    if (!coordinate)
      return op->emitOpError("goes along ")
             << mesh.toString(ref)
             << ", and ranks with any coordinate of it run @"
             << function.getName();
    int64_t below = mesh.getAxisSizes()[ref.axis] / (ref.pre * ref.size);
    index = index * ref.size + *coordinate / below % ref.size;
  }
  if (int64_t wanted = transfer.isSend ? transfer.from : transfer.to;
      index != wanted)
    return op->emitOpError(transfer.isSend ? "sends from" : "receives at")
           << " index " << wanted << " over "
           << mesh.toString(transfer.axes.getAxes()) << ", and the ranks of @"
           << function.getName() << " have index " << index;
  return success();
}

LogicalResult Unroller::add(const rank::Transfer &transfer, Operation *op,
                            std::optional<int64_t> microbatch) {
  auto number =
      getMicrobatch(op, {transfer.id, transfer.isSend ? 's' : 'r'}, microbatch);
  if (failed(number) || failed(checkEnd(transfer, op)))
    return failure();
  Command command = getCommand(
      op, *number, [&] { return getMovement(transfer, op); },
      [&] {
        progress::Group group = getGroup(transfer.axes);
        group.members = {transfer.from, transfer.to};
        group.channel = transfer.id + 1;
        return group;
      });
  if (!transfer.isSend) {
    addCommand(op, command);
    return success();
  }
  std::deque<int32_t> &slots = sent[transfer.id];
  while (static_cast<int64_t>(slots.size()) >= transfer.slots) {
    addWait(op, slots.front());
    slots.pop_front();
  }
  command.action = Command::Action::Start;
  slots.push_back(addCommand(op, command));
  return success();
}

LogicalResult Unroller::visit(Block &block, std::optional<int64_t> microbatch) {
  inSegment = inFront;
  started.clear();
  for (Operation &op : block) {
    if (auto loop = dyn_cast<rank::MicrobatchesOp>(op)) {
      inFront = inSegment;
      SmallVector<Block *> blocks = loop.getBlocks();
      for (auto run : loop.getRuns())
        if (failed(visit(*blocks[run.segment], run.microbatch)))
          return failure();
      inSegment = inFront;
      started.clear();
    } else if (auto collective = dyn_cast<rank::CollectiveOp>(op)) {
      if (failed(add(collective, microbatch)))
        return failure();
    } else if (auto wait = dyn_cast<rank::WaitOp>(op)) {
      if (failed(add(wait)))
        return failure();
    } else if (auto transfer = rank::getTransfer(&op)) {
      if (failed(add(*transfer, &op, microbatch)))
        return failure();
    }
  }
  return success();
}

LogicalResult Unroller::visit(func::FuncOp next) {
  function = next;
  all.ranks.programs.emplace_back();
  all.commands.emplace_back();
  moved.clear();
  inFront.clear();
  sent.clear();
  if (failed(visit(function.getBody().front(), std::nullopt)))
    return failure();
  std::vector<int32_t> left;
  for (auto &[id, slots] : sent)
    left.insert(left.end(), slots.begin(), slots.end());
  llvm::sort(left);
  for (int32_t start : left)
    addWait(all.commands.back()[start], start);
  return success();
}

FailureOr<PipelinePrograms>
polyrank::lowering::getPipelinePrograms(const rank::Programs &programs) {
  Unroller unroller(programs);
  for (func::FuncOp function : programs.getFunctions())
    if (failed(unroller.visit(function)))
      return failure();
  return unroller.take();
}
