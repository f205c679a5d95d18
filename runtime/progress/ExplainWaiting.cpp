// Explains why ranks wait forever: the shortest circle, or a member that never
// comes.

#include "runtime/progress/ProgramRun.h"

#include <algorithm>

using namespace polyrank::progress;
using Action = Command::Action;

std::string ProgramRun::describe(const Class &rank, size_t number) const {
  const Command &command = getProgram(rank)[number];
  const Movement &movement = getMovement(command);
  std::string text = movement.place + " (command " + std::to_string(number) +
                     ", " + movement.kind + ", id " +
                     std::to_string(movement.id) + ", microbatch " +
                     std::to_string(command.microbatch) + ", bytes";
  auto append = [&](const std::vector<int64_t> &values) {
    constexpr size_t most = 8;
    for (size_t i = 0; i < std::min(most, values.size()); ++i)
      text += " " + std::to_string(values[i]);
    if (values.size() > most)
      text += " and " + std::to_string(values.size() - most) + " more";
  };
  append(movement.bytes);
  text += ", group";
  append(ranks.mesh.getRanks(rank.rank, ranks.groups[command.group]));
  return text + ")";
}

Fault::Step ProgramRun::makeStep(const Class &rank, size_t command,
                                 std::string text) const {
  return {rank.rank, rank.program, command, std::move(text)};
}

bool ProgramRun::hasStarted(const Class &rank,
                            const Operation &operation) const {
  auto found = rank.progress.find(operation.group);
  return found != rank.progress.end() &&
         found->second.started > operation.number;
}

/// The command that starts the operation on this rank; the program's size if
/// there is none.
size_t ProgramRun::findCommand(const Class &rank,
                               const Operation &operation) const {
  int64_t left = operation.number;
  const Program &program = getProgram(rank);
  for (size_t i = 0; i < program.size(); ++i)
    if (program[i].action != Action::Wait &&
        rank.groups[program[i].group] == operation.group && left-- == 0)
      return i;
  return program.size();
}

/// The queue of an operation that the rank has started and that is not done.
const std::deque<int32_t> &ProgramRun::getQueueOf(const Class &rank,
                                                  int32_t operation) const {
  const Command &command =
      getProgram(rank)[findCommand(rank, operations[operation])];
  return rank.queues.at(getQueue(command, operations[operation].group));
}

std::vector<int32_t> ProgramRun::getBlockers(int32_t node) const {
  int32_t numClasses = static_cast<int32_t>(classes.size());
  if (node < numClasses) {
    int32_t waitsFor = classes[node].waitsFor;
    return waitsFor == none ? std::vector<int32_t>{}
                            : std::vector<int32_t>{numClasses + waitsFor};
  }
  int32_t number = node - numClasses;
  std::vector<int32_t> blockers;
  for (int32_t member : groups[operations[number].group].members) {
    const Class &rank = classes[member];
    if (!hasStarted(rank, operations[number]))
      blockers.push_back(member);
    else if (int32_t first = getQueueOf(rank, number).front(); first != number)
      blockers.push_back(numClasses + first);
  }
  return blockers;
}

/// Runs a breadth-first search from each node. Returns the nodes of the circle
/// in order, beginning with a class if the circle has one. Empty if there is no
/// circle.
std::vector<int32_t> ProgramRun::findShortestCircle() const {
  int32_t numNodes = static_cast<int32_t>(classes.size() + operations.size());
  std::vector<int32_t> shortest;
  for (int32_t first = 0; first < numNodes; ++first) {
    std::map<int32_t, int32_t> from;
    std::deque<std::pair<int32_t, size_t>> open = {{first, 1}};
    if (first >= static_cast<int32_t>(classes.size()) &&
        operations[first - classes.size()].isDone)
      continue;
    while (!open.empty() && !from.count(first)) {
      auto [node, length] = open.front();
      open.pop_front();
      if (!shortest.empty() && length >= shortest.size())
        break;
      for (int32_t next : getBlockers(node))
        if (from.try_emplace(next, node).second)
          open.push_back({next, length + 1});
    }
    if (!from.count(first))
      continue;
    std::vector<int32_t> circle;
    for (int32_t node = first; circle.empty() || node != first;) {
      node = from.at(node);
      circle.push_back(node);
    }
    std::reverse(circle.begin(), circle.end());
    if (shortest.empty() || circle.size() < shortest.size())
      shortest = std::move(circle);
  }
  return shortest;
}

