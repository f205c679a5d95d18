// Who may knock at an open port: bounds on what has not been authenticated.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

/// Knows the connections that have not proved yet that they have the key. It
/// opens and closes none itself, and has no clock.
class Door {
public:
  using Time = std::chrono::nanoseconds;
  using Caller = uint32_t;

  static constexpr size_t mostCallers = 64;
  static constexpr Time patience = std::chrono::seconds(5);
  /// While 64 are there, one that has had this long makes room for the next
  /// one: whoever has the key needs two round trips.
  static constexpr Time leastTime = std::chrono::milliseconds(500);
  /// The log has at most one line for an address in this time, and lines for at
  /// most so many addresses.
  static constexpr Time quiet = std::chrono::minutes(1);
  static constexpr size_t mostAddresses = 256;

  /// True if a connection that waits may be let in; false until somebody has
  /// left.
  bool hasRoom() const { return callers.size() < mostCallers; }
  void cameIn(Caller caller, Time now);
  /// The caller has proved who it is, or is gone.
  void left(Caller caller);

  /// The callers whose time is over. With `othersWait` also those that make
  /// room. They have left.
  std::vector<Caller> dismiss(bool othersWait, Time now);
  /// When `dismiss` may find something next; nothing while nobody is there.
  std::optional<Time> nextTime(bool othersWait) const;

  /// True if a line about this address may be logged now.
  bool mayLog(const std::string &address, Time now);

  size_t size() const { return callers.size(); }

private:
  struct Waiting {
    Caller caller;
    Time since;
  };
  std::deque<Waiting> callers; // the oldest first
  std::map<std::string, Time> logged;
};

} // namespace polyrank::runtime::net
