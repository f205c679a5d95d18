// Where the first machine of a job is: a host and a port.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace polyrank::runtime {

struct Endpoint {
  std::string host;  // a name or an address, IPv6 without brackets
  uint16_t port = 0; // 0: not given

  bool operator==(const Endpoint &) const = default;
  /// "a:31234", "[fd00::1]:31234".
  std::string text() const;
};

/// Parses HOST[:PORT]. An address of IPv6 that is followed by a port stands in
/// brackets: "[fd00::1]:31234"; without a port it may stand alone.
Result<Endpoint> parseEndpoint(std::string_view text);

/// The port of a job where none is given: it is the same on all machines, since
/// all know the id of the job, and other jobs mostly have another.
/// 20000 <= port < 40000. An empty id is that of a job that nobody has named.
uint16_t portOf(std::string_view job);

/// True for 'localhost', 127.0.0.0/8 and ::1: whoever gives such a host says
/// that all machines of the job are this one.
bool isLoopback(std::string_view host);

} // namespace polyrank::runtime
