// Follows the rules of docs/wire.md for each group of ranks.

#include "runtime/plan/MachineTraffic.h"

#include "runtime/plan/Enums.h"
#include "runtime/plan/PlanMesh.h"
#include "support/ByteText.h"
#include "support/RankShare.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <tuple>

namespace polyrank::runtime {
namespace {

/// The machines of a group in the order of their first members.
std::vector<int64_t> distinct(std::span<const int64_t> machines) {
  std::vector<int64_t> found;
  for (int64_t machine : machines)
    if (std::find(found.begin(), found.end(), machine) == found.end())
      found.push_back(machine);
  return found;
}

/// A sum goes along the stages of its group: members that follow each other and
/// are on one machine.
std::vector<int64_t> stagesOf(std::span<const int64_t> machines) {
  std::vector<int64_t> stages(machines.begin(), machines.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

/// The elements of a row of `member`, with its borders, that are in the row of
/// `other`.
int64_t bordersBetween(const TransferShape &shape, int64_t member,
                       int64_t other) {
  int64_t inner = shape.inner;
  int64_t begin = std::max(member * inner - shape.low, other * inner);
  int64_t end =
      std::min((member + 1) * inner + shape.high, (other + 1) * inner);
  return shape.outer * std::max<int64_t>(0, end - begin);
}

/// A sum of `outputs` elements for each member.
void addSum(const MovedTransfers &moved, uint64_t outputs,
            std::span<const int64_t> machines, std::span<uint64_t> out) {
  uint64_t element = bytesOf(moved.type),
           sum = bytesOf(rowOf(moved.type).accumulator);
  std::vector<int64_t> stages = stagesOf(machines);
  bool toAll = moved.kind == CollectiveKind::AllReduce;
  // With two stages, the last of one member, this one sends its elements as
  // they are instead, of half of them or of what the first stage wants.
  bool canTurn = stages.size() == 2 && machines.size() >= 2 &&
                 machines[machines.size() - 2] != machines.back();
  auto goAlong = [&](uint64_t elements) {
    for (size_t stage = 0; stage + 1 < stages.size(); ++stage)
      out[stages[stage]] += elements * sum;
  };
  if (toAll) {
    uint64_t turned =
        canTurn ? outputs - std::min(outputs, (outputs + 15) / 16 / 2 * 16) : 0;
    goAlong(outputs - turned);
    // The result goes back the way that the sum came.
    std::vector<int64_t> back(stages.rbegin(), stages.rend());
    back = distinct(back);
    for (size_t n = 0; n + 1 < back.size(); ++n)
      out[back[n]] += (outputs - turned) * element;
    if (turned > 0) {
      out[stages[1]] += turned * element;
      out[stages[0]] += turned * element;
    }
    return;
  }
  for (int64_t owner : machines)
    if (canTurn && owner == stages[0]) {
      out[stages[1]] += outputs * element;
    } else {
      goAlong(outputs);
      if (owner != stages.back())
        out[stages.back()] += outputs * element;
    }
}

/// Adds up what crosses machines by kind and axes.
class TrafficCounter {
public:
  TrafficCounter(const LoadedPlan &plan, MachineTraffic &traffic)
      : plan(*plan.plan), mesh(*plan.plan), traffic(traffic) {}

  void count() {
    for (uint32_t number = 0; number < plan.programs()->size(); ++number)
      count(number);
    for (auto &[key, crossing] : lines) {
      auto &[line, out] = crossing;
      line.bytes = std::accumulate(out.begin(), out.end(), uint64_t(0));
      line.most = *std::max_element(out.begin(), out.end());
      for (size_t machine = 0; machine < out.size(); ++machine)
        traffic.out[machine] += out[machine];
      if (line.operations > 0)
        traffic.lines.push_back(std::move(line));
    }
    std::stable_sort(
        traffic.lines.begin(), traffic.lines.end(),
        [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  }

private:
  struct Crossing {
    MachineTraffic::Line line;
    std::vector<uint64_t> out; // by machine
  };

  int64_t machineOf(uint32_t rank) const { return rank / traffic.ranksOfEach; }

  void count(uint32_t number) {
    program = plan.programs()->Get(number);
    groups.clear();
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
      if (isAt(mesh, rank, program->at()))
        ranks.push_back(rank);
    std::vector<uint64_t> executions(program->segments()->size());
    for (const plan::Action *action : *program->schedule())
      ++executions[action->segment()];
    for (uint32_t s = 0; s < executions.size(); ++s)
      if (const auto *commands = program->segments()->Get(s)->commands())
        for (const plan::Command *command : *commands)
          add(*command, executions[s]);
    ranks.clear();
  }

  void add(const plan::Command &command, uint64_t executions) {
    switch (command.body_type()) {
    case plan::CommandBody::Loop:
      for (const plan::Command *each : *command.body_as_Loop()->commands())
        add(*each, executions * command.body_as_Loop()->count());
      return;
    case plan::CommandBody::Collective:
      return add(*command.body_as_Collective(), executions);
    case plan::CommandBody::Send:
      return add(*command.body_as_Send(), executions);
    default: // a receive is counted with its send
      return;
    }
  }

  /// Groups of ranks that lie over their machines in the same way: machine
  /// numbers of each member, counted within the group, and for each group which
  /// machines these are.
  using AlikeGroups =
      std::map<std::vector<int64_t>, std::vector<std::vector<int64_t>>>;

  /// The groups that cross machines and whose first member runs the program: so
  /// a group of several programs is counted once.
  const AlikeGroups &groupsOf(uint32_t group) {
    auto [found, isNew] = groups.try_emplace(group);
    if (!isNew)
      return found->second;
    const AxisRefs *axes = axesOf(group);
    for (int64_t rank : ranks) {
      if (mesh.linearIndex(rank, axes) != 0)
        continue;
      std::vector<int64_t> members;
      for (uint32_t member : mesh.group(rank, axes))
        members.push_back(machineOf(member));
      std::vector<int64_t> machines = distinct(members);
      if (machines.size() == 1)
        continue;
      for (int64_t &member : members)
        member = std::find(machines.begin(), machines.end(), member) -
                 machines.begin();
      found->second[std::move(members)].push_back(std::move(machines));
    }
    return found->second;
  }

  const AxisRefs *axesOf(uint32_t group) const {
    return program->groups()->Get(group)->axes();
  }

  void add(const plan::Collective &collective, uint64_t executions) {
    CollectiveKind kind = kindOf(collective.kind());
    ElementType type = ElementType(collective.dtype());
    Crossing &crossing = crossingOf(nameOf(kind), axesOf(collective.group()),
                                    polyrank::nameOf(type));
    std::span<const int32_t> sources;
    if (const auto *permutation = collective.permutation())
      sources = {permutation->data(), permutation->size()};
    MovedTransfers moved{kind, type, {}, sources};
    for (const plan::Transfer *transfer : *collective.transfers())
      moved.shapes.push_back(shapeOf(*transfer));
    for (const auto &[members, alike] : groupsOf(collective.group())) {
      std::vector<uint64_t> out(alike.front().size());
      addCrossing(moved, members, out);
      for (const std::vector<int64_t> &machines : alike) {
        crossing.line.operations += executions;
        for (size_t n = 0; n < machines.size(); ++n)
          crossing.out[machines[n]] += out[n] * executions;
      }
    }
  }

  void add(const plan::Send &send, uint64_t executions) {
    const AxisRefs *axes = axesOf(send.group());
    Crossing &crossing = crossingOf("send", axes, "");
    for (int64_t rank : ranks) {
      if (mesh.linearIndex(rank, axes) != send.from())
        continue;
      int64_t from = machineOf(rank),
              to = machineOf(mesh.group(rank, axes)[send.to()]);
      if (from == to)
        continue;
      crossing.line.operations += executions;
      crossing.out[from] += send.input()->size() * executions;
    }
  }

  Crossing &crossingOf(const std::string &kind, const AxisRefs *axes,
                       const std::string &type) {
    std::string described = mesh.describe(axes);
    Crossing &crossing = lines[{kind, described, type}];
    crossing.line.kind = kind, crossing.line.axes = described;
    crossing.line.type = type;
    crossing.out.resize(traffic.machines);
    return crossing;
  }

  const plan::Plan &plan;
  const Mesh mesh;
  MachineTraffic &traffic;
  const plan::Program *program = nullptr; // being counted
  std::vector<int64_t> ranks;             // that run it
  std::map<uint32_t, AlikeGroups> groups; // of it
  std::map<std::tuple<std::string, std::string, std::string>, Crossing> lines;
};

} // namespace

void addCrossing(const MovedTransfers &moved, std::span<const int64_t> machines,
                 std::span<uint64_t> out) {
  int64_t members = static_cast<int64_t>(machines.size());
  uint64_t element = bytesOf(moved.type);
  std::vector<int64_t> all = distinct(machines);
  uint64_t inputs = 0, outputs = 0; // of each member
  for (const TransferShape &shape : moved.shapes) {
    TransferElements elements = elementsOf(moved.kind, shape, members);
    inputs += elements.input;
    outputs += elements.output;
  }
  // The start of a small one carries the inputs to each machine.
  if (isSmallCollective(moved.kind, bytesOf(moved.type), moved.shapes, members,
                        true)) {
    for (int64_t source : machines)
      out[source] += inputs * element * (all.size() - 1);
    return;
  }
  switch (moved.kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::ReduceScatter:
    return addSum(moved, outputs, machines, out);
  case CollectiveKind::AllGather: // once to each machine
    for (int64_t source : machines)
      out[source] += inputs * element * (all.size() - 1);
    return;
  case CollectiveKind::Broadcast:
    out[machines[0]] += inputs * element * (all.size() - 1);
    return;
  case CollectiveKind::Permute:
    for (int64_t source = 0; source < members; ++source)
      for (int64_t machine : all) {
        bool isTaken = false;
        for (int64_t taker = 0; taker < members; ++taker)
          isTaken |=
              moved.sources[taker] == source && machines[taker] == machine;
        if (isTaken && machine != machines[source])
          out[machines[source]] += inputs * element;
      }
    return;
  case CollectiveKind::AllToAll:
    for (int64_t source : machines)
      out[source] +=
          inputs / members * element *
          std::count_if(machines.begin(), machines.end(),
                        [&](int64_t taker) { return taker != source; });
    return;
  case CollectiveKind::Halo:
  case CollectiveKind::HaloAdd:
    // A halo brings the borders to the member, and its sum takes them back.
    for (const TransferShape &shape : moved.shapes)
      for (int64_t member = 0; member < members; ++member)
        for (int64_t other = 0; other < members; ++other)
          if (machines[member] != machines[other])
            out[machines[moved.kind == CollectiveKind::Halo ? other
                                                            : member]] +=
                bordersBetween(shape, member, other) * element;
    return;
  }
}

uint64_t MachineTraffic::bytes() const {
  return std::accumulate(out.begin(), out.end(), uint64_t(0));
}

int64_t MachineTraffic::busiest() const {
  return std::max_element(out.begin(), out.end()) - out.begin();
}

Result<MachineTraffic> machineTrafficOf(const LoadedPlan &plan,
                                        int64_t machines) {
  int64_t ranks = Mesh(*plan.plan).ranks();
  POLYRANK_ASSIGN(each, ranksOfEach("plan", ranks, machines));
  MachineTraffic traffic;
  traffic.machines = machines, traffic.ranksOfEach = each;
  traffic.out.resize(machines);
  TrafficCounter(plan, traffic).count();
  return traffic;
}

std::string describe(const MachineTraffic &traffic) {
  std::string text = fmt::format(
      "between {} machines of {} rank{} each, per step:\n", traffic.machines,
      traffic.ranksOfEach, traffic.ranksOfEach == 1 ? "" : "s");
  if (traffic.lines.empty())
    return text + "  nothing: all communication stays within machines\n";
  text += fmt::format("  {:<16}{:<22}{:<6}{:>10}{:>16}{:>22}\n", "kind", "axes",
                      "type", "count", "bytes", "most of one machine");
  for (const MachineTraffic::Line &line : traffic.lines)
    text += fmt::format("  {:<16}{:<22}{:<6}{:>10}{:>16}{:>22}\n", line.kind,
                        line.axes, line.type, line.operations, line.bytes,
                        line.most);
  int64_t busiest = traffic.busiest();
  return text + fmt::format("  in all {} leave machines, {} of them machine "
                            "{}\n",
                            bytesText(traffic.bytes()),
                            bytesText(traffic.out[busiest]), busiest);
}

nlohmann::ordered_json toJson(const MachineTraffic &traffic) {
  auto lines = nlohmann::ordered_json::array();
  for (const MachineTraffic::Line &line : traffic.lines)
    lines.push_back({{"kind", line.kind},
                     {"axes", line.axes},
                     {"type", line.type},
                     {"count", line.operations},
                     {"bytes", line.bytes},
                     {"most_of_one_machine", line.most}});
  return {{"machines", traffic.machines},
          {"ranks_of_each", traffic.ranksOfEach},
          {"bytes", traffic.bytes()},
          {"bytes_out_of_machine", traffic.out},
          {"communication", lines}};
}

} // namespace polyrank::runtime
