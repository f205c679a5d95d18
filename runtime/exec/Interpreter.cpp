// Issues the commands of a program in order, and takes the time of each from
// its events. Each request of a segment has at most one collective in flight.

#include "runtime/exec/Interpreter.h"

#include "runtime/plan/BufferPlace.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace polyrank::runtime {

Result<Interpreter> Interpreter::prepare(const plan::Program &program,
                                         uint32_t microbatches,
                                         const RankContext &on,
                                         const Links &links) {
  Interpreter interpreter(on.device, on.communicator);
  interpreter.rehearsal = on.rehearsal;
  POLYRANK_ASSIGN(segments, prepareCommands(program, microbatches, on, links));
  interpreter.segments = std::move(segments);
  for (const plan::Action *action : *program.schedule()) {
    interpreter.schedule.push_back(*action);
    interpreter.numCommands +=
        static_cast<uint32_t>(interpreter.segments[action->segment()].size());
  }
  return interpreter;
}

/// Computing commands run on the compute queue of the device; operations that
/// communicate know their queue. What is computed, a send, a receive or a
/// collective without a request begins after all before it, so its end stands
/// for all of them. A wait does not begin anything: its event joins the others.
/// What starts a collective is over before the collective is.
Result<Event> Interpreter::issue(const PreparedCommand &command,
                                 Invocation invocation, EventSet &latest) {
  if (command.computed) {
    POLYRANK_ASSIGN(end,
                    device->enqueue(*command.computed, invocation, latest));
    latest.replace(end);
    return end;
  }
  POLYRANK_ASSIGN(end, command.issued->issue(invocation, latest));
  if (command.kind == plan::CommandBody::Wait)
    latest.add(end);
  else if (command.kind != plan::CommandBody::Collective ||
           command.issued->arrival())
    latest.replace(end);
  return end;
}

/// Issues all iterations, and signals progress after each, since a loop may
/// take long.
Result<Event> Interpreter::runLoop(const PreparedCommand &loop,
                                   const StepRecord::Place &place,
                                   uint32_t microbatch, EventSet &latest) {
  uint32_t iterations = iterationsOf(*loop.source);
  Event last;
  for (uint32_t iteration = 0; iteration < iterations; ++iteration) {
    for (size_t n = 0; n < loop.nested.size(); ++n) {
      const PreparedCommand &command = loop.nested[n];
      Result<Event> end = issue(command, {microbatch, iteration}, latest);
      if (!end)
        return end.error().saying(fmt::format("iteration {}, {}: {}", iteration,
                                              originOf(*command.source),
                                              end.error().message));
      last = *end;
      if (profiled)
        running.back().add(
            {place.action, place.command, static_cast<int32_t>(n)},
            command.kind, last);
    }
    communicator->job().beat();
  }
  return last;
}

/// Lets the device publish that everything up to now is done and that it is at
/// `next`, unless it was done when it was issued.
Result<void> Interpreter::markDone(Position next, const EventSet &latest) {
  if (latest.wereOver())
    return {};
  next.command = std::min(next.command, numCommands - 1);
  return device->mark(communicator->job().deviceWord(), next.word(), latest);
}

Result<std::shared_ptr<const StepRun>>
Interpreter::runStep(uint64_t step, EventSet &latest, const InputWait &inputs) {
  StepRecord &record = running.emplace_back(std::move(spare));
  record.entries.clear();
  record.arrivals.clear();
  record.inputs = inputs;
  record.before = latest;
  record.run = std::make_shared<StepRun>();
  record.run->step = step;
  if (rehearsal)
    rehearsal->beginStep();
  record.issued = eventClock();
  uint32_t number = 0;
  for (uint32_t a = 0; a < schedule.size(); ++a) {
    const plan::Action &action = schedule[a];
    std::vector<PreparedCommand> &commands = segments[action.segment()];
    for (uint32_t c = 0; c < commands.size(); ++c) {
      PreparedCommand &command = commands[c];
      communicator->job().setProgress(step, number++);
      bool isLast = c + 1 == commands.size();
      Result<Event> end =
          command.nested.empty()
              ? issue(command, {action.microbatch()}, latest)
              : runLoop(command, {a, c}, action.microbatch(), latest);
      if (!end)
        return end.error().saying(
            fmt::format("step {}, segment '{}', microbatch {}, {}: {}", step,
                        command.segment, action.microbatch(),
                        originOf(*command.source), end.error().message));
      if (command.issued || isLast)
        if (Result<void> marked = markDone({step, number}, latest); !marked)
          return marked.error();
      record.add({a, c}, command.kind, *end,
                 traced && command.issued ? command.issued->arrival()
                                          : nullptr);
    }
  }
  record.after = latest;
  std::shared_ptr<const StepRun> run = record.run;
  if (Result<void> settled = settle(1); !settled)
    return settled.error().saying(fmt::format(
        "step {}: {}", running.front().run->step, settled.error().message));
  return run;
}

Result<void> Interpreter::settle(size_t most) {
  while (!running.empty() &&
         (running.size() > most || running.front().after.isOver())) {
    if (Result<void> over = running.front().after.wait(); !over)
      return over;
    take(running.front());
    spare = std::move(running.front());
    running.pop_front();
  }
  return {};
}

void Interpreter::take(const StepRecord &record) {
  StepRun &run = *record.run;
  run.begin = std::max(record.issued, record.before.time());
  // While the step before was not over, the wait cost nothing.
  run.inputs = record.inputs;
  run.inputs.begin =
      std::min(std::max(run.inputs.begin, lastEnd), run.inputs.end);
  waited += run.inputs.length();
  if (traced) {
    traced->beginStep(run.step);
    traced->addInputs(run.inputs.begin, run.inputs.end);
  }
  int64_t start = run.begin, nestedStart = start;
  for (const StepRecord::Entry &entry : record.entries) {
    const auto &[action, command, nested] = entry.place;
    uint32_t segment = schedule[action].segment();
    int64_t end = std::max(entry.end.time(), nested < 0 ? start : nestedStart);
    if (nested >= 0) {
      profiled->add(segment, command, end - nestedStart,
                    static_cast<size_t>(nested));
      nestedStart = end;
      continue;
    }
    run.times.nanoseconds[int(entry.kind)] += end - start;
    ++run.times.counts[int(entry.kind)];
    bool isLoop = !segments[segment][command].nested.empty();
    if (profiled && !isLoop)
      profiled->add(segment, command, end - start);
    if (traced)
      traced->add(action, command, start, end,
                  entry.arrival < 0
                      ? nullptr
                      : &record.arrivals[entry.arrival].completion());
    start = nestedStart = end;
  }
  if (profiled) {
    profiled->addInputs(static_cast<uint64_t>(run.inputs.length()));
    profiled->endStep();
  }
  run.end = lastEnd = start;
  run.isOver = true;
  measured += run.times;
}

} // namespace polyrank::runtime
