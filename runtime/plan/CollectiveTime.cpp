// The waits of collectives.

#include "runtime/plan/CollectiveTime.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace polyrank::runtime {

int64_t countWaits(CollectiveKind kind, int64_t members) {
  if (members <= 1)
    return 0;
  switch (kind) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather:
  case CollectiveKind::Broadcast:
    return ruleOf(kind).rounds *
           std::bit_width(static_cast<uint64_t>(members - 1));
  case CollectiveKind::AllToAll:
  case CollectiveKind::Permute:
  case CollectiveKind::Halo:
  case CollectiveKind::HaloAdd:
    break;
  }
  return 1;
}

double exactCollectiveTime(CollectiveKind kind, int64_t members,
                           uint64_t sentBytes, const LinkTime &link) {
  if (members <= 1)
    return 0;
  return static_cast<double>(countWaits(kind, members)) * link.latency +
         static_cast<double>(sentBytes) * link.perByte;
}

int64_t collectiveTime(CollectiveKind kind, int64_t members, uint64_t sentBytes,
                       const LinkTime &link) {
  return wholePicoseconds(exactCollectiveTime(kind, members, sentBytes, link));
}

namespace {

/// True for a kind whose members send parts of a whole in rounds, of which each
/// needs the one before.
bool hasRounds(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce ||
         kind == CollectiveKind::ReduceScatter ||
         kind == CollectiveKind::AllGather || kind == CollectiveKind::Broadcast;
}

/// The time of a collective with rounds over `bytes` bytes, the larger of what
/// a member has before and after, if all members are linked alike.
double levelTime(CollectiveKind kind, int64_t members, double bytes,
                 const LinkLevel &level) {
  if (members <= 1)
    return 0;
  auto group = static_cast<double>(members);
  double rounds = ruleOf(kind).rounds, perByte = level.timePerByte(bytes),
         latency = level.link.latency,
         waits = static_cast<double>(countWaits(kind, members)),
         parts = rounds * bytes * ((group - 1) / group) * perByte;
  double best = HUGE_VAL;
  for (CollectiveAlgorithm algorithm : level.algorithms) {
    double time = HUGE_VAL;
    switch (algorithm) {
    case CollectiveAlgorithm::Halving:
      time = waits * latency + parts;
      break;
    case CollectiveAlgorithm::Ring:
      time = rounds * (group - 1) * latency + parts;
      break;
    case CollectiveAlgorithm::Tree:
      if (kind == CollectiveKind::AllReduce ||
          kind == CollectiveKind::Broadcast)
        time = waits * latency + rounds * bytes * perByte;
      break;
    }
    best = std::min(best, time);
  }
  // A tree alone does not scatter; the halving does.
  return best < HUGE_VAL ? best : waits * latency + parts;
}

/// The same within nodes and between them, one after the other.
double hierarchicalTime(CollectiveKind kind, const GroupPlaces &places,
                        double bytes, const LinkLevels &levels) {
  auto within = [&](CollectiveKind part) {
    return levelTime(part, places.inNode, bytes, levels.node);
  };
  bool scatters = kind != CollectiveKind::Broadcast;
  double between =
      levelTime(kind, places.nodes,
                scatters ? bytes / static_cast<double>(places.inNode) : bytes,
                *levels.network);
  if (kind == CollectiveKind::AllReduce)
    return within(CollectiveKind::ReduceScatter) + between +
           within(CollectiveKind::AllGather);
  return within(kind) + between;
}

} // namespace

double exactCollectiveTime(CollectiveKind kind, const GroupPlaces &places,
                           uint64_t sentBytes, const LinkLevels &levels) {
  int64_t members = places.inNode * places.nodes;
  if (members <= 1)
    return 0;
  const LinkLevel &outer =
      places.nodes > 1 && levels.network ? *levels.network : levels.node;
  auto sent = static_cast<double>(sentBytes);
  if (!hasRounds(kind))
    return outer.link.latency + sent * outer.timePerByte(sent);
  double bytes = sent / ruleOf(kind).rounds * static_cast<double>(members) /
                 static_cast<double>(members - 1);
  double time = levelTime(kind, members, bytes, outer);
  if (places.nodes > 1 && levels.network && levels.isHierarchical)
    time = std::min(time, hierarchicalTime(kind, places, bytes, levels));
  return time;
}

} // namespace polyrank::runtime
