// An order of the commands of a range, with moves that keep it valid and do not
// increase its memory.

#include "compiler/overlap/CommandOrder.h"

#include "compiler/overlap/Commands.h"
#include "compiler/overlap/Queues.h"
#include "dialects/rank/Aliasing.h"
#include "dialects/rank/Programs.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::overlap;

CommandOrder::CommandOrder(Block::iterator begin, Block::iterator end,
                           const Durations &durations) {
  Queues assigned;
  for (Operation &op : llvm::make_range(begin, end)) {
    numbers[&op] = ops.size();
    queues.push_back(assigned.get(&op));
    order.push_back(ops.size());
    ops.push_back(&op);
    bool isCollective = isa<rank::CollectiveOp>(op);
    work.push_back(isCollective ? 0 : durations.get(&op));
    communication.push_back(isCollective ? durations.get(&op) : 0);
  }
  positions = order;
  findDependences();
  findBuffers();
  live = getLive();
  limit = getPeak();
}

bool CommandOrder::isView(int command) const {
  return isa<rank::ViewOp>(ops[command]);
}

void CommandOrder::addEdge(int first, int second) {
  if (first == second || llvm::is_contained(after[first], second))
    return;
  after[first].push_back(second);
  before[second].push_back(first);
}

/// Returns true if `op` can write a result over the operand.
static bool mayOverwrite(Operation *op, OpOperand &operand,
                         const rank::Aliasing &aliasing) {
  return llvm::any_of(op->getResults(), [&](OpResult result) {
    return aliasing.get(op, operand.getOperandNumber(),
                        result.getResultNumber()) != runtime::InPlace::Never;
  });
}

void CommandOrder::findDependences() {
  before.resize(ops.size());
  after.resize(ops.size());
  // The readers of the bytes of each value, in order.
  llvm::MapVector<Value, SmallVector<int, 4>> readers;
  llvm::DenseMap<Value, OpOperand *> lastRead;
  for (auto [i, op] : llvm::enumerate(ops))
    for (OpOperand &operand : op->getOpOperands()) {
      if (auto producer = numbers.find(operand.get().getDefiningOp());
          operand.get().getDefiningOp() && producer != numbers.end())
        addEdge(producer->second, i);
      Value viewed = getViewed(operand.get());
      auto &list = readers[viewed];
      if (list.empty() || list.back() != static_cast<int>(i))
        list.push_back(i);
      lastRead[viewed] = &operand;
    }
  if (ops.empty())
    return;
  rank::Aliasing aliasing(ops.front());
  // If another reader moved after the one that overwrites a value, the value
  // would have to be copied.
  for (auto &[value, list] : readers)
    if (list.size() > 1 &&
        mayOverwrite(ops[list.back()], *lastRead.at(value), aliasing))
      for (int reader : ArrayRef(list).drop_back())
        addEdge(reader, list.back());
  Block &block = *ops.front()->getBlock();
  for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
    Operation *producer = getViewed(operand.get()).getDefiningOp();
    auto found = numbers.find(producer);
    if (!producer || found == numbers.end())
      continue;
    if (Value replaced = getReplaced(block, operand.getOperandNumber()))
      if (auto list = readers.find(replaced); list != readers.end())
        for (int reader : list->second)
          if (reader < found->second)
            addEdge(reader, found->second);
  }
}

void CommandOrder::findBuffers() {
  buffersOf.resize(ops.size());
  made.resize(ops.size());
  for (auto [i, op] : llvm::enumerate(ops)) {
    auto command = dyn_cast<rank::CommandOp>(op);
    if (command && command.isWrittenAtLoad())
      continue;
    for (OpResult result : op->getResults()) {
      if (getViewed(result) != result)
        continue;
      Buffer buffer{rank::getByteSize(result.getType()), {int(i)}};
      SmallVector<Value> values = {result};
      while (!values.empty())
        for (Operation *user : values.pop_back_val().getUsers()) {
          auto number = numbers.find(user);
          buffer.outlives |= number == numbers.end();
          if (number == numbers.end())
            continue;
          bool isViewed = false;
          for (OpResult next : user->getResults())
            if (getViewed(next) == result) {
              values.push_back(next);
              isViewed = true;
            }
          if (!isViewed)
            buffer.users.push_back(number->second);
        }
      for (int user : buffer.users)
        if (!llvm::is_contained(buffersOf[user], int(buffers.size())))
          buffersOf[user].push_back(buffers.size());
      made[i].push_back(buffers.size());
      buffers.push_back(std::move(buffer));
    }
  }
}

/// The last position at which a command other than `but` uses the buffer.
int CommandOrder::getLastUse(const Buffer &buffer, int but) const {
  if (buffer.outlives)
    return size();
  // Treat a buffer with many users as live to the end.
  constexpr size_t many = 64;
  if (buffer.users.size() > many)
    return size();
  int last = -1;
  for (int user : buffer.users)
    if (user != but)
      last = std::max(last, positions[user]);
  return last;
}

SmallVector<int64_t> CommandOrder::getLive() const {
  SmallVector<int64_t> change(size() + 1), sums;
  for (auto [i, op] : llvm::enumerate(ops))
    for (int number : made[i]) {
      const Buffer &buffer = buffers[number];
      int last = size() - 1;
      if (!buffer.outlives) {
        last = positions[i];
        for (int user : buffer.users)
          last = std::max(last, positions[user]);
      }
      change[positions[i]] += buffer.bytes;
      change[last + 1] -= buffer.bytes;
    }
  int64_t sum = 0;
  for (int i = 0; i < size(); ++i)
    sums.push_back(sum += change[i]);
  return sums;
}

