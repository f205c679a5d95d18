// The choice of the cores that the ranks of a job run on.

#pragma once

#include "support/File.h"

#include <sched.h>
#include <vector>

namespace polyrank::runtime {

enum class Binding {
  Core, // each thread has a core of its own
  Numa, // each rank stays on the cores of one memory node
  None  // the system chooses
};

struct CoreChoice {
  /// By rank; empty if ranks are not bound.
  std::vector<cpu_set_t> ranks;
  /// The cores are not shared with others, so that waiting ranks may spin.
  bool alone = false;
  /// Why the choice is not the desired one; empty if it is.
  std::string note;
  /// Open files that tell other jobs on this machine which cores are taken.
  std::vector<Descriptor> claims;
};

/// Chooses cores that no other job has taken, idle ones first. If the ranks
/// need more cores than this process may use (its affinity, the quota of its
/// control group) or than other jobs have left, ranks are not bound and do not
/// spin; if `askedFor`, that is an error. Each rank gets cores for `threads`
/// compute threads and `commThreads` communication threads.
Result<CoreChoice> chooseCores(int ranks, int threads, int commThreads,
                               Binding binding, bool askedFor);

/// Returns the numbers in a list such as "0-3,8".
std::vector<int> parseCoreList(const std::string &text);

} // namespace polyrank::runtime
