// The pauses between restarts, and the reasons to give up.

#include "runtime/launch/Restarts.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime {
namespace {

// The number of attempts in a row without progress after which restarting ends,
// whatever ended them.
constexpr uint32_t mostInARow = 3;

} // namespace

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
  withoutStep = attempt.steps == 0 ? withoutStep + 1 : 0;
  inSameStep = before == attempt.lastStep ? inSameStep + 1 : 1;
  before = attempt.lastStep;
  bool isOwn = attempt.inStep && !attempt.fromOutside;
  if ((isOwn && brokenAfter == attempt.lastStep) ||
      (inSameStep == mostInARow && attempt.steps > 0))
    return giveUp(fmt::format("it failed in the same place before, after step "
                              "{}, so it is not started once more",
                              attempt.lastStep));
  if (withoutStep == mostInARow)
    return giveUp(fmt::format("{} attempts in a row have come no step further, "
                              "so it is not started once more",
                              mostInARow));
  if (isOwn)
    brokenAfter = attempt.lastStep;
  constexpr uint32_t longest = 60;
  uint32_t pause = used < 6 ? uint32_t(1) << used : longest;
  ++used;
  return std::chrono::seconds(std::min(pause, longest));
}

} // namespace polyrank::runtime
