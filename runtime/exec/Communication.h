// The commands of a program that go to a communicator.

#pragma once

#include "runtime/device/Device.h"
#include "runtime/exec/IssuedOperation.h"

#include <memory>

namespace polyrank::runtime {

/// Prepares a collective of a program. Fails unless the communicator can run it
/// in all microbatches.
Result<std::unique_ptr<CollectiveOperation>>
prepareCollective(const plan::Collective &source, Group group,
                  uint32_t microbatches, const ArenaView &arena,
                  Communicator &communicator);

/// Prepares the wait for a collective, which it refers to.
std::unique_ptr<IssuedOperation> prepareWait(CollectiveOperation &collective);

/// Prepares a send to the rank `peer`, or a receive from it.
/// @{
std::unique_ptr<TransferOperation> prepareSend(const plan::Send &source,
                                               ChannelEnd end, int32_t peer,
                                               const ArenaView &arena,
                                               Communicator &communicator);
std::unique_ptr<TransferOperation> prepareReceive(const plan::Receive &source,
                                                  ChannelEnd end, int32_t peer,
                                                  const ArenaView &arena,
                                                  Communicator &communicator);
/// @}

/// The channel of a send or a receive, whose members are `group`.
/// @{
Channel channelOf(const plan::Send &source, Group group);
Channel channelOf(const plan::Receive &source, Group group);
/// @}

} // namespace polyrank::runtime
