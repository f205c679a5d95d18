// Compares a step of a trace with the planned timeline.

#include "runtime/report/Comparison.h"

#include "runtime/plan/CommandText.h"
#include "runtime/plan/Enums.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/StepTimeline.h"
#include "support/Json.h"
#include "support/Names.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace polyrank::runtime {
namespace {

double secondsOf(int64_t picoseconds) {
  return 1e-12 * static_cast<double>(picoseconds);
}

/// The first step touches memory for the first time.
size_t firstToCount(const TraceFile &trace) {
  return trace.steps.size() > 1 ? 1 : 0;
}

int64_t lengthOf(const TracedStep &step) {
  return step.empty() ? 0 : step.back().end - step.front().begin;
}

/// One command of a program's schedule.
struct PlacedCommand {
  const plan::Command *command = nullptr;
  const PlannedCommand *planned = nullptr; // none for a wait
  int64_t linkTime = 0;
  /// The command that started the collective that ends here; the command itself
  /// for a send or a receive; null for any other command.
  const PlacedCommand *collective = nullptr;
};

class Comparer {
public:
  Comparer(const LoadedPlan &plan, const TraceFile &trace,
           const StepTimes &linkTimes)
      : plan(plan), trace(trace), timeline(planTimelineOf(plan)),
        places(plan.programs()) {
    for (uint32_t number = 0; number < plan.programs(); ++number)
      findPlaces(number, linkTimes[number]);
  }

  Comparison run() {
    chooseStep();
    comparison.makespan.planned = secondsOf(timeline.makespan);
    for (const StepTimeline &program : timeline.programs)
      for (const std::string &queue : program.queues)
        queueOf(queue);
    // The mean over ranks; all programs have the same number of ranks.
    weight = 1.0 / static_cast<double>(plan.programs());
    for (uint32_t number = 0; number < plan.programs(); ++number) {
      program = &timeline.programs[number];
      for (const PlacedCommand &place : places[number])
        addPlanned(place);
      comparison.programs.push_back({program->place, {}, {}});
      comparison.programs.back().computing.planned =
          secondsOf(program->computation);
      comparison.programs.back().idle.planned =
          secondsOf(timeline.idle(number));
    }
    const std::vector<TracedStep> &ranks =
        trace.steps[comparison.step - trace.firstStep];
    share = 1e-9 / static_cast<double>(ranks.size());
    lengths.resize(plan.programs());
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      addMeasured(int64_t(rank), ranks[rank]);
    finish();
    return std::move(comparison);
  }

private:
  void findPlaces(uint32_t number, const ProgramTimes &linkTimes) {
    std::map<std::pair<uint32_t, uint32_t>, const PlannedCommand *> planned;
    for (const PlannedCommand &command : timeline.programs[number].commands)
      planned[{command.action, command.number}] = &command;
    const plan::Program &program = plan.program(number);
    std::vector<PlacedCommand> &places = this->places[number];
    for (uint32_t a = 0; a < program.schedule()->size(); ++a) {
      uint32_t segmentNumber = program.schedule()->Get(a)->segment();
      const plan::Segment &segment = *program.segments()->Get(segmentNumber);
      uint32_t count = segment.commands() ? segment.commands()->size() : 0;
      for (uint32_t c = 0; c < count; ++c) {
        auto found = planned.find({a, c});
        places.push_back({segment.commands()->Get(c),
                          found == planned.end() ? nullptr : found->second,
                          linkTimes[segmentNumber][c]});
      }
    }
    std::map<uint32_t, const PlacedCommand *> started; // by request
    for (PlacedCommand &place : places)
      if (const plan::Wait *wait = place.command->body_as_Wait())
        place.collective = started.at(wait->request());
      else if (const auto *collective = place.command->body_as_Collective()) {
        if (collective->request())
          started[collective->request()] = &place;
        else
          place.collective = &place;
      } else if (!isComputed(*place.command)) {
        place.collective = &place;
      }
  }

  void chooseStep() {
    comparison.steps = trace.steps.size();
    comparison.ranks = trace.steps[0].size();
    comparison.isRehearsed = trace.isRehearsed;
    comparison.links = trace.links;
    auto timeOf = [&](size_t step) {
      int64_t sum = 0;
      for (const TracedStep &rank : trace.steps[step])
        sum += lengthOf(rank);
      return sum;
    };
    size_t fastest = firstToCount(trace);
    for (size_t step = fastest; step < trace.steps.size(); ++step)
      if (timeOf(step) < timeOf(fastest))
        fastest = step;
    comparison.step = trace.firstStep + fastest;
  }

  struct Op {
    LayerNames names;
    std::string phase, work;
    uint64_t count = 0;
    Planned time;
  };

  QueueLine &queueOf(const std::string &name) {
    auto [at, isNew] = queues.insert({name, comparison.queues.size()});
    if (isNew)
      comparison.queues.push_back({name, {}});
    return comparison.queues[at->second];
  }

