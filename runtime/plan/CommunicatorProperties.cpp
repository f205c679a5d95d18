// Which collectives a communicator lacks.

#include "runtime/plan/CommunicatorProperties.h"

namespace polyrank::runtime {
namespace {

/// True if each member's part of the larger buffer is one run of bytes.
bool isContiguous(CollectiveKind kind, const TransferShape &shape,
                  int64_t members) {
  if (kind != CollectiveKind::AllToAll)
    return shape.outer == 1;
  int64_t rows =
      (shape.splitFirst ? shape.x / members : shape.x) * shape.middle;
  return shape.outer * rows == 1;
}

} // namespace

Lack findLack(const CommunicatorProperties &communicator, CollectiveKind kind,
              const TransferShape &shape, int64_t members) {
  if (!communicator.has(kind))
    return Lack::Kind;
  if (!communicator.hasStrides && !isContiguous(kind, shape, members))
    return Lack::Strides;
  return Lack::Nothing;
}

} // namespace polyrank::runtime
