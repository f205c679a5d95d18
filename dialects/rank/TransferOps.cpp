// Sends and receives: their verifiers.

#include "dialects/rank/Rank.h"
#include "runtime/plan/Channels.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::rank;

static_assert(rank::channelAlignment == runtime::channelAlignment);

int64_t rank::getChannelSlotBytes(int64_t bytes) {
  return static_cast<int64_t>(
      runtime::slotBytesOf(static_cast<uint64_t>(bytes)));
}

int64_t rank::getChannelBytes(int64_t bytes, int64_t slots) {
  return static_cast<int64_t>(runtime::channelBytesOf(
      static_cast<uint64_t>(bytes), static_cast<uint64_t>(slots)));
}

/// Verifies either end; `tensor` is the type of the moved value.
template <typename Op>
static LogicalResult verifyTransfer(Op op, Type tensor) {
  int64_t from = op.getFrom(), to = op.getTo(), slots = op.getSlots(),
          size = op.getAxes().getGroupSize();
  if (from < 0 || from >= size || to < 0 || to >= size || from == to)
    return op.emitOpError("[1] goes from index ")
           << from << " to " << to << " of " << size
           << "; they must be different ones";
  if (slots < 1)
    return op.emitOpError("[2] has ") << slots << " slots";
  BufferAttr channel = op.getChannelAttr();
  int64_t bytes = getChannelBytes(getByteSize(tensor), slots);
  if (channel && (channel.getRegion() != rank::Region::Shared ||
                  static_cast<int64_t>(channel.getSize()) != bytes))
    return op.emitOpError("[3] has the channel ")
           << channel << "; it must be shared, of " << bytes << " bytes";
  return success();
}

LogicalResult SendOp::verify() {
  return verifyTransfer(*this, getInput().getType());
}

LogicalResult RecvOp::verify() {
  return verifyTransfer(*this, getOutput().getType());
}
