// What ranks say to each other, and whether it agrees and ends.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace polyrank::lowering {

/// Ranks in an order that counts. Members of a group share one list, so that a
/// mesh of many ranks needs no list for each, and one look tells equal groups.
class CommunicationGroup {
public:
  CommunicationGroup(std::vector<int64_t> ranks = {})
      : ranks(std::make_shared<const std::vector<int64_t>>(std::move(ranks))) {}

  CommunicationGroup(std::initializer_list<int64_t> ranks)
      : CommunicationGroup(std::vector<int64_t>(ranks)) {}

  auto begin() const { return ranks->begin(); }
  auto end() const { return ranks->end(); }
  size_t size() const { return ranks->size(); }
  const std::vector<int64_t> &list() const { return *ranks; }
  operator const std::vector<int64_t> &() const { return *ranks; }
  bool operator==(const CommunicationGroup &other) const {
    return ranks == other.ranks || *ranks == *other.ranks;
  }

private:
  std::shared_ptr<const std::vector<int64_t>> ranks;
};

/// One collective as one rank runs it.
struct Communication {
  uint64_t id = 0;
  /// Everything else on which members must agree but sizes and group, as text:
  /// `all_reduce sum`.
  std::string kind;
  std::vector<int64_t> bytes;
  /// All members, in the group's order.
  CommunicationGroup group;
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
