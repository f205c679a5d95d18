// Compares the memory that the ranks need with what the machine has.

#include "runtime/exec/CheckpointSaver.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/exec/ResidentMemory.h"
#include "runtime/launch/ControlGroups.h"
#include "runtime/session/Checks.h"
#include "runtime/session/SessionData.h"
#include "support/ByteText.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

/// The memory that each rank of a program needs for evaluations, plus what all
/// ranks share.
uint64_t evaluationBytesOf(const Prepared &run, const ProgramReport &program) {
  if (!run.evaluation)
    return 0;
  uint64_t held = run.evaluation->data->memoryBytes();
  if (!run.evaluation->plan) // a copy of what the steps change
    return held + program.parameterBytes + program.stateBytes;
  PlanReport own = reportOf(*run.evaluation->plan);
  uint64_t most = 0; // the stage assignments may differ
  for (const ProgramReport &each : own.programs)
    most = std::max(most, each.valueBytes() + each.libraryBytes());
  return held + most;
}

} // namespace

Result<std::string> checkMemory(Prepared &run, bool whole) {
  if (run.options.noCheck)
    return std::string();
  if (run.times)
    return std::string("the ranks' arenas stay empty (--rehearse)");
  // Arenas are touched before the first step, so a run that has started has its
  // memory.
  uint64_t held = run.data ? run.data->memoryBytes() : 0;
  auto bytesOf = [&](size_t number) {
    const ProgramReport &program = run.report.programs[number];
    // Inputs are read into memory of the host, and uploaded from there.
    return program.valueBytes() + program.libraryBytes() + programBytes + held +
           inputBytesOf(run.plan->program(static_cast<uint32_t>(number))) +
           evaluationBytesOf(run, program);
  };
  uint64_t each = 0, needed = held + run.windowBytes(); // each: the maximum
  if (run.data && run.data->isStream())
    needed += feedLayoutOf(*run.plan->plan).ringBytes(int(run.report.ranks));
  uint64_t copies = 0; // made by the ranks for a checkpoint
  for (int rank = run.here.first; run.checkpoint && rank < run.here.end();
       ++rank)
    copies += CheckpointSaver::memoryBytes(*run.checkpoint, rank);
  needed += copies;
  if (run.evaluation)
    needed += evaluationMemoryOf(*run.evaluation);
  std::vector<uint64_t> bytes; // by program
  for (size_t number = 0; number < run.report.programs.size(); ++number)
    bytes.push_back(bytesOf(number));
  for (int rank = run.here.first; rank < run.here.end(); ++rank) {
    uint64_t own = bytes[programOf(*run.plan->plan, *run.mesh, rank)];
    each = std::max(each, own);
    needed += own;
  }
  std::string text = fmt::format(
      "{} need up to {} ({}{} each, the arena {}{})",
      plural(uint64_t(run.here.count), "rank"), bytesText(needed),
      run.report.programs.size() > 1 ? "at most " : "", bytesText(each),
      bytesText(run.report.arenaBytes()),
      run.report.channelBytes ? fmt::format(" and {} of the communicator",
                                            bytesText(run.report.channelBytes))
                              : "");
  if (copies)
    text += fmt::format(", {} of them for copies of what --checkpoint writes",
                        bytesText(copies));
  MemoryRoom room = memoryRoom();
  std::string source =
      room.limit ? fmt::format("its control group, limited to {}, has",
                               bytesText(room.limit))
                 : "this machine has";
  text += fmt::format(", and {} {} available", source, bytesText(room.bytes));
  if (needed <= room.bytes)
    return whole ? text : std::string();
  return Error{
      fmt::format("{}: compile it for ranks that hold less ({}){}", text,
                  run.report.mode == "train"
                      ? "--zero 2 or 3 with several ranks along data, "
                        "--recompute selective "
                        "or full, more --microbatches of fewer samples, "
                        "a --mesh that splits "
                        "parameters"
                      : "fewer samples in --input or --dim, --zero 3 "
                        "with several ranks along "
                        "data, a --mesh that splits parameters",
                  whole ? "" : ", or start it all the same with --no-check")};
}

} // namespace polyrank::runtime