int64_t CommandOrder::getPeak() const {
  return live.empty() ? 0 : *llvm::max_element(live);
}

int CommandOrder::getStart(int collective) const {
  int start = 0;
  for (Value operand : ops[collective]->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    auto found = numbers.find(producer);
    if (!producer || found == numbers.end())
      continue;
    if (isa<rank::CollectiveOp>(producer))
      return positions[collective];
    start = std::max(start, positions[found->second] + 1);
  }
  return start;
}

int CommandOrder::getNeed(int collective) const {
  auto isInRange = [&](Operation *op) { return numbers.contains(op); };
  int need = size();
  for (Operation *user : ops[collective]->getUsers()) {
    auto found = numbers.find(user);
    if (found == numbers.end())
      continue;
    if (!addsReduced(user, isInRange)) {
      need = std::min(need, positions[found->second]);
      continue;
    }
    // A deferred launch is needed where the sum is needed.
    for (int next : after[found->second])
      need = std::min(need, positions[next]);
  }
  return need;
}

bool CommandOrder::isPrefetched(int collective) const {
  return grows(cast<rank::CollectiveOp>(ops[collective])) &&
         getNeed(collective) < size();
}

bool CommandOrder::moveBack(int command, int to) {
  int from = positions[command];
  SmallVector<int64_t> then;
  SmallVector<std::pair<int, int64_t>> prolonged; // last use, bytes
  int64_t born = 0;
  for (int number : made[command])
    born += buffers[number].bytes;
  for (int number : buffersOf[command])
    if (!llvm::is_contained(made[command], number))
      prolonged.push_back(
          {getLastUse(buffers[number], command), buffers[number].bytes});
  auto prolongedAt = [&](int position) {
    int64_t bytes = 0;
    for (auto [last, size] : prolonged)
      bytes += last < position ? size : 0;
    return bytes;
  };
  for (int position = from + 1; position <= to; ++position)
    then.push_back(live[position] - born + prolongedAt(position));
  // At its new position, buffers whose last use is the command just before are
  // free.
  int64_t ended = 0;
  for (int number : buffersOf[order[to]])
    if (getLastUse(buffers[number], command) <= to &&
        !llvm::is_contained(buffersOf[command], number))
      ended += buffers[number].bytes;
  then.push_back(live[to] - ended + prolongedAt(to));
  if (llvm::any_of(then, [&](int64_t bytes) { return bytes > limit; }))
    return false;
  std::rotate(order.begin() + from, order.begin() + from + 1,
              order.begin() + to + 1);
  llvm::copy(then, live.begin() + from);
  for (int position = from; position <= to; ++position)
    positions[order[position]] = position;
  return true;
}

bool CommandOrder::moveForward(int command, int to) {
  int from = positions[command];
  SmallVector<int64_t> then;
  SmallVector<std::pair<int, int64_t>> freed; // last other use, bytes
  int64_t born = 0;
  for (int number : made[command])
    born += buffers[number].bytes;
  for (int number : buffersOf[command])
    if (!llvm::is_contained(made[command], number))
      freed.push_back(
          {getLastUse(buffers[number], command), buffers[number].bytes});
  int64_t next = 0; // buffers of the next command are not live yet
  for (int number : made[order[to]])
    next += buffers[number].bytes;
  then.push_back(live[to] - next + born);
  for (int position = to; position < from; ++position) {
    int64_t bytes = live[position] + born;
    for (auto [last, size] : freed)
      bytes -= last < position ? size : 0;
    then.push_back(bytes);
  }
  if (llvm::any_of(then, [&](int64_t bytes) { return bytes > limit; }))
    return false;
  std::rotate(order.begin() + to, order.begin() + from,
              order.begin() + from + 1);
  llvm::copy(then, live.begin() + to);
  for (int position = to; position <= from; ++position)
    positions[order[position]] = position;
  return true;
}

int64_t CommandOrder::getMakespan() const {
  runtime::QueueClock clock;
  std::vector<runtime::QueueClock::Interval> times(size());
  // Collectives by where they start, and by where they are needed.
  std::vector<SmallVector<int, 2>> starts(size() + 1), needs(size() + 1);
  for (int command : order)
    if (isa<rank::CollectiveOp>(ops[command]) && !isPrefetched(command)) {
      // Collectives that span several programs are not moved.
      bool stays = rank::spansPrograms(cast<rank::CollectiveOp>(ops[command]));
      int position = positions[command];
      starts[stays ? position : getStart(command)].push_back(command);
      needs[stays ? position : getNeed(command)].push_back(command);
    }
  for (int position = 0; position <= size(); ++position) {
    for (int collective : starts[position])
      times[collective] =
          clock.start(queues[collective], communication[collective]);
    for (int collective : needs[position])
      clock.wait(times[collective]);
    if (position < size())
      clock.compute(work[order[position]]);
  }
  return clock.now();
}

void CommandOrder::apply(Block::iterator end) const {
  if (ops.empty())
    return;
  Block *block = ops.front()->getBlock();
  for (int command : order)
    ops[command]->moveBefore(block, end);
}