  Op &opOf(const PlacedCommand &place) {
    const plan::Command &command = *place.command;
    std::string work = describeWork(*plan.plan, command);
    // The name is quoted, like ops: then the exporter's name of the node is
    // left out.
    std::string name =
        "'" + (command.origin() ? command.origin()->str() : work) + "'";
    std::string phase = nameOf(command.phase());
    Op &op = ops[{LayerNames::getKey(name), phase, work}];
    op.names.add(name), op.phase = phase, op.work = work;
    return op;
  }

  CollectiveLine &lineOf(const PlacedCommand &place) {
    const auto *collective = place.command->body_as_Collective();
    std::string kind = collective ? nameOf(kindOf(collective->kind()))
                                  : describeWork(*plan.plan, *place.command);
    const std::string &axes = program->queues[place.planned->queue];
    CollectiveLine &line = collectives[{kind, axes}];
    line.kind = kind;
    line.axes = axes;
    return line;
  }

  /// Adds the planned time of a command of the program `program`.
  void addPlanned(const PlacedCommand &place) {
    if (!place.planned)
      return;
    double time =
        weight * secondsOf(place.planned->time.end - place.planned->time.start);
    double stood = weight * secondsOf(place.planned->stood);
    queueOf(program->queues[place.planned->queue]).busy.planned += time;
    if (isComputed(*place.command)) {
      Op &op = opOf(place);
      ++op.count;
      op.time.planned += time;
      return;
    }
    const auto *collective = place.command->body_as_Collective();
    CollectiveLine &line = lineOf(place);
    ++line.count;
    line.started += collective && collective->request() != 0;
    line.time.planned += time;
    // The time of earlier collectives is not its own.
    line.stood.planned += std::min(time, stood);
    comparison.stood.planned += stood;
  }

  /// Adds the measured step of one rank.
  void addMeasured(int64_t rank, const TracedStep &step) {
    uint32_t number = programOf(*plan.plan, mesh, rank);
    program = &timeline.programs[number];
    double within = 0, computing = 0;
    for (size_t i = 0; i < places[number].size(); ++i) {
      const PlacedCommand &place = places[number][i];
      double time = share * static_cast<double>(step[i].end - step[i].begin);
      within += time;
      if (isComputed(*place.command)) {
        opOf(place).time.measured += time;
        computing += time;
      } else if (place.collective) {
        addEnd(*place.collective, step[i],
               isBetweenMachines(rank, *place.collective));
      } else {
        comparison.starting += time;
      }
    }
    queueOf("compute").busy.measured += computing;
    double length = share * static_cast<double>(lengthOf(step));
    comparison.programs[number].computing.measured += computing / weight;
    lengths[number] += length / weight;
    comparison.outside += length - within;
  }

  /// True if a rank of another machine takes part in what `rank` starts there.
  bool isBetweenMachines(int64_t rank, const PlacedCommand &start) const {
    if (trace.machines == 1)
      return false;
    const plan::Command &command = *start.command;
    auto membersOf = [&](uint32_t group) {
      const auto &groups =
          *plan.program(programOf(*plan.plan, mesh, rank)).groups();
      return mesh.group(rank, groups.Get(group)->axes());
    };
    auto isElsewhere = [&,
                        each = mesh.ranks() / trace.machines](int64_t other) {
      return other / each != rank / each;
    };
    if (const auto *send = command.body_as_Send())
      return isElsewhere(membersOf(send->group())[send->to()]);
    if (const auto *receive = command.body_as_Receive())
      return isElsewhere(membersOf(receive->group())[receive->from()]);
    const auto members = membersOf(command.body_as_Collective()->group());
    return std::any_of(members.begin(), members.end(), isElsewhere);
  }

  /// Adds the end of a collective, by itself or by its wait, or of a send or a
  /// receive; `isBetweenMachines`: the network moves its data.
  void addEnd(const PlacedCommand &start, const TracedCommand &command,
              bool isBetweenMachines) {
    CollectiveLine &line = lineOf(start);
    int64_t others = std::clamp(command.allStarted, command.begin, command.end);
    double forOthers = share * static_cast<double>(others - command.begin);
    double stood = share * static_cast<double>(command.end - others);
    // The mean over ranks, each of which takes as long.
    double link =
        secondsOf(start.linkTime) / static_cast<double>(comparison.ranks);
    double moved = isBetweenMachines
                       ? share * static_cast<double>(command.flightEnd -
                                                     command.allStarted)
                       : 0;
    double time = std::max({link, moved, stood});
    line.forOthers += forOthers;
    line.stood.measured += stood;
    line.time.measured += time;
    comparison.forOthers += forOthers;
    comparison.stood.measured += stood;
    queueOf(line.axes).busy.measured += time;
  }

