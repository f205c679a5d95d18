// Names of what a transport does, for messages and reports.

#include "runtime/comm/Transport.h"

namespace polyrank::runtime {

const char *nameOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::AllToAll:
    return "all_to_all";
  case CollectiveKind::Permute:
    return "permute";
  case CollectiveKind::Broadcast:
    return "broadcast";
  case CollectiveKind::Halo:
    return "halo";
  case CollectiveKind::HaloAdd:
    return "halo_add";
  }
  return "unknown";
}

const char *nameOf(Reduction reduction) {
  switch (reduction) {
  case Reduction::None:
    return "none";
  case Reduction::Sum:
    return "sum";
  case Reduction::Max:
    return "max";
  case Reduction::Min:
    return "min";
  }
  return "unknown";
}

} // namespace polyrank::runtime
