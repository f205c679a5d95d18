// The header of everything that goes over a connection between two ranks.

#pragma once

#include "support/Result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace polyrank::runtime::net {

enum class FrameKind : uint16_t {
  Group,    // the ranks of a group, whose key the later frames name
  Start,    // the sender has started an operation
  Channel,  // the sender has opened a channel
  Value,    // a piece of a value, for the channel's next slot
  Sent,     // all of it was sent
  Received, // the slot is free again
  Wait,     // what the sender waits for
  Leave,    // the sender leaves: nothing of it follows
  Bye,      // the answer to that
  Abort,    // the sender's job is over; why
  Address,  // where the sender is reached by another wire than this one
  // From here on: data of a collective.
  Copy,    // a piece of what the receiver copies from the sender
  Partial, // a piece of a sum over the first members of the group
  Result,  // a piece of a sum over all members
  Border,  // a piece of what the receiver adds to its borders
};
inline constexpr FrameKind lastFrameKind = FrameKind::Border;
const char *nameOf(FrameKind kind);
/// True if what follows is data of the ranks, and no message about it.
bool isData(FrameKind kind);

/// The most bytes that follow a header.
inline constexpr uint32_t mostFrameBytes = 1 << 20;

struct Frame {
  static constexpr size_t size = 64, sequenceAt = 24; // in its bytes

  uint64_t incarnation = 0;
  uint64_t group = 0;     // key of the group, or id of the channel's value
  uint64_t operation = 0; // number in the group, or value in the channel
  uint32_t sequence = 0;  // of the frames of one direction, from 0
  uint32_t bytes = 0;     // that follow
  uint32_t piece = 0;
  uint32_t unit = 0; // a part of the work that has pieces of its own
  FrameKind kind = FrameKind::Bye;
  uint16_t stage = 0;     // how far along the machines
  uint8_t collective = 0; // CollectiveKind
  uint8_t dtype = 0;      // ElementType
  uint8_t reduction = 0;  // Reduction
  uint64_t checksum = 0;  // XXH3 of what follows, or 0 if that has none

  bool operator==(const Frame &) const = default;
};

/// The bytes of a header: little-endian fields, and an XXH3 of them.
std::array<std::byte, Frame::size> encode(const Frame &frame);
/// Reads a header. Fails if a byte of it has changed on its way, if it is of
/// another incarnation than this one, is not the next one in the sequence, or
/// is none of a known kind and length.
Result<Frame> decode(std::span<const std::byte, Frame::size> bytes,
                     uint64_t incarnation, uint32_t sequence);

/// XXH3, 64 bits.
uint64_t checksumOf(std::span<const std::byte> bytes);
/// The frame with all that its sender fills in: the incarnation, its number in
/// the sequence, and the length and checksum of its payload. Data has no
/// checksum without `checksData` (--wire-check off).
Frame sealed(Frame frame, uint64_t incarnation, uint32_t sequence,
             std::span<const std::byte> payload, bool checksData);
/// Fails, naming the frame, if this is not the payload that it was sealed with.
Result<void> checkPayload(const Frame &frame, const std::byte *payload,
                          bool checksData);

/// "partial 3 of part 1 (stage 2) of operation 17", for messages.
std::string describe(const Frame &frame);

} // namespace polyrank::runtime::net