  void finish() {
    // A step ends when its last program ends.
    comparison.makespan.measured =
        *std::max_element(lengths.begin(), lengths.end());
    for (ProgramLine &line : comparison.programs)
      line.idle.measured =
          comparison.makespan.measured - line.computing.measured;
    for (auto &[key, op] : ops) {
      std::string name = op.names.toString();
      std::erase(name, '\'');
      comparison.ops.push_back({name, op.phase, op.work, op.count, op.time});
    }
    std::sort(comparison.ops.begin(), comparison.ops.end(),
              [](const OpLine &a, const OpLine &b) {
                return std::forward_as_tuple(-a.time.excess(), a.op, a.phase,
                                             a.work) <
                       std::forward_as_tuple(-b.time.excess(), b.op, b.phase,
                                             b.work);
              });
    for (auto &[key, line] : collectives)
      comparison.collectives.push_back(line);
    std::sort(comparison.collectives.begin(), comparison.collectives.end(),
              [](const CollectiveLine &a, const CollectiveLine &b) {
                return std::forward_as_tuple(-a.time.planned, a.kind, a.axes) <
                       std::forward_as_tuple(-b.time.planned, b.kind, b.axes);
              });
  }

  const LoadedPlan &plan;
  const TraceFile &trace;
  const Mesh mesh{*plan.plan};
  PlanTimeline timeline;
  std::vector<std::vector<PlacedCommand>> places; // by program
  const StepTimeline *program = nullptr;          // being added
  double weight = 1;
  std::vector<double> lengths; // of the step, by program
  Comparison comparison;
  std::map<std::string, size_t> queues;
  double share = 0; // seconds in the mean per nanosecond of one rank
  std::map<std::tuple<std::string, std::string, std::string>, Op> ops;
  std::map<std::pair<std::string, std::string>, CollectiveLine> collectives;
};

nlohmann::ordered_json toJson(const Planned &time) {
  return {{"planned", time.planned}, {"measured", time.measured}};
}

} // namespace

Comparison compare(const LoadedPlan &plan, const TraceFile &trace,
                   const StepTimes &linkTimes) {
  return Comparer(plan, trace, linkTimes).run();
}

nlohmann::ordered_json toJson(const Comparison &comparison) {
  nlohmann::ordered_json report = newReport("comparison");
  report["step"] = comparison.step;
  report["steps"] = comparison.steps;
  report["ranks"] = comparison.ranks;
  report["rehearsed"] = comparison.isRehearsed;
  report["links"] = comparison.links;
  report["seconds"] = toJson(comparison.makespan);
  report["programs"] = nlohmann::ordered_json::array();
  for (const ProgramLine &program : comparison.programs)
    report["programs"].push_back({{"at", program.place},
                                  {"computing", toJson(program.computing)},
                                  {"idle", toJson(program.idle)}});
  report["queues"] = nlohmann::ordered_json::array();
  for (const QueueLine &queue : comparison.queues)
    report["queues"].push_back(
        {{"queue", queue.name}, {"busy", toJson(queue.busy)}});
  report["stood"] = toJson(comparison.stood);
  report["for_other_ranks"] = comparison.forOthers;
  report["starting"] = comparison.starting;
  report["outside"] = comparison.outside;
  report["collectives"] = nlohmann::ordered_json::array();
  for (const CollectiveLine &line : comparison.collectives)
    report["collectives"].push_back({{"kind", line.kind},
                                     {"axes", line.axes},
                                     {"count", line.count},
                                     {"started", line.started},
                                     {"seconds", toJson(line.time)},
                                     {"stood", toJson(line.stood)},
                                     {"for_other_ranks", line.forOthers}});
  report["ops"] = nlohmann::ordered_json::array();
  for (const OpLine &line : comparison.ops)
    report["ops"].push_back({{"op", line.op},
                             {"phase", line.phase},
                             {"command", line.work},
                             {"count", line.count},
                             {"seconds", toJson(line.time)}});
  return report;
}

StepTimes measuredTimesOf(const LoadedPlan &plan, const TraceFile &trace) {
  StepTimes times = plannedTimesOf(plan);
  Mesh mesh(*plan.plan);
  std::vector<std::vector<std::vector<bool>>> seen;
  for (const ProgramTimes &program : times) {
    auto &some = seen.emplace_back();
    for (const std::vector<int64_t> &segment : program)
      some.emplace_back(segment.size(), false);
  }
  for (size_t s = firstToCount(trace); s < trace.steps.size(); ++s)
    for (size_t rank = 0; rank < trace.steps[s].size(); ++rank) {
      uint32_t p = programOf(*plan.plan, mesh, int64_t(rank));
      const plan::Program &program = plan.program(p);
      size_t i = 0;
      for (const plan::Action *action : *program.schedule()) {
        std::vector<int64_t> &segment = times[p][action->segment()];
        for (size_t number = 0; number < segment.size(); ++number, ++i) {
          if (!isComputed(*program.segments()
                               ->Get(action->segment())
                               ->commands()
                               ->Get(static_cast<uint32_t>(number))))
            continue;
          const TracedCommand &traced = trace.steps[s][rank][i];
          int64_t time = 1000 * (traced.end - traced.begin);
          bool isFirst = !seen[p][action->segment()][number];
          seen[p][action->segment()][number] = true;
          segment[number] = isFirst ? time : std::min(segment[number], time);
        }
      }
    }
  return times;
}

} // namespace polyrank::runtime