/// Finds a member that starts fewer operations in a group than another member.
std::optional<Fault> ProgramRun::findMissing() const {
  for (const Operation &operation : operations) {
    if (operation.isDone)
      continue;
    for (int32_t member : groups[operation.group].members) {
      const Class &rank = classes[member],
                  &first = classes[operation.firstClass];
      size_t command = findCommand(rank, operation);
      if (command < getProgram(rank).size())
        continue;
      return Fault{
          "a rank waits without end for one that never comes",
          {makeStep(first, operation.firstCommand,
                    ranks.mesh.describeRank(first.rank) + " runs " +
                        describe(first, operation.firstCommand)),
           makeStep(rank, command,
                    ranks.mesh.describeRank(rank.rank) + " does " +
                        std::to_string(operation.number) +
                        " things in this group, and nothing after that")}};
    }
  }
  return std::nullopt;
}

/// Describes the command at which a rank waits, and why it waits there.
std::string ProgramRun::describeWaiting(const Class &rank) const {
  const Operation &operation = operations[rank.waitsFor];
  const Command &command = getProgram(rank)[rank.next];
  size_t waited = findCommand(rank, operation);
  std::string text = ranks.mesh.describeRank(rank.rank);
  if (command.action == Action::Wait)
    return text + " waits at command " + std::to_string(rank.next) + " for " +
           describe(rank, waited);
  if (waited == rank.next)
    return text + " waits in " + describe(rank, waited);
  return text + " may start " + describe(rank, rank.next) +
         " only when an older one in flight has ended, " +
         describe(rank, waited);
}

std::optional<Fault> ProgramRun::explainWaiting() const {
  if (std::all_of(classes.begin(), classes.end(), [&](const Class &rank) {
        return rank.next == getProgram(rank).size();
      }))
    return std::nullopt;
  if (auto fault = findMissing())
    return fault;
  Fault fault{"ranks wait for each other without end", {}};
  std::vector<int32_t> circle = findShortestCircle();
  int32_t numClasses = static_cast<int32_t>(classes.size());
  for (size_t i = 0; i < circle.size(); ++i) {
    int32_t node = circle[i], next = circle[(i + 1) % circle.size()];
    if (node < numClasses) {
      const Class &rank = classes[node];
      fault.steps.push_back(makeStep(rank, rank.next, describeWaiting(rank)));
    } else if (next >= numClasses) {
      // On some member one operation waits for the other.
      const Operation &behind = operations[node - numClasses];
      for (int32_t member : groups[behind.group].members) {
        const Class &rank = classes[member];
        if (!hasStarted(rank, behind) ||
            getQueueOf(rank, node - numClasses).front() != next - numClasses)
          continue;
        size_t command = findCommand(rank, behind),
               first = findCommand(rank, operations[next - numClasses]);
        fault.steps.push_back(makeStep(rank, command,
                                       ranks.mesh.describeRank(rank.rank) +
                                           " has " + describe(rank, command) +
                                           " in a queue behind " +
                                           describe(rank, first)));
        break;
      }
    }
  }
  return fault;
}

std::string Fault::toString() const {
  std::string text = what;
  for (size_t i = 0; i < steps.size(); ++i)
    text += (i == 0 ? ": " : "; ") + steps[i].text;
  return text;
}

Verdict polyrank::progress::checkPrograms(const RankPrograms &ranks) {
  ProgramRun run(ranks);
  Verdict verdict;
  verdict.classes = run.getNumClasses();
  verdict.fault = run.run();
  if (!verdict.fault)
    verdict.fault = run.explainWaiting();
  if (!verdict.fault)
    verdict.order = run.getOrder();
  return verdict;
}
