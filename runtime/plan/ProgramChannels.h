// The channels through which a program sends, and the memory that they take.

#pragma once

#include "runtime/plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace polyrank::runtime {

/// A channel in which the ranks of a program send; several commands may send
/// through it.
struct ProgramChannel {
  const plan::Command *command; // the first one
  uint64_t bytes;               // of all slots
};

/// The channels of a program, in the order of their first commands. A value's
/// id, the group and the receiver make a channel.
std::vector<ProgramChannel> channelsOf(const plan::Program &program);

/// The memory that the communicator of each rank takes for them, in bytes;
/// nothing if that is more than 64 bits can count.
std::optional<uint64_t> channelBytesOf(const plan::Program &program);

} // namespace polyrank::runtime
