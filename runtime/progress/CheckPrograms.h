// Whether the programs of all ranks agree, and end.
//
// A movement happens when all members of its group have started it and it is
// first in the queue of each. So whether a rank gets on depends on what others
// have started, never on how fast they are: there is one furthest point that
// each rank reaches, in whatever order they run.
//
// Ranks whose coordinates differ only along axes on which no program depends
// and of which no group picks members reach the same point: shifting all ranks
// along such an axis maps programs to equal programs and groups to groups. So
// it is enough to run, of all these, the one whose coordinates along such axes
// are 0, and to let those of its group that are run stand for the whole group.
// That is one rank where all run one program, however many there are.

// The compiler proves its programs with it. The reader of a plan does not
// unroll a step that a stranger's file describes: runtime/plan/VerifyEnd.cpp
// says how it proves the same.

#pragma once

#include "runtime/progress/RankPrograms.h"

#include <optional>

namespace polyrank::progress {

/// A movement that happened: operation `number` of a group.
struct Event {
  int32_t group = 0; // groups are numbered as they first occur
  int64_t number = 0;

  friend auto operator<=>(const Event &, const Event &) = default;
};

/// What is wrong.
struct Fault {
  /// One command at which a rank stands, or that it lacks.
  struct Step {
    int64_t rank = 0;
    int32_t program = 0;
    /// Of the program; its size where the program ends too early.
    size_t command = 0;
    std::string text;
  };
  std::string what;
  /// The shortest counterexample: of ranks that wait for each other, no fewer
  /// do so in a circle.
  std::vector<Step> steps;

  std::string toString() const;
};

struct Verdict {
  std::optional<Fault> fault;
  /// Without a fault: an order of everything that happens, for the ranks that
  /// were run, in which the order of every queue is contained.
  std::vector<Event> order;
  int64_t classes = 0; // ranks that were run
};

/// Runs the programs, in time proportional to the commands of the classes'
/// ranks and their members among these.
Verdict checkPrograms(const RankPrograms &ranks);

} // namespace polyrank::progress
