// Any bytes as control messages: they are refused, or a message that was read
// is written in bytes that give the same message. And any bytes on a sealed
// connection, behind genuine ones: no message comes of them.

#include "runtime/job/net/Messages.h"
#include "runtime/job/net/SealedStream.h"

#include <array>
#include <cstdlib>

using namespace polyrank::runtime::net;

namespace {

void check(bool holds) {
  if (!holds)
    std::abort();
}

JobKey keyOf(uint8_t first) {
  std::array<uint8_t, JobKey::size> bytes{first};
  return JobKey(bytes);
}

/// The first byte is the kind, the others are the body.
void checkMessage(std::span<const uint8_t> bytes) {
  if (bytes.empty())
    return;
  auto message = decode(bytes[0], bytes.subspan(1));
  if (!message) {
    check(!message.error().message.empty());
    return;
  }
  std::vector<uint8_t> written = encode(*message);
  check(written.size() <= MessageBounds::body);
  auto again = decode(bytes[0], written);
  check(again && *again == *message);
}

void checkStream(std::span<const uint8_t> bytes) {
  SealedStream node(keyOf(1), keyOf(2), 7), coordinator(keyOf(2), keyOf(1), 7);
  std::vector<Message> messages;
  check(bool(coordinator.receive(node.seal(StopMessage{15}), messages)));
  check(messages.size() == 1);
  // In two parts, which must make no difference.
  size_t half = bytes.size() / 2;
  if (coordinator.receive(bytes.first(half), messages))
    (void)coordinator.receive(bytes.subspan(half), messages);
  check(messages.size() == 1);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  checkMessage({data, size});
  checkStream({data, size});
  return 0;
}
