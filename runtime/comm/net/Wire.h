// What moves bytes between the ranks of different machines: an interface, so
// that there can be others than TCP.

#pragma once

#include "runtime/comm/net/Frame.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace polyrank::runtime::net {

/// What follows a header. The bytes stay as they are until the frame was handed
/// to the system, when `token` is told (WireUser::sent).
struct Payload {
  std::span<const std::byte> bytes;
  std::shared_ptr<const std::vector<std::byte>> owner; // of the bytes, or null
  std::shared_ptr<void> token;
};

/// Whom a wire tells, in the thread that calls it.
class WireUser {
public:
  virtual ~WireUser() = default;
  /// Returns where the frame's payload goes; it is not null if there is one.
  virtual Result<std::byte *> placeOf(int peer, const Frame &frame) = 0;
  /// The frame and its payload are there, unchanged.
  virtual Result<void> arrived(int peer, const Frame &frame) = 0;
  /// The system has taken the frame.
  virtual void sent(const std::shared_ptr<void> &token) = 0;
  /// A peer has proved itself, whose process has this number.
  virtual void connected(int peer, uint32_t process) = 0;
  /// The connection to a peer has ended: it has closed it, or is not reached
  /// any more, as `why` says.
  virtual void gone(int peer, const std::string &why) = 0;
};

/// The connections of a rank to those of other machines. All are made at the
/// beginning. One thread waits and makes progress; others may send and flush
/// meanwhile. No two calls but of `await` are made at the same time.
class Wire {
public:
  virtual ~Wire() = default;

  /// Sends a frame after those before it. Its incarnation, sequence, bytes and
  /// checksum are filled in. Does nothing if the peer is gone.
  virtual void send(int peer, Frame frame, Payload payload) = 0;
  /// The bytes that the system has not taken yet.
  virtual size_t queued(int peer) const = 0;

  /// Hands the system what it takes of the frames that were sent.
  virtual Result<void> flush() = 0;
  /// Waits at most so long until there is something to do, or a bell rings.
  virtual Result<void> await(int milliseconds) = 0;
  /// Takes what has come, without a wait.
  virtual Result<void> look() = 0;
  /// Does what the last `await` has found. Fails if what came is not what a
  /// peer sent.
  virtual Result<void> progress() = 0;
};

} // namespace polyrank::runtime::net
