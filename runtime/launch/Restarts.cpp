// Pauses, and the ends of a job that fails again and again.

#include "runtime/launch/Restarts.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime {

Result<std::chrono::seconds> Restarts::after(const Error &error,
                                             const Attempt &attempt) {
  auto giveUp = [&](const std::string &why) {
    return Error{error.message + "; " + why, error.fault};
  };
  if (error.fault != Error::Fault::Rank && error.fault != Error::Fault::Hang)
    return error;
  if (used == most)
    return most == 0 ? error
                     : giveUp(fmt::format("it was started again {} time{} "
                                          "(--restarts), and fails still",
                                          most, most == 1 ? "" : "s"));
  if (before && attempt.steps == 0)
    return giveUp("it was started again and came no step further, so it is not "
                  "started once more");
  if (before && attempt.lastStep == before->lastStep)
    return giveUp(fmt::format("it failed in the same place before, after step "
                              "{}, so it is not started once more",
                              attempt.lastStep));
  before = attempt;
  constexpr uint32_t longest = 60;
  uint32_t pause = used < 6 ? uint32_t(1) << used : longest;
  ++used;
  return std::chrono::seconds(std::min(pause, longest));
}

} // namespace polyrank::runtime
