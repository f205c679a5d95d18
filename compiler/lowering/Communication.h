// What ranks say to each other, and whether it agrees and ends.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::lowering {

/// One collective as one rank runs it.
struct Communication {
  uint64_t id = 0;
  /// Everything else on which members must agree but sizes and group, as text:
  /// `all_reduce sum`.
  std::string kind;
  std::vector<int64_t> bytes;
  /// All members, in the group's order.
  std::vector<int64_t> group;
  /// The command, for messages.
  std::string command;
};

/// What each rank runs, in order.
using RankSequences = std::vector<std::vector<Communication>>;

/// Runs the product of all ranks: a rank does one communication at a time and
/// waits in it for all members of its group. Returns what is wrong (a mismatch
/// of two members, or a cycle of waits), naming commands and ranks, or nothing.
std::optional<std::string> findCommunicationError(const RankSequences &ranks);

} // namespace polyrank::lowering
