// Records what ran when, as a trace for Perfetto and chrome://tracing.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/VerifyPlan.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// The commands of one rank as they ran, kept in memory and written at the end.
///
/// A rank is a process of the trace, with a track for its own execution and
/// tracks for each group of ranks in which it communicates. The first shows all
/// commands, within them the times of waiting for other ranks, and before the
/// first of a step the time of waiting for its samples; the tracks
/// of a group show each collective from its start to its end. If several
/// collectives of a group are in flight, each is on the first of the group's
/// tracks that is free. Times are of CLOCK_MONOTONIC, which all ranks of a
/// machine share; where they are written, they are those of machine 0.
class Trace {
public:
  Trace(const LoadedPlan &plan, int64_t rank);

  /// Adds one execution of command `command` of the schedule's `action`. If the
  /// command ends a collective, itself or as its wait, `completion` has its
  /// times. Commands are added in the order in which they ran. Times are in
  /// nanoseconds.
  void add(uint32_t action, uint32_t command, int64_t begin, int64_t end,
           const Completion *completion) {
    if (!isRecording)
      return;
    commands.push_back({step, action, command, -1, begin, end});
    if (completion) {
      commands.back().completion = static_cast<int32_t>(completions.size());
      completions.push_back(*completion);
    }
  }
  /// Adds the time for which the step waited for its inputs, if it did.
  void addInputs(int64_t begin, int64_t end) {
    if (isRecording && end > begin)
      inputs.push_back({commands.size(), step, begin, end});
  }
  /// Begins a step, which is recorded if there is room for the whole of it.
  void beginStep(uint64_t number);

  /// The first step that is not recorded; 0 if all are.
  uint64_t firstLeftOut() const { return leftOut; }

  using Sink = std::function<Result<void>(std::string_view text)>;
  /// The text before the events of all ranks: the plan, whether it was a
  /// rehearsal, the emulated links, and how many machines shared the ranks out.
  std::string prologue(bool rehearsed, const std::vector<std::string> &links,
                       int machines = 1) const;
  /// The text after the events of all ranks.
  static std::string_view epilogue();
  /// Writes the events of this rank piece by piece, each followed by a comma; a
  /// piece has whole events. `clockOffset` is added to all times
  /// (JobMember::clockOffset).
  Result<void> write(const Sink &sink, int64_t clockOffset = 0) const;

private:
  struct Record {
    uint64_t step;
    uint32_t action, command;
    int32_t completion; // -1: none
    int64_t begin, end;
  };

  struct Inputs {
    size_t before; // the number of the command after the wait
    uint64_t step;
    int64_t begin, end;
  };

  const LoadedPlan &plan;
  const plan::Program &program;
  Mesh mesh;
  int64_t rank;
  size_t commandsOfStep = 0;
  uint64_t step = 0, leftOut = 0;
  bool isRecording = true;
  std::vector<Record> commands;
  std::vector<Completion> completions;
  std::vector<Inputs> inputs;
};

} // namespace polyrank::runtime
