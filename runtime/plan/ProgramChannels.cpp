// Collects the sends of a program.

#include "runtime/plan/ProgramChannels.h"

#include "runtime/plan/Channels.h"

#include <set>
#include <tuple>

namespace polyrank::runtime {

std::vector<ProgramChannel> channelsOf(const plan::Program &program) {
  std::vector<ProgramChannel> channels;
  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> seen;
  for (const plan::Segment *segment : *program.segments())
    if (segment->commands())
      for (const plan::Command *command : *segment->commands())
        if (const plan::Send *send = command->body_as_Send();
            send && seen.insert({send->id(), send->group(), send->to()}).second)
          channels.push_back(
              {command, channelBytesOf(send->bytes(), send->slots())});
  return channels;
}

std::optional<uint64_t> channelBytesOf(const plan::Program &program) {
  uint64_t sum = 0, bytes = 0;
  for (const ProgramChannel &channel : channelsOf(program)) {
    const plan::Send &send = *channel.command->body_as_Send();
    if (__builtin_mul_overflow(slotBytesOf(send.bytes()), send.slots(),
                               &bytes) ||
        __builtin_add_overflow(sum, bytes, &sum))
      return std::nullopt;
  }
  return sum;
}

} // namespace polyrank::runtime
