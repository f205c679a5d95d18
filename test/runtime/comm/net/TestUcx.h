// UCX for tests.

#pragma once

#include "runtime/comm/net/Ucx.h"

#include <cstdlib>
#include <string>

namespace polyrank::runtime::net::test {

/// The reason why nothing can be tested over UCX here; empty if it can. It goes
/// over TCP, as between machines without other networks.
inline std::string whyNoUcx() {
  setenv("UCX_TLS", "tcp", 0);
  Result<void> loaded = loadUcx();
  return loaded ? "" : loaded.error().message;
}

} // namespace polyrank::runtime::net::test
