// Runs all programs until no rank makes progress.

#include "runtime/progress/ProgramRun.h"

#include <algorithm>
#include <set>

using namespace polyrank::progress;
using Action = Command::Action;

ProgramRun::ProgramRun(const RankPrograms &ranks) : ranks(ranks) {
  formClasses();
}

void ProgramRun::formClasses() {
  std::set<int32_t> axes(ranks.classAxes.begin(), ranks.classAxes.end());
  for (const Group &group : ranks.groups)
    if (!group.members.empty())
      for (const SubAxis &part : group.axes)
        axes.insert(part.axis);
  std::vector<int64_t> representatives = {0};
  for (int32_t axis : axes) {
    std::vector<int64_t> further;
    for (int64_t rank : representatives)
      for (int64_t i = 0; i < ranks.mesh.getAxes()[axis].size; ++i)
        further.push_back(ranks.mesh.replaceCoordinate(rank, axis, i));
    representatives = std::move(further);
  }
  for (int64_t rank : representatives) {
    int64_t index = 0;
    for (int32_t axis : ranks.classAxes)
      index = index * ranks.mesh.getAxes()[axis].size +
              ranks.mesh.getCoordinate(rank, axis);
    int32_t program = ranks.programOf[index];
    classOfRank[rank] = static_cast<int32_t>(classes.size());
    Class each{rank, program};
    each.operations.assign(ranks.programs[program].size(), none);
    each.groups.assign(ranks.groups.size(), none);
    classes.push_back(std::move(each));
  }
}

/// Checks that each start is followed by one wait for it. This depends on the
/// program alone, so it is checked once for each program.
std::optional<Fault> ProgramRun::checkWaits() const {
  std::set<int32_t> seen;
  for (const Class &rank : classes) {
    if (!seen.insert(rank.program).second)
      continue;
    const Program &program = getProgram(rank);
    std::vector<bool> inFlight(program.size());
    auto fail = [&](size_t command, std::string text) {
      return Fault{
          "starts and waits of one rank do not fit",
          {makeStep(rank, command, ranks.mesh.describeRank(rank.rank) + text)}};
    };
    for (size_t i = 0; i < program.size(); ++i) {
      if (program[i].action == Action::Start)
        inFlight[i] = true;
      if (program[i].action != Action::Wait)
        continue;
      size_t started = program[i].started;
      if (started >= i || !inFlight[started])
        return fail(i, " waits at command " + std::to_string(i) +
                           " for what command " + std::to_string(started) +
                           " started, which is not in flight there");
      inFlight[started] = false;
    }
    auto left = std::find(inFlight.begin(), inFlight.end(), true);
    if (left != inFlight.end())
      return fail(left - inFlight.begin(),
                  " never waits for " +
                      describe(rank, left - inFlight.begin()));
  }
  return std::nullopt;
}

int32_t ProgramRun::getGroup(int64_t rank, int32_t number) {
  const Group &group = ranks.groups[number];
  auto [known, isNew] =
      groupOfBase.try_emplace({ranks.mesh.getBase(rank, group), number}, none);
  if (!isNew)
    return known->second;
  std::vector<int64_t> list = ranks.mesh.getRanks(rank, group);
  auto [same, isAnother] = groupOfRanks.try_emplace(
      {list, group.channel}, static_cast<int32_t>(groups.size()));
  known->second = same->second;
  if (!isAnother)
    return same->second;
  RankGroup found{std::move(list)};
  for (int64_t member : found.ranks)
    if (auto it = classOfRank.find(member); it != classOfRank.end())
      found.members.push_back(it->second);
  std::sort(found.members.begin(), found.members.end());
  groups.push_back(std::move(found));
  return same->second;
}

std::optional<Fault> ProgramRun::findGroups() {
  std::set<int32_t> checked;
  for (Class &rank : classes)
    for (size_t i = 0; i < getProgram(rank).size(); ++i) {
      const Command &command = getProgram(rank)[i];
      if (command.action == Action::Wait)
        continue;
      int32_t &group = rank.groups[command.group];
      if (group != none)
        continue;
      group = getGroup(rank.rank, command.group);
      std::vector<int64_t> members = groups[group].ranks;
      std::sort(members.begin(), members.end());
      if (!std::binary_search(members.begin(), members.end(), rank.rank) ||
          members.front() < 0 ||
          std::adjacent_find(members.begin(), members.end()) != members.end())
        return Fault{"a group is none",
                     {makeStep(rank, i,
                               ranks.mesh.describeRank(rank.rank) + " runs " +
                                   describe(rank, i) +
                                   ", which is no group of different ranks "
                                   "with itself in it")}};
    }
  return std::nullopt;
}

std::pair<int32_t, int32_t> ProgramRun::getQueue(const Command &command,
                                                 int32_t group) {
  return command.queue == Command::ownQueue
             ? std::pair(Command::ownQueue, group)
             : std::pair(command.queue, int32_t(0));
}

std::optional<Fault> ProgramRun::run() {
  if (auto fault = findGroups())
    return fault;
  if (auto fault = checkWaits())
    return fault;
  for (size_t i = 0; i < classes.size(); ++i)
    ready.push_back(i);
  while (!ready.empty()) {
    int32_t next = ready.front();
    ready.pop_front();
    if (auto fault = advance(next))
      return fault;
  }
  return std::nullopt;
}

