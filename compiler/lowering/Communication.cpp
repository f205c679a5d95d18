// What ranks say to each other, and whether it agrees and ends.

#include "compiler/lowering/Communication.h"

#include <algorithm>
#include <map>

using namespace polyrank::lowering;

static std::string describe(int64_t rank, const Communication &communication) {
  std::string text = "rank " + std::to_string(rank) + " runs " +
                     communication.command + " (" + communication.kind +
                     ", id " + std::to_string(communication.id) + ", bytes";
  for (int64_t bytes : communication.bytes)
    text += " " + std::to_string(bytes);
  text += ", group";
  for (int64_t member : communication.group)
    text += " " + std::to_string(member);
  return text + ")";
}

std::optional<std::string>
polyrank::lowering::findCommunicationError(const RankSequences &ranks) {
  int64_t numRanks = ranks.size();
  std::vector<size_t> next(numRanks, 0);
  auto current = [&](int64_t rank) -> const Communication * {
    return next[rank] < ranks[rank].size() ? &ranks[rank][next[rank]] : nullptr;
  };
  std::map<const std::vector<int64_t> *, std::vector<int64_t>> sorted;
  for (int64_t rank = 0; rank < numRanks; ++rank)
    for (const Communication &communication : ranks[rank]) {
      std::vector<int64_t> &members = sorted[&communication.group.list()];
      if (members.empty()) {
        members = communication.group.list();
        std::sort(members.begin(), members.end());
        if (std::adjacent_find(members.begin(), members.end()) != members.end())
          members = {-1}; // no group
      }
      bool valid = std::binary_search(members.begin(), members.end(), rank) &&
                   members.front() >= 0 && members.back() < numRanks;
      if (!valid)
        return describe(rank, communication) +
               ", which is no group of different ranks with itself in it";
    }

  // Ranks whose turn it may be: a communication ends when all members are at it.
  std::vector<int64_t> ready(numRanks);
  for (int64_t rank = 0; rank < numRanks; ++rank)
    ready[rank] = rank;
  while (!ready.empty()) {
    int64_t rank = ready.back();
    ready.pop_back();
    const Communication *mine = current(rank);
    if (!mine)
      continue;
    bool complete = true;
    for (int64_t member : mine->group) {
      const Communication *theirs = current(member);
      // A member that is elsewhere may still come; one that waits in this very
      // group must agree.
      if (!theirs || theirs->group != mine->group) {
        complete = false;
        continue;
      }
      if (theirs->id != mine->id || theirs->kind != mine->kind ||
          theirs->bytes != mine->bytes)
        return describe(rank, *mine) + " while " + describe(member, *theirs);
    }
    if (!complete)
      continue;
    for (int64_t member : mine->group)
      ++next[member];
    ready.insert(ready.end(), mine->group.begin(), mine->group.end());
  }
  std::string waiting;
  for (int64_t rank = 0; rank < numRanks; ++rank)
    if (const Communication *mine = current(rank))
      waiting += (waiting.empty() ? "" : "; ") + describe(rank, *mine);
  if (waiting.empty())
    return std::nullopt;
  return "waits without end: " + waiting;
}
