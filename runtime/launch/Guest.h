// A guest: a process that asks to be a rank, and that its launcher has not
// started.

#pragma once

#include "runtime/launch/RankProcess.h"

#include <chrono>
#include <functional>
#include <string>

namespace polyrank::runtime {

/// What a process knows that asks to be a rank.
struct GuestRequest {
  /// The name of the run (GuestDoor::name), and the rank.
  std::string job;
  int rank = -1;
  /// The SHA-256 of the plan that this process has been given: the launcher
  /// refuses it if its own plan is another. Empty: any plan is right.
  std::string planHash = {};
  /// How long to wait for a run of this name to begin. A launcher that is there
  /// may take longer: it checks its input before it lets ranks in.
  std::chrono::milliseconds patience{};
  /// Called once if there is no run of this name yet.
  std::function<void()> onWait = {};
};

/// What a guest was admitted with. It owns the open files.
struct Admission {
  int rank = -1;
  RankStart start;
  int reports = -1;
};

/// Asks a launcher on this machine to be a rank of its run. Waits for the
/// answer. Fails with the launcher's reason and exit status if it refuses.
Result<Admission> comeAsGuest(const GuestRequest &request);

/// Makes this process the rank, as if the launcher had started it: runs this
/// program again with the launcher's arguments, in the launcher's folder.
/// Returns only if that fails, with the exit status, after the launcher was
/// told why.
int becomeRank(const Admission &admission);

} // namespace polyrank::runtime
