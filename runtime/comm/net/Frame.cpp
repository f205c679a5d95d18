// Writes and reads headers.

#include "runtime/comm/net/Frame.h"

#include "runtime/job/net/Wire.h"

#include <cstring>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace polyrank::runtime::net {
namespace {

/// The fields of a header before its own checksum, in the order of the bytes.
/// `kind` is the number of the frame's kind, and `unused` is 0.
template <class Archive, class Header, class Kind, class Byte>
void fields(Archive &archive, Header &frame, Kind &kind, Byte &unused) {
  archive.integer(frame.incarnation);
  archive.integer(frame.group);
  archive.integer(frame.operation);
  archive.integer(frame.sequence);
  archive.integer(frame.bytes);
  archive.integer(frame.piece);
  archive.integer(frame.unit);
  archive.integer(kind);
  archive.integer(frame.stage);
  archive.integer(frame.collective);
  archive.integer(frame.dtype);
  archive.integer(frame.reduction);
  archive.integer(unused);
  archive.integer(frame.checksum);
}

Error damaged(const std::string &what) {
  return Error{what, Error::Fault::Rank};
}

constexpr size_t sumAt = Frame::size - sizeof(uint64_t);

} // namespace

const char *nameOf(FrameKind kind) {
  static constexpr const char *names[] = {
      "group",    "start", "channel", "value",  "sent",
      "received", "wait",  "leave",   "bye",    "abort",
      "address",  "copy",  "partial", "result", "border"};
  return names[static_cast<size_t>(kind)];
}

bool isData(FrameKind kind) {
  return kind == FrameKind::Value || kind >= FrameKind::Copy;
}

uint64_t checksumOf(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

static uint64_t payloadSum(FrameKind kind, std::span<const std::byte> bytes,
                           bool checksData) {
  return checksData || !isData(kind) ? checksumOf(bytes) : 0;
}

Frame sealed(Frame frame, uint64_t incarnation, uint32_t sequence,
             std::span<const std::byte> payload, bool checksData) {
  frame.incarnation = incarnation;
  frame.sequence = sequence;
  frame.bytes = static_cast<uint32_t>(payload.size());
  frame.checksum = payloadSum(frame.kind, payload, checksData);
  return frame;
}

Result<void> checkPayload(const Frame &frame, const std::byte *payload,
                          bool checksData) {
  if (payloadSum(frame.kind, {payload, frame.bytes}, checksData) !=
      frame.checksum)
    return Error{describe(frame) + " has changed on its way",
                 Error::Fault::Rank};
  return {};
}

std::array<std::byte, Frame::size> encode(const Frame &frame) {
  WireWriter writer;
  const uint16_t kind = static_cast<uint16_t>(frame.kind);
  const uint8_t unused = 0;
  fields(writer, frame, kind, unused);
  writer.integer(
      checksumOf(std::as_bytes(std::span<const uint8_t>(writer.bytes))));
  std::array<std::byte, Frame::size> bytes;
  static_assert(sumAt == 56);
  std::memcpy(bytes.data(), writer.bytes.data(), bytes.size());
  return bytes;
}

Result<Frame> decode(std::span<const std::byte, Frame::size> bytes,
                     uint64_t incarnation, uint32_t sequence) {
  WireReader reader(
      {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  Frame frame;
  uint16_t kind = 0;
  uint8_t unused = 0;
  uint64_t sum = 0;
  fields(reader, frame, kind, unused);
  reader.integer(sum);
  if (sum != checksumOf(bytes.first(sumAt)))
    return damaged("a header has changed on its way");
  if (frame.incarnation != incarnation)
    return damaged("a message is of another start of the job");
  if (frame.sequence != sequence)
    return damaged("message " + std::to_string(frame.sequence) +
                   " came instead of message " + std::to_string(sequence));
  if (kind > static_cast<uint16_t>(lastFrameKind) || unused != 0)
    return damaged("a message is of the unknown kind " + std::to_string(kind));
  if (frame.bytes > mostFrameBytes)
    return damaged("a message says that " + std::to_string(frame.bytes) +
                   " bytes follow");
  frame.kind = static_cast<FrameKind>(kind);
  return frame;
}

std::string describe(const Frame &frame) {
  return std::string(nameOf(frame.kind)) + " " + std::to_string(frame.piece) +
         " of part " + std::to_string(frame.unit) + " (stage " +
         std::to_string(frame.stage) + ") of operation " +
         std::to_string(frame.operation) + ", of " +
         std::to_string(frame.bytes) + " bytes";
}

} // namespace polyrank::runtime::net
