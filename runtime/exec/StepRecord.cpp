// Sums of the times of commands.

#include "runtime/exec/StepRecord.h"

namespace polyrank::runtime {

uint64_t CommandTimes::total() const {
  uint64_t sum = 0;
  for (uint64_t time : nanoseconds)
    sum += time;
  return sum;
}

uint64_t CommandTimes::communication() const {
  return nanoseconds[int(plan::CommandBody::Collective)] +
         nanoseconds[int(plan::CommandBody::Wait)] +
         nanoseconds[int(plan::CommandBody::Send)] +
         nanoseconds[int(plan::CommandBody::Receive)];
}

double CommandTimes::communicationShare() const {
  uint64_t sum = total();
  return sum ? double(communication()) / double(sum) : 0;
}

CommandTimes &CommandTimes::operator+=(const CommandTimes &other) {
  for (int kind = 0; kind < numCommandKinds; ++kind) {
    nanoseconds[kind] += other.nanoseconds[kind];
    counts[kind] += other.counts[kind];
  }
  return *this;
}

} // namespace polyrank::runtime
