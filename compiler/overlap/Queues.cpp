// Assigns queues to commands.

#include "compiler/overlap/Queues.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::overlap;

static runtime::AxisDigits getDigits(rank::AxesAttr axes) {
  runtime::AxisDigits digits;
  for (sharding::AxisRef ref : axes.getAxes())
    digits.push_back({ref.axis, ref.pre, ref.size});
  return digits;
}

uint32_t Queues::get(Operation *op) {
  if (auto collective = dyn_cast<rank::CollectiveOp>(op))
    return numbers.ofGroup(getDigits(collective.getAxes()));
  if (auto send = dyn_cast<rank::SendOp>(op))
    return numbers.ofLink(getDigits(send.getAxes()), send.getFrom(),
                          send.getTo());
  if (auto receive = dyn_cast<rank::RecvOp>(op))
    return numbers.ofLink(getDigits(receive.getAxes()), receive.getFrom(),
                          receive.getTo());
  return runtime::computeQueue;
}
