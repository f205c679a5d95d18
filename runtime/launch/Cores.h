// Which cores the ranks of a job run on.

#pragma once

#include "support/File.h"

#include <sched.h>
#include <vector>

namespace polyrank::runtime {

enum class Binding {
  Core, // each thread has a core of its own
  Numa, // each rank stays on the cores of one memory node
  None  // wherever the system puts them
};

struct CoreChoice {
  /// Of each rank; empty where none is bound.
  std::vector<cpu_set_t> ranks;
  /// Nobody else needs the cores meanwhile, so that waiting ranks may spin.
  bool alone = false;
  /// Why it is not as was wished for; empty where it is.
  std::string note;
  /// What tells other jobs of this machine which cores are taken, as long as
  /// it is open.
  std::vector<Descriptor> claims;
};

/// Chooses cores that no other job has taken, those first on which nothing
/// runs. Where the ranks need more than this process may use (its affinity, the
/// quota of its control group) or than others have left, nothing is bound and
/// nobody spins; that is an error where `binding` was asked for. Each rank has
/// cores for `threads` that compute and `commThreads` that communicate.
Result<CoreChoice> chooseCores(int ranks, int threads, int commThreads,
                               Binding binding, bool askedFor);

/// "0-3,8": the numbers in it.
std::vector<int> parseCoreList(const std::string &text);

} // namespace polyrank::runtime
