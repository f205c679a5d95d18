// Messages on an authenticated connection: each has a counter and a MAC.

#pragma once

#include "runtime/job/net/JobKey.h"
#include "runtime/job/net/Messages.h"

#include <cstdint>
#include <span>
#include <vector>

namespace polyrank::runtime::net {

/// The header of a message. The body and the MAC of both follow.
struct FrameHeader {
  static constexpr size_t size = 24;

  uint32_t bodyBytes = 0;
  uint16_t kind = 0;
  uint64_t incarnation = 0;
  uint64_t counter = 0; // of this direction, from 0
};

/// One end of a connection. Both directions have keys of their own, so that a
/// message cannot be sent back to whoever wrote it.
class SealedStream {
public:
  SealedStream(const JobKey &sending, const JobKey &receiving,
               uint64_t incarnation)
      : sending(sending), receiving(receiving), current(incarnation) {}

  /// The bytes of a message, to be sent in the order of the calls.
  std::vector<uint8_t> seal(const Message &message);

  /// Adds bytes that have come, and appends the messages that are complete to
  /// `into`. Messages of another incarnation are dropped. An error means that
  /// the connection is to be closed: the bytes are not those that the other end
  /// sent, in its order, or are none of its messages.
  Result<void> receive(std::span<const uint8_t> bytes,
                       std::vector<Message> &into);

  /// Messages of any other incarnation are dropped from now on, and what is
  /// sealed is of this one. An AgainMessage that is sealed or comes sets the
  /// one that it names.
  void setIncarnation(uint64_t now) { current = now; }
  uint64_t incarnation() const { return current; }

private:
  Result<void> take(std::span<const uint8_t> frame, const FrameHeader &header,
                    std::vector<Message> &into);

  JobKey sending, receiving;
  uint64_t current; // incarnation
  uint64_t sent = 0, received = 0;
  std::vector<uint8_t> rest; // an incomplete message
};

} // namespace polyrank::runtime::net
