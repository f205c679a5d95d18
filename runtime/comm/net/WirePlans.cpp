// Finds what a rank has to send and to receive in a collective over machines.
//
// What is only copied goes from the source to one member of each machine that
// needs it, which writes it to the outputs of all members there. An all-to-all
// and the borders of a halo differ from member to member and go to each.
//
// A sum is taken in the order of the group (WireSums.cpp). Members that follow
// each other in it, on one machine, are a stage.

#include "runtime/comm/Reduce.h"
#include "runtime/comm/net/NetCommunicator.h"
#include "runtime/comm/net/WirePieces.h"

#include <algorithm>
#include <utility>

namespace polyrank::runtime::net {
namespace {

uint32_t countPieces(int64_t length, int64_t size) {
  return static_cast<uint32_t>((length + size - 1) / size);
}

/// Kinds of which several members of a machine take the same bytes.
bool isShared(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather ||
         kind == CollectiveKind::Broadcast || kind == CollectiveKind::Permute;
}

/// What a member's widened block holds for the block of another member.
RowCopy borderOf(const Transfer &transfer, int64_t element, int source,
                 int owner) {
  int64_t wide = transfer.low + transfer.inner + transfer.high;
  // The owner's element 0 in the source's row.
  int64_t at = (owner - source) * transfer.inner + transfer.low;
  int64_t begin = std::clamp<int64_t>(at, 0, wide);
  int64_t end = std::clamp<int64_t>(at + transfer.inner, begin, wide);
  RowCopy copy;
  copy.source = source;
  copy.rows = begin < end ? transfer.outer : 0;
  copy.run = (end - begin) * element;
  copy.rowFrom = copy.rowTo = wide * element;
  copy.from = copy.to = begin * element;
  return copy;
}

} // namespace

bool NetCommunicator::takes(const WireTask &task, int taker, int source) const {
  if (task.collective.kind == CollectiveKind::Broadcast)
    return source == 0;
  if (task.collective.kind == CollectiveKind::Permute)
    return task.permutation[taker] == source;
  return true;
}

shm::ShmCommunicator::WorkRow
NetCommunicator::rowOf(const WireTask &task, int source, int taker) const {
  WorkRow row;
  CollectiveKind kind = task.collective.kind;
  int members = task.group->members();
  int64_t element = bytesOf(task.collective.dtype);
  row.starts.push_back(0);
  for (size_t t = 0; t < task.transfers.size(); ++t) {
    RowCopy copy;
    if (kind == CollectiveKind::HaloAdd) {
      copy = borderOf(task.transfers[t], element, source, taker);
    } else {
      int number = sourcesOf(kind, members) == 1
                       ? 0
                       : (source - taker + members) % members;
      copy = copyOf(task.collective, task.transfers[t], members, taker, number);
    }
    if (copy.bytes() == 0)
      continue;
    row.parts.push_back({copy, t});
    row.starts.push_back(row.starts.back() + copy.bytes());
  }
  row.end = row.starts.back();
  row.size = pieceBytes;
  row.pieces = countPieces(row.end, row.size);
  return row;
}

int NetCommunicator::handlerOf(const WireTask &task, int machine,
                               uint32_t unit) const {
  const std::vector<int> &members = task.members.at(machine);
  return members[unit % members.size()];
}

std::vector<std::pair<int, shm::ShmCommunicator::WorkRow>>
NetCommunicator::copiesFrom(const WireTask &task) const {
  std::vector<std::pair<int, WorkRow>> copies;
  int me = task.group->me;
  for (const auto &[machine, members] : task.members) {
    if (machine == machines.machine)
      continue;
    std::vector<int> takers;
    for (int member : members)
      if (takes(task, member, me))
        takers.push_back(member);
    if (isShared(task.collective.kind) && !takers.empty())
      takers = {takers[me % takers.size()]};
    for (int taker : takers)
      if (WorkRow row = rowOf(task, me, taker); row.pieces > 0)
        copies.emplace_back(taker, std::move(row));
  }
  return copies;
}

void NetCommunicator::plan(WireTask &task) const {
  for (int m = 0; m < task.group->members(); ++m)
    task.members[machineOf(task, m)].push_back(m);
  if (task.collective.kind == CollectiveKind::HaloAdd)
    planBorders(task);
  else if (ruleOf(task.collective.kind).reduces)
    planSums(task);
  else
    planCopies(task);
}

void NetCommunicator::planCopies(WireTask &task) const {
  for (const auto &[taker, row] : copiesFrom(task))
    task.left += row.pieces;
  int me = task.group->me;
  for (int source = 0; source < task.group->members(); ++source) {
    if (isNear(task.group->ranks[source]))
      continue;
    Incoming incoming;
    incoming.member = source;
    for (int member : task.group->near)
      if (takes(task, member, source))
        incoming.takers.push_back(member);
    if (!isShared(task.collective.kind))
      incoming.takers = {me};
    if (incoming.takers.empty() ||
        incoming.takers[source % incoming.takers.size()] != me)
      continue;
    incoming.row = rowOf(task, source, me);
    incoming.pieces = incoming.row.pieces;
    task.left += incoming.pieces;
    if (incoming.pieces > 0)
      task.incoming.push_back(std::move(incoming));
  }
}

void NetCommunicator::planBorders(WireTask &task) const {
  for (const auto &[owner, row] : copiesFrom(task))
    task.left += row.pieces;
  int me = task.group->me;
  task.left += 1; // the sum
  int64_t element = bytesOf(task.collective.dtype);
  for (int source = 0; source < task.group->members(); ++source) {
    if (isNear(task.group->ranks[source]))
      continue;
    Incoming incoming;
    incoming.member = source;
    incoming.row = rowOf(task, source, me);
    incoming.pieces = incoming.row.pieces;
    // Memory like that of the source, of which only the borders are used.
    auto &[bytes, offsets] = task.borders[source];
    uint64_t size = 0;
    for (const Transfer &transfer : task.transfers) {
      offsets.push_back({size, 0});
      size += transfer.outer * (transfer.low + transfer.inner + transfer.high) *
              element;
    }
    if (incoming.pieces == 0)
      continue;
    bytes.resize(size);
    task.left += incoming.pieces;
    task.bordersLeft += incoming.pieces;
    task.incoming.push_back(std::move(incoming));
  }
}

void NetCommunicator::planSums(WireTask &task) const {
  const Collective &collective = task.collective;
  int members = task.group->members();
  bool toAll = collective.kind == CollectiveKind::AllReduce;
  for (int m = 0; m < members; ++m) {
    int machine = machineOf(task, m);
    if (task.stages.empty() || task.stages.back().machine != machine)
      task.stages.push_back({machine, {}});
    task.stages.back().members.push_back(m);
  }
  task.starts.push_back(0);
  for (const Transfer &transfer : task.transfers)
    task.starts.push_back(
        task.starts.back() +
        elementsOf(collective.kind, transfer, members).output);
  int64_t total = task.starts.back();
  // Two ways for halves of the elements let both machines add.
  bool canTurn = task.stages.size() == 2 && task.stages[1].members.size() == 1;
  size_t units = members, handlers = 1;
  if (toAll) {
    for (const auto &[machine, there] : task.members)
      handlers = std::max(handlers, there.size());
    units = canTurn ? 2 * handlers : handlers;
  }
  int64_t lines = (total + 15) / 16;
  auto bound = [&](uint32_t part) {
    return std::min<int64_t>(total, lines * part / int64_t(units) * 16);
  };
  for (uint32_t number = 0; number < units; ++number) {
    Unit unit;
    unit.number = number;
    unit.begin = toAll ? bound(number) : 0;
    unit.end = toAll ? bound(number + 1) : total;
    unit.pieces = countPieces(unit.end - unit.begin,
                              pieceBytes / accumulatorBytes(collective.dtype));
    unit.isTurned = canTurn && (toAll ? number >= handlers
                                      : machineOf(task, int(number)) ==
                                            task.stages[0].machine);
    planPaths(task, unit);
    uint64_t frames = framesOf(task, unit);
    task.left += frames * unit.pieces;
    if (frames > 0 && unit.pieces > 0)
      task.units.push_back(std::move(unit));
  }
}

void NetCommunicator::planPaths(const WireTask &task, Unit &unit) const {
  for (size_t stage = 0; stage < task.stages.size(); ++stage)
    unit.path.push_back(stage);
  if (unit.isTurned)
    std::reverse(unit.path.begin(), unit.path.end());
  unit.nextPartial.resize(unit.path.size());
  // The result goes back the way that the sum came.
  for (size_t place = unit.path.size(); place-- > 0;)
    if (int machine = task.stages[unit.path[place]].machine;
        std::count(unit.resultPath.begin(), unit.resultPath.end(), machine) ==
        0)
      unit.resultPath.push_back(machine);
}

uint64_t NetCommunicator::framesOf(const WireTask &task,
                                   const Unit &unit) const {
  int me = task.group->me;
  uint64_t frames = 0;
  for (size_t place = 0; place < unit.path.size(); ++place)
    if (handlerAt(task, unit, place) == me)
      frames += (place > 0) + (place + 1 < unit.path.size());
  int lastMachine = unit.resultPath.front();
  if (task.collective.kind == CollectiveKind::AllReduce) {
    for (size_t n = 0; n < unit.resultPath.size(); ++n)
      if (handlerOf(task, unit.resultPath[n], unit.number) == me)
        frames += (n > 0) + (n + 1 < unit.resultPath.size());
  } else if (int owner = int(unit.number);
             machineOf(task, owner) != lastMachine) {
    frames += (owner == me) + (handlerOf(task, lastMachine, unit.number) == me);
  }
  return frames;
}

} // namespace polyrank::runtime::net
