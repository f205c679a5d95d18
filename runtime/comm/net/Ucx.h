// The wire over UCX, for networks whose adapters move bytes by themselves
// (InfiniBand, RoCE, Slingshot). The rest of the runtime sees nothing of UCX
// but this.
//
// A connection of TCP between each two ranks, as the other wire has it, comes
// first: by it both prove themselves, tell each other the addresses of their
// UCX workers, and notice at once when the other one is gone. All frames go
// over UCX, unauthenticated: it is for networks that nobody else can reach.
//
// A build that has not found the headers of UCX has WithoutUcx.cpp instead.

#pragma once

#include "runtime/comm/net/TcpWire.h"
#include "runtime/comm/net/Wire.h"

#include <memory>

namespace polyrank::runtime::net {

/// Loads UCX, unless it is loaded. An error says what was tried and how to do
/// without. It changes the environment: UCX reads there that it is not to
/// handle signals or to print (variables that are set stay), so whoever has
/// threads calls it before they start.
Result<void> loadUcx();

/// Like TcpWire::create.
Result<std::unique_ptr<Wire>> createUcxWire(const TcpOptions &options,
                                            const JobKey &key,
                                            Descriptor listener, int bell,
                                            WireUser &user);

} // namespace polyrank::runtime::net
