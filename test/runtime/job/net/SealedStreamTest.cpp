// A connection accepts what the other end has sent, in its order, and ends at
// anything else.

#include "runtime/job/net/SealedStream.h"

#include "test/runtime/job/net/ExampleMessages.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

constexpr uint64_t incarnation = 42;

JobKey keyOf(uint8_t first) {
  std::array<uint8_t, JobKey::size> bytes{first};
  return JobKey(bytes);
}

SealedStream nodes(uint64_t which = incarnation) {
  return {keyOf(1), keyOf(2), which};
}
SealedStream coordinators(uint64_t which = incarnation) {
  return {keyOf(2), keyOf(1), which};
}

/// What the coordinator makes of these bytes: the number of messages, or why
/// it closes the connection.
std::string taken(SealedStream &stream, std::span<const uint8_t> bytes) {
  std::vector<Message> messages;
  Result<void> result = stream.receive(bytes, messages);
  return result ? std::to_string(messages.size()) : result.error().message;
}

std::vector<uint8_t> ping(SealedStream &stream, int64_t number) {
  return stream.seal(PingMessage{number});
}

TEST(SealedStream, MessagesArriveInBothDirections) {
  SealedStream node = nodes(), coordinator = coordinators();
  std::vector<Message> all = test::exampleMessages(), there, back;
  for (const Message &message : all) {
    ASSERT_TRUE(coordinator.receive(node.seal(message), there));
    ASSERT_TRUE(node.receive(coordinator.seal(message), back));
  }
  EXPECT_TRUE(there == all);
  EXPECT_TRUE(back == all);
}

TEST(SealedStream, BytesMayComeInAnyParts) {
  for (size_t part : {1, 7, 24, 25, 1000}) {
    SealedStream node = nodes(), coordinator = coordinators();
    std::vector<uint8_t> bytes;
    std::vector<Message> all = test::exampleMessages(), there;
    for (const Message &message : all) {
      std::vector<uint8_t> sealed = node.seal(message);
      bytes.insert(bytes.end(), sealed.begin(), sealed.end());
    }
    for (size_t at = 0; at < bytes.size(); at += part)
      ASSERT_TRUE(coordinator.receive(
          std::span(bytes).subspan(at, std::min(part, bytes.size() - at)),
          there));
    EXPECT_TRUE(there == all) << part;
  }
}

TEST(SealedStream, ARepeatedMessageEndsTheConnection) {
  SealedStream node = nodes(), coordinator = coordinators();
  std::vector<uint8_t> first = ping(node, 1);
  EXPECT_EQ(taken(coordinator, first), "1");
  EXPECT_EQ(taken(coordinator, first),
            "message 0 where message 1 was due: it was repeated, left out or "
            "swapped");
}

TEST(SealedStream, ALeftOutMessageEndsTheConnection) {
  SealedStream node = nodes(), coordinator = coordinators();
  ping(node, 1);
  EXPECT_EQ(taken(coordinator, ping(node, 2)),
            "message 1 where message 0 was due: it was repeated, left out or "
            "swapped");
}

TEST(SealedStream, AMessageThatIsSentBackEndsTheConnection) {
  SealedStream node = nodes();
  std::vector<uint8_t> own = ping(node, 1);
  EXPECT_EQ(taken(node, own), "a message that was changed on its way");
}

TEST(SealedStream, EveryBitThatIsChangedEndsTheConnection) {
  SealedStream node = nodes();
  std::vector<uint8_t> sealed = ping(node, 1);
  for (size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::vector<uint8_t> changed = sealed;
    changed[bit / 8] ^= uint8_t(1 << (bit % 8));
    changed.insert(changed.end(), 1 << 10, 0); // what its length may ask for
    SealedStream coordinator = coordinators();
    std::string result = taken(coordinator, changed);
    // A larger length waits for more; it is never a message.
    if (result == "0") {
      EXPECT_LT(bit, 32u);
      continue;
    }
    EXPECT_NE(result, "1") << bit;
    EXPECT_GT(result.size(), 2u) << bit;
  }
}

TEST(SealedStream, AnotherKeyEndsTheConnection) {
  SealedStream stranger(keyOf(3), keyOf(2), incarnation),
      coordinator = coordinators();
  EXPECT_EQ(taken(coordinator, ping(stranger, 1)),
            "a message that was changed on its way");
}

TEST(SealedStream, MessagesOfAnotherIncarnationAreDropped) {
  SealedStream node = nodes(7), coordinator = coordinators();
  EXPECT_EQ(taken(coordinator, ping(node, 1)), "0");
  node.setIncarnation(incarnation);
  EXPECT_EQ(taken(coordinator, ping(node, 2)), "1");
  coordinator.setIncarnation(8);
  EXPECT_EQ(taken(coordinator, ping(node, 3)), "0");
}

TEST(SealedStream, AnotherStartIsTheLastMessageOfItsIncarnation) {
  SealedStream node = nodes(), coordinator = coordinators();
  std::vector<uint8_t> old = ping(node, 1);
  std::vector<uint8_t> bytes = coordinator.seal(AgainMessage{7});
  std::vector<uint8_t> next = coordinator.seal(PongMessage{});
  bytes.insert(bytes.end(), next.begin(), next.end());
  EXPECT_EQ(coordinator.incarnation(), 7u);
  // What the node has sent before it knew counts no more, but ends nothing.
  EXPECT_EQ(taken(coordinator, old), "0");
  EXPECT_EQ(taken(node, bytes), "2");
  EXPECT_EQ(node.incarnation(), 7u);
  EXPECT_EQ(taken(coordinator, ping(node, 2)), "1");
}

TEST(SealedStream, ALengthBeyondTheBoundIsRefusedBeforeItComes) {
  SealedStream coordinator = coordinators();
  std::vector<uint8_t> header(FrameHeader::size);
  header[2] = 0x10; // 1 MiB
  header[4] = 9;
  EXPECT_EQ(taken(coordinator, header), "0");
  header[0] = 1;
  SealedStream other = coordinators();
  EXPECT_EQ(taken(other, header),
            "a message of 1048577 bytes, and the most is 1048576");
}

TEST(SealedStream, AnUnknownKindIsRefusedBeforeItComes) {
  for (uint8_t kind : {0, int(numKinds) + 1}) {
    std::vector<uint8_t> header(FrameHeader::size);
    header[4] = kind;
    SealedStream coordinator = coordinators();
    EXPECT_EQ(taken(coordinator, header), "a message of an unknown kind");
  }
}

} // namespace
} // namespace polyrank::runtime::net
