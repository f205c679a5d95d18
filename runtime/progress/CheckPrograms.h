// Checks that the programs of all ranks agree and terminate.
//
// A movement happens when all members of its group have started it and it is
// first in the queue of each. So the progress of a rank depends on what others
// have started, never on how fast they are: each rank reaches one furthest
// point, in whatever order the ranks run.
//
// Ranks whose coordinates differ only along axes on which no program depends
// and along which no group picks members reach the same point: shifting all
// ranks along such an axis maps programs to equal programs and groups to
// groups. So of all these ranks it is enough to run the one whose coordinates
// along such axes are 0, and to let the members of a group that are run stand
// for the whole group. If all ranks run one program, a single rank is run,
// however many there are.

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

/// An error in the programs.
struct Fault {
  /// One command at which a rank waits, or that its program lacks.
  struct Step {
    int64_t rank = 0;
    int32_t program = 0;
    /// The index in the program; the program's size if it ends too early.
    size_t command = 0;
    std::string text;
  };
  std::string what;
  /// The shortest counterexample: if ranks wait for each other in a circle, no
  /// smaller circle exists.
  std::vector<Step> steps;

  std::string toString() const;
};

struct Verdict {
  std::optional<Fault> fault;
  /// Without a fault: an order of all events of the ranks that were run,
  /// consistent with the order of every queue.
  std::vector<Event> order;
  int64_t classes = 0; // ranks that were run
};

/// Runs the programs, in time proportional to the number of commands of the
/// ranks that represent the classes, and of their group members among these.
Verdict checkPrograms(const RankPrograms &ranks);

} // namespace polyrank::progress