/// Returns true if the class must wait for the operation; it then continues
/// when the operation is done.
bool ProgramRun::awaits(Class &rank, int32_t operation) {
  Operation &waited = operations[operation];
  if (waited.isDone)
    return false;
  rank.waitsFor = operation;
  waited.waiting.push_back(&rank - classes.data());
  return true;
}

/// Returns true if the limits allow the command to start, and takes its places.
/// Otherwise the class waits for its oldest operation in flight.
bool ProgramRun::hasRoom(Class &rank, const Command &command) {
  const Movement &movement = getMovement(command);
  if (movement.transfers == 0)
    return true;
  const Limits &limits = ranks.limits;
  Progress &progress = rank.progress[rank.groups[command.group]];
  int64_t places = std::max<int64_t>(
      1, (movement.transfers + limits.transfersOfAnOperation - 1) /
             limits.transfersOfAnOperation);
  while (!progress.ring.empty() &&
         progress.ring.front().begin + limits.operationsOfAGroup <
             progress.places + places) {
    if (awaits(rank, progress.ring.front().operation))
      return false;
    progress.ring.pop_front();
  }
  while (!rank.published.empty() &&
         rank.publishedTransfers + movement.transfers > limits.transfers) {
    if (awaits(rank, rank.published.front().operation))
      return false;
    rank.publishedTransfers -= rank.published.front().begin;
    rank.published.pop_front();
  }
  int32_t operation = static_cast<int32_t>(operations.size());
  auto &numbers = groups[rank.groups[command.group]].operations;
  if (progress.started < static_cast<int64_t>(numbers.size()))
    operation = numbers[progress.started];
  progress.ring.push_back({operation, progress.places});
  progress.places += places;
  rank.published.push_back({operation, movement.transfers});
  rank.publishedTransfers += movement.transfers;
  return true;
}

/// Starts the operation of the class's next command.
std::optional<Fault> ProgramRun::start(int32_t number) {
  Class &rank = classes[number];
  const Command &command = getProgram(rank)[rank.next];
  int32_t group = rank.groups[command.group];
  int64_t position = rank.progress[group].started++;
  std::vector<int32_t> &numbers = groups[group].operations;
  if (position == static_cast<int64_t>(numbers.size())) {
    numbers.push_back(static_cast<int32_t>(operations.size()));
    operations.push_back({group, position, number, rank.next});
  }
  int32_t operation = numbers[position];
  const Operation &known = operations[operation];
  const Class &first = classes[known.firstClass];
  const Command &theirs = getProgram(first)[known.firstCommand];
  const Movement &mine = getMovement(command), &other = getMovement(theirs);
  if (mine.id != other.id || mine.kind != other.kind ||
      mine.bytes != other.bytes || command.microbatch != theirs.microbatch)
    return Fault{"members of a group do not agree on what they do in it next",
                 {makeStep(first, known.firstCommand,
                           ranks.mesh.describeRank(first.rank) + " runs " +
                               describe(first, known.firstCommand)),
                  makeStep(rank, rank.next,
                           ranks.mesh.describeRank(rank.rank) + " runs " +
                               describe(rank, rank.next))}};
  rank.operations[rank.next] = operation;
  std::deque<int32_t> &queue = rank.queues[getQueue(command, group)];
  queue.push_back(operation);
  if (queue.size() == 1)
    putAtHead(operation);
  return std::nullopt;
}

void ProgramRun::putAtHead(int32_t operation) {
  ++operations[operation].atHead;
  headed.push_back(operation);
  while (!headed.empty()) {
    int32_t next = headed.back();
    headed.pop_back();
    Operation &candidate = operations[next];
    if (!candidate.isDone &&
        candidate.atHead == groups[candidate.group].members.size())
      finish(next);
  }
}

/// Finishes an operation that is first in the queues of all members. Adds the
/// operations that become first to `headed`, from which `putAtHead` goes on.
void ProgramRun::finish(int32_t number) {
  Operation &operation = operations[number];
  operation.isDone = true;
  order.push_back({operation.group, operation.number});
  for (int32_t member : groups[operation.group].members)
    for (auto &[key, queue] : classes[member].queues)
      if (!queue.empty() && queue.front() == number) {
        queue.pop_front();
        if (!queue.empty()) {
          ++operations[queue.front()].atHead;
          headed.push_back(queue.front());
        }
        break;
      }
  for (int32_t waiting : operation.waiting) {
    classes[waiting].waitsFor = none;
    ready.push_back(waiting);
  }
  operation.waiting.clear();
}

std::optional<Fault> ProgramRun::advance(int32_t number) {
  Class &rank = classes[number];
  const Program &program = getProgram(rank);
  while (rank.next < program.size()) {
    const Command &command = program[rank.next];
    if (command.action == Action::Wait) {
      if (awaits(rank, rank.operations[command.started]))
        return std::nullopt;
      ++rank.next;
      continue;
    }
    if (!rank.isStarted) {
      if (!hasRoom(rank, command))
        return std::nullopt;
      rank.isStarted = true;
      if (auto fault = start(number))
        return fault;
    }
    // The start of an operation that exceeds a limit by itself waits until the
    // operation is done.
    const Limits &limits = ranks.limits;
    int64_t transfers = getMovement(command).transfers;
    bool waits =
        command.action == Action::Run || transfers > limits.transfers ||
        transfers > limits.operationsOfAGroup * limits.transfersOfAnOperation;
    if (waits && awaits(rank, rank.operations[rank.next]))
      return std::nullopt;
    rank.isStarted = false;
    ++rank.next;
  }
  return std::nullopt;
}
