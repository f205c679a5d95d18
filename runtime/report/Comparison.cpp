// Follows a step of a trace beside the planned timeline.

#include "runtime/report/Comparison.h"

#include "runtime/plan/CommandText.h"
#include "runtime/plan/Enums.h"
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

/// One command of the step's schedule.
struct Place {
  const plan::Segment *segment = nullptr;
  const plan::Command *command = nullptr;
  const PlannedCommand *planned = nullptr; // none of a wait
  int64_t linkTime = 0;
  /// Where the collective was started that ends here; of no other command any.
  const Place *collective = nullptr;
};

class Comparer {
public:
  Comparer(const LoadedPlan &plan, const TraceFile &trace,
           const StepTimes &linkTimes)
      : plan(plan), trace(trace), timeline(stepTimelineOf(plan)) {
    findPlaces(linkTimes);
  }

  Comparison run() {
    chooseStep();
    comparison.makespan.planned = secondsOf(timeline.makespan);
    for (const std::string &queue : timeline.queues)
      comparison.queues.push_back({queue, {}});
    for (const Place &place : places)
      addPlanned(place);
    const std::vector<TracedStep> &ranks =
        trace.steps[comparison.step - trace.firstStep];
    share = 1e-9 / static_cast<double>(ranks.size());
    for (const TracedStep &step : ranks)
      addMeasured(step);
    finish();
    return std::move(comparison);
  }

private:
  void findPlaces(const StepTimes &linkTimes) {
    std::map<std::pair<uint32_t, uint32_t>, const PlannedCommand *> planned;
    for (const PlannedCommand &command : timeline.commands)
      planned[{command.action, command.number}] = &command;
    const plan::Program &program = plan.program();
    for (uint32_t a = 0; a < program.schedule()->size(); ++a) {
      const plan::Segment &segment =
          *program.segments()->Get(program.schedule()->Get(a)->segment());
      uint32_t count = segment.commands() ? segment.commands()->size() : 0;
      for (uint32_t number = 0; number < count; ++number) {
        auto found = planned.find({a, number});
        places.push_back(
            {&segment, segment.commands()->Get(number),
             found == planned.end() ? nullptr : found->second,
             linkTimes[program.schedule()->Get(a)->segment()][number]});
      }
    }
    std::map<uint32_t, const Place *> started; // by ticket
    for (Place &place : places)
      if (const plan::Wait *wait = place.command->body_as_Wait())
        place.collective = started.at(wait->ticket());
      else if (const auto *collective = place.command->body_as_Collective()) {
        if (collective->ticket())
          started[collective->ticket()] = &place;
        else
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

  Op &opOf(const Place &place) {
    const plan::Command &command = *place.command;
    std::string work = describeWork(*plan.plan, command);
    // In quotes, as ops are: then the exporter's name of the node is left out.
    std::string name =
        "'" + (command.origin() ? command.origin()->str() : work) + "'";
    std::string phase = nameOf(command.phase());
    Op &op = ops[{LayerNames::getKey(name), phase, work}];
    op.names.add(name), op.phase = phase, op.work = work;
    return op;
  }

  CollectiveLine &lineOf(const Place &place) {
    const plan::Collective &collective = *place.command->body_as_Collective();
    CollectiveLine &line =
        collectives[{int(collective.kind()), collective.group()}];
    line.kind = nameOf(kindOf(collective.kind()));
    line.axes = timeline.queues[1 + collective.group()];
    return line;
  }

  void addPlanned(const Place &place) {
    if (!place.planned)
      return;
    double time =
        secondsOf(place.planned->time.end - place.planned->time.start);
    comparison.queues[place.planned->queue].busy.planned += time;
    if (isComputed(*place.command)) {
      Op &op = opOf(place);
      ++op.count;
      op.time.planned += time;
      return;
    }
    CollectiveLine &line = lineOf(place);
    ++line.count;
    line.started += place.command->body_as_Collective()->ticket() != 0;
    line.time.planned += time;
    // Those in front of it are not its own time.
    line.stood.planned += std::min(time, secondsOf(place.planned->stood));
    comparison.stood.planned += secondsOf(place.planned->stood);
  }

  /// Of one rank.
  void addMeasured(const TracedStep &step) {
    double within = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      const Place &place = places[i];
      double time = share * static_cast<double>(step[i].end - step[i].begin);
      within += time;
      if (isComputed(*place.command)) {
        opOf(place).time.measured += time;
        comparison.queues[0].busy.measured += time;
      } else if (place.collective) {
        addEnd(*place.collective, step[i]);
      } else {
        comparison.starting += time;
      }
    }
    double length = share * static_cast<double>(lengthOf(step));
    comparison.makespan.measured += length;
    comparison.outside += length - within;
  }

  /// Of a collective, by itself or by the wait for it.
  void addEnd(const Place &start, const TracedCommand &command) {
    CollectiveLine &line = lineOf(start);
    int64_t others = std::clamp(command.allStarted, command.begin, command.end);
    double forOthers = share * static_cast<double>(others - command.begin);
    double stood = share * static_cast<double>(command.end - others);
    // A mean over ranks, of which each takes as long.
    double link =
        secondsOf(start.linkTime) / static_cast<double>(comparison.ranks);
    double time = std::max(link, stood);
    line.forOthers += forOthers;
    line.stood.measured += stood;
    line.time.measured += time;
    comparison.forOthers += forOthers;
    comparison.stood.measured += stood;
    comparison.queues[start.planned->queue].busy.measured += time;
  }

  void finish() {
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
  StepTimeline timeline;
  std::vector<Place> places;
  Comparison comparison;
  double share = 0; // seconds of the mean that a rank's nanosecond is
  std::map<std::tuple<std::string, std::string, std::string>, Op> ops;
  std::map<std::pair<int, uint32_t>, CollectiveLine> collectives;
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
  const plan::Program &program = plan.program();
  std::vector<std::vector<bool>> seen;
  for (const std::vector<int64_t> &segment : times)
    seen.emplace_back(segment.size(), false);
  for (size_t s = firstToCount(trace); s < trace.steps.size(); ++s)
    for (const TracedStep &rank : trace.steps[s]) {
      size_t i = 0;
      for (const plan::Action *action : *program.schedule()) {
        std::vector<int64_t> &segment = times[action->segment()];
        for (size_t number = 0; number < segment.size(); ++number, ++i) {
          if (!isComputed(*program.segments()
                               ->Get(action->segment())
                               ->commands()
                               ->Get(static_cast<uint32_t>(number))))
            continue;
          int64_t time = 1000 * (rank[i].end - rank[i].begin);
          bool isFirst = !seen[action->segment()][number];
          seen[action->segment()][number] = true;
          segment[number] = isFirst ? time : std::min(segment[number], time);
        }
      }
    }
  return times;
}

} // namespace polyrank::runtime
