// Answers what the programs of a module run on.

#include "compiler/cost/Machine.h"

#include "compiler/cost/ReachAttr.h"
#include "dialects/graph/ElementTypes.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::cost;

FailureOr<Machine> Machine::of(Operation *op) {
  auto target = target::getTarget(op);
  if (failed(target))
    return failure();
  Machine machine(*target, rank::getMachine(op), getReach(op));
  if (machine.reach.launch == 0)
    machine.reach.launch =
        1e12 * target->getRates(machine.getThreads()).launchSeconds;
  return machine;
}

int64_t Machine::getThreads() const {
  return attribute ? attribute.getThreads() : 1;
}

double Machine::getFlopsPerSecond(Type elementType) const {
  auto stated = [&](Type type) {
    rank::RateAttr rate =
        attribute ? attribute.getRate(type) : rank::RateAttr();
    return rate ? rate.getGigaflops().getValueAsDouble() * 1e9 : 0.0;
  };
  if (double own = stated(elementType))
    return own;
  double ofSums = stated(graph::accumulatorOf(elementType));
  return (ofSums != 0 ? ofSums : target.getRates(getThreads()).flopsPerSecond) *
         target.getProductSpeed(elementType);
}

double Machine::getBytesPerSecond() const {
  FloatAttr stated = attribute ? attribute.getBandwidth() : FloatAttr();
  return stated ? stated.getValueAsDouble() * 1e9
                : target.getRates(getThreads()).bytesPerSecond;
}

double Machine::getCommandTime(const CommandWork &work,
                               Type elementType) const {
  // Only FLOPs have a type.
  double rate = work.flops == 0 ? 1 : getFlopsPerSecond(elementType);
  return cost::getCommandTime(work, reach.on(rate, getBytesPerSecond()));
}

LinkTime Machine::getLink(StringRef axis) const {
  return cost::getLink(attribute, axis);
}
