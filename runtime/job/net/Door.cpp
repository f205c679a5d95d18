// The bounds, and how they are kept.

#include "runtime/job/net/Door.h"

#include <algorithm>

namespace polyrank::runtime::net {

void Door::cameIn(Caller caller, Time now) { callers.push_back({caller, now}); }

void Door::left(Caller caller) {
  std::erase_if(callers,
                [&](const Waiting &each) { return each.caller == caller; });
}

std::vector<Door::Caller> Door::dismiss(bool othersWait, Time now) {
  std::vector<Caller> over;
  while (!callers.empty()) {
    Time stayed = now - callers.front().since;
    bool makesRoom = othersWait && !hasRoom() && stayed >= leastTime;
    if (stayed < patience && !makesRoom)
      break;
    over.push_back(callers.front().caller);
    callers.pop_front();
  }
  return over;
}

std::optional<Door::Time> Door::nextTime(bool othersWait) const {
  if (callers.empty())
    return std::nullopt;
  return callers.front().since +
         (othersWait && !hasRoom() ? leastTime : patience);
}

bool Door::mayLog(const std::string &address, Time now) {
  std::erase_if(logged,
                [&](const auto &each) { return now - each.second >= quiet; });
  if (logged.size() >= mostAddresses)
    return false;
  return logged.try_emplace(address, now).second;
}

} // namespace polyrank::runtime::net
