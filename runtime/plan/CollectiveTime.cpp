// The waits of collectives.

#include "runtime/plan/CollectiveTime.h"

#include <bit>

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

} // namespace polyrank::runtime
