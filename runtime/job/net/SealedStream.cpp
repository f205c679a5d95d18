// Seals messages, and opens only what was sealed by the other end.

#include "runtime/job/net/SealedStream.h"

#include "runtime/job/net/Wire.h"

#include <algorithm>
#include <fmt/format.h>

namespace polyrank::runtime::net {
namespace {

constexpr size_t macBytes = std::tuple_size_v<Mac>;

FrameHeader readHeader(std::span<const uint8_t> bytes) {
  FrameHeader header;
  uint16_t zero = 0;
  WireReader reader(bytes.first(FrameHeader::size));
  reader.integer(header.bodyBytes);
  reader.integer(header.kind);
  reader.integer(zero);
  reader.integer(header.incarnation);
  reader.integer(header.counter);
  if (zero != 0)
    header.kind = 0;
  return header;
}

Error closing(const std::string &why) { return {why, Error::Fault::Rank}; }

} // namespace

std::vector<uint8_t> SealedStream::seal(const Message &message) {
  std::vector<uint8_t> body = encode(message);
  WireWriter writer;
  writer.bytes.reserve(FrameHeader::size + body.size() + macBytes);
  writer.integer(static_cast<uint32_t>(body.size()));
  writer.integer(static_cast<uint16_t>(message.index() + 1));
  writer.integer(uint16_t(0));
  writer.integer(current);
  writer.integer(sent++);
  writer.raw(body);
  writer.raw(sending.mac({writer.bytes}));
  if (const auto *again = std::get_if<AgainMessage>(&message))
    current = again->incarnation;
  return std::move(writer.bytes);
}

Result<void> SealedStream::receive(std::span<const uint8_t> bytes,
                                   std::vector<Message> &into) {
  rest.insert(rest.end(), bytes.begin(), bytes.end());
  size_t at = 0;
  Result<void> result;
  while (result && rest.size() - at >= FrameHeader::size) {
    std::span<const uint8_t> left = std::span(rest).subspan(at);
    FrameHeader header = readHeader(left);
    // Nobody has vouched for these yet: no memory is kept for them.
    if (header.bodyBytes > MessageBounds::body)
      return closing(fmt::format("a message of {} bytes, and the most is {}",
                                 header.bodyBytes, MessageBounds::body));
    if (header.kind < 1 || header.kind > numKinds)
      return closing("a message of an unknown kind");
    size_t size = FrameHeader::size + header.bodyBytes + macBytes;
    if (left.size() < size)
      break;
    result = take(left.first(size), header, into);
    at += size;
  }
  rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(at));
  if (rest.empty() && rest.capacity() > (64 << 10))
    rest.shrink_to_fit();
  return result;
}

Result<void> SealedStream::take(std::span<const uint8_t> frame,
                                const FrameHeader &header,
                                std::vector<Message> &into) {
  std::span<const uint8_t> sealed = frame.first(frame.size() - macBytes);
  Mac mac;
  std::copy_n(frame.data() + sealed.size(), macBytes, mac.begin());
  if (!areEqual(mac, receiving.mac({sealed})))
    return closing("a message that was changed on its way");
  if (header.counter != received)
    return closing(fmt::format("message {} where message {} was due: it was "
                               "repeated, left out or swapped",
                               header.counter, received));
  ++received;
  if (header.incarnation != current)
    return {};
  Result<Message> message =
      decode(header.kind, sealed.subspan(FrameHeader::size));
  if (!message)
    return message.error();
  if (const auto *again = std::get_if<AgainMessage>(&*message))
    current = again->incarnation;
  into.push_back(*std::move(message));
  return {};
}

} // namespace polyrank::runtime::net
