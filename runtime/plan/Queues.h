// The queues on which the commands of a program run.
//
// A queue runs one command after another, in the order of the program. Commands
// of different queues are ordered only where one waits for the other: a command
// that computes comes after everything before it but the collectives in flight,
// and a collective in flight comes before its wait. The compiler plans by these
// queues (QueueClock.h) and writes the number of each command's queue into the
// plan, which devices and communicators obey.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace polyrank::runtime {

/// The numbers of a rank's queues. Copies to the device and from it are no
/// commands of a plan: inputs, and what the host reads.
/// @{
inline constexpr uint32_t computeQueue = 0, copyInQueue = 1, copyOutQueue = 2;
/// The first of the queues for communication.
inline constexpr uint32_t firstCommunicationQueue = 3;
/// @}

/// Sub-axes as {axis, pre, size}, major to minor (plan.AxisRef).
using AxisDigits = std::vector<std::array<int64_t, 3>>;

/// Returns the shortest list that gives each rank the same index: without
/// sub-axes of size 1, and with neighbours joined that are one sub-axis. Lists
/// that describe the same groups of ranks, in the same order, become equal.
inline AxisDigits shortestOf(const AxisDigits &digits) {
  AxisDigits result;
  for (const auto &[axis, pre, size] : digits) {
    if (size == 1)
      continue;
    if (!result.empty() && result.back()[0] == axis &&
        result.back()[1] * result.back()[2] == pre)
      result.back()[2] *= size;
    else
      result.push_back({axis, pre, size});
  }
  return result;
}

/// Numbers the communication queues of one program, in the order in which they
/// are asked for: one for the collectives of each group of ranks, and one for
/// each direction between two members of a group.
class QueueNumbers {
public:
  uint32_t ofGroup(const AxisDigits &group) { return of({group, -1, -1}); }
  uint32_t ofLink(const AxisDigits &group, int64_t from, int64_t to) {
    return of({group, from, to});
  }
  /// The number of communication queues so far.
  uint32_t count() const { return static_cast<uint32_t>(numbers.size()); }

private:
  using Key = std::tuple<AxisDigits, int64_t, int64_t>;

  uint32_t of(Key key) {
    std::get<0>(key) = shortestOf(std::get<0>(key));
    uint32_t next = firstCommunicationQueue + count();
    return numbers.emplace(std::move(key), next).first->second;
  }

  std::map<Key, uint32_t> numbers;
};

} // namespace polyrank::runtime
