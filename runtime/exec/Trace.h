// What ran when, as a trace that Perfetto and chrome://tracing show.

#pragma once

#include "runtime/comm/Transport.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/VerifyPlan.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// The commands of one rank, as they ran: kept in memory, and written at the
/// end.
///
/// A rank is a process of the trace, with a track for what it computes and
/// tracks for each group of ranks that it communicates in. On the former are
/// all commands, and within them the times in which others were waited for; on
/// the latter is each collective from its start to its end. Of a group with
/// several collectives in flight, each is on the first of the group's tracks
/// that is free. Times are of CLOCK_MONOTONIC, which all ranks of a machine
/// share.
class Trace {
public:
  Trace(const LoadedPlan &plan, int64_t rank);

  /// One execution of command `command` of the schedule's `action`; of a
  /// collective that is over, by itself or by the wait for it, how it came to
  /// its end. Commands come in the order in which they ran. Times in
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
  /// Steps are kept whole, as long as there is room for another one.
  void beginStep(uint64_t number);

  /// The first step that is left out; 0: none.
  uint64_t firstLeftOut() const { return leftOut; }

  using Sink = std::function<Result<void>(std::string_view text)>;
  /// What stands before the events of all ranks: of which plan they are,
  /// whether computation was rehearsed, and the links that held collectives
  /// back.
  std::string prologue(bool rehearsed,
                       const std::vector<std::string> &links) const;
  /// What stands behind them.
  static std::string_view epilogue();
  /// The events of this rank, each with a comma behind it, piece by piece.
  Result<void> write(const Sink &sink) const;

private:
  struct Record {
    uint64_t step;
    uint32_t action, command;
    int32_t completion; // -1: none
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
};

} // namespace polyrank::runtime
