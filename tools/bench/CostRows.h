// Lists of commands for the runs of a pipeline's stages, and how long a step of
// them takes on a machine.

#pragma once

#include "compiler/cost/Reach.h"
#include "runtime/plan/Collectives.h"
#include "support/ElementType.h"
#include "support/Result.h"

#include <map>
#include <string>
#include <vector>

namespace polyrank::bench {

/// One command: it computes, is a collective, or a message to a device that is
/// `stride` further.
struct Command {
  enum class Kind : uint8_t { Computes, Collects, Sends };
  Kind kind = Kind::Computes;
  ElementType type = ElementType::F16;
  cost::CommandWork work;
  runtime::CollectiveKind collective = runtime::CollectiveKind::AllReduce;
  std::vector<GroupDim> group;
  uint64_t bytes = 0; // sent, of a collective or message
  int64_t count = 1;  // commands like this one, one after the other
};
using Commands = std::vector<Command>;

/// A list by its number, so many times.
struct Part {
  size_t list = 0;
  int64_t times = 1;
};
/// Stages of a pipeline that are alike.
struct Stages {
  int64_t count = 1;
  /// What a stage runs for each microbatch, and at the end of the step.
  std::vector<Part> forward, backward, end;
};

struct Row {
  std::vector<Commands> lists;
  std::vector<std::string> names; // of the lists
  int64_t microbatches = 1;
  std::vector<Stages> stages; // in the order of the pipeline
  /// The collective that starts when a list of the last backward has run, by
  /// the list's number. The end of the step waits for all.
  std::map<size_t, Command> starts;
};

/// Reads {"rows": [..]}; tools/bench/cost_tables.py says what a row has.
Result<std::vector<Row>> readRows(const std::string &text);

/// Asks the functions by which the compiler plans.
class Clock {
public:
  explicit Clock(const MachineFile &file);

  /// Picoseconds of a command.
  double timeOf(const Command &command) const;
  /// Picoseconds of lists that a host issues one after the other.
  double timeOf(const std::vector<Part> &parts, const Row &row) const;
  /// Picoseconds of a step: one forward and one backward in turn (1F1B).
  double timeOf(const Row &row) const;

private:
  int64_t backwardWithStarts(const Stages &stage, const Row &row) const;

  std::map<ElementType, double> flops;
  double bytesPerSecond;
  cost::Reach reach;
};

} // namespace polyrank::bench
