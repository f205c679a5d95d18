// Runs the program of one rank: segments in the order of the schedule.

#pragma once

#include "runtime/exec/PrepareCommands.h"
#include "runtime/exec/Profile.h"
#include "runtime/exec/StepRecord.h"
#include "runtime/exec/Trace.h"

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace polyrank::runtime {

/// Issues commands and waits for none of them: each begins after the events of
/// those before it, except that a collective with a request is in flight until
/// its wait. Times are those of the events, and are known once a step is over.
class Interpreter {
public:
  /// Prepares all commands of the verified `program`. Collectives and sends are
  /// slowed down to the emulated `links`.
  static Result<Interpreter> prepare(const plan::Program &program,
                                     uint32_t microbatches,
                                     const RankContext &on, const Links &links);

  /// Issues the schedule once, after `latest`, to which it adds the events
  /// after which anything else may begin. Before it returns it waits for the
  /// step before this one, so that the host is at most one step ahead. An error
  /// names the command's origin in the model. `inputs` is how long the host has
  /// waited for the step's inputs.
  Result<std::shared_ptr<const StepRun>>
  runStep(uint64_t step, EventSet &latest, const InputWait &inputs = {});

  /// Waits until at most `running` of the issued steps still run, and takes the
  /// times of all that are over.
  Result<void> settle(size_t running);

  /// The times of all steps that are over.
  const CommandTimes &times() const { return measured; }
  /// The time for which they waited for their inputs, in nanoseconds.
  int64_t inputTime() const { return waited; }

  /// Measures each command from the next step on.
  void startProfile(const plan::Program &program) { profiled.emplace(program); }
  const std::optional<Profile> &profile() const { return profiled; }

  /// Records each command from the next step on, in `trace`, which outlives
  /// this.
  void startTrace(Trace &trace) { traced = &trace; }

private:
  Interpreter(Device &device, Communicator &communicator)
      : device(&device), communicator(&communicator) {}

  /// Issues a command in one iteration of a loop, or outside of loops.
  Result<Event> issue(const PreparedCommand &command, Invocation invocation,
                      EventSet &latest);
  Result<Event> runLoop(const PreparedCommand &loop,
                        const StepRecord::Place &place, uint32_t microbatch,
                        EventSet &latest);
  Result<void> markDone(Position next, const EventSet &latest);
  void take(const StepRecord &record);

  Device *device;
  Communicator *communicator;
  std::vector<std::vector<PreparedCommand>> segments;
  std::vector<plan::Action> schedule;
  uint32_t numCommands = 0; // of a step
  /// The steps that were issued and whose times were not taken yet, oldest
  /// first; and a record to use again, for its memory.
  std::deque<StepRecord> running;
  StepRecord spare;
  CommandTimes measured;
  int64_t waited = 0;  // for inputs
  int64_t lastEnd = 0; // of the step whose times were taken last
  std::optional<Profile> profiled;
  Trace *traced = nullptr;
  Rehearsal *rehearsal = nullptr;
};

} // namespace polyrank::runtime
