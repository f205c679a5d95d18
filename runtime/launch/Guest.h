// A guest: a process that asks to be a rank, and that its launcher has not
// started.

#pragma once

#include "runtime/launch/RankProcess.h"

#include <string>

namespace polyrank::runtime {

/// What a guest was admitted with. It owns the open files.
struct Admission {
  RankStart start;
  int reports = -1;
};

/// Asks the launcher behind the door of this name to be this rank. Waits for
/// the answer. Fails with the launcher's reason if it refuses.
Result<Admission> comeAsGuest(const std::string &door, int rank);

/// Makes this process the rank, as if the launcher had started it: runs this
/// program again with the launcher's arguments. Returns only if that fails.
Error becomeRank(const Admission &admission);

} // namespace polyrank::runtime
