// Headers between ranks, and what is wrong with them.

#include "runtime/comm/net/Frame.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

constexpr uint64_t incarnation = 0x1122334455667788;

Frame example() {
  Frame frame;
  frame.incarnation = incarnation;
  frame.group = 0xabcdef;
  frame.operation = 1'000'000'000'007;
  frame.sequence = 41;
  frame.bytes = 4096;
  frame.piece = 3;
  frame.unit = 2;
  frame.kind = FrameKind::Partial;
  frame.stage = 5;
  frame.collective = 1;
  frame.dtype = 2;
  frame.reduction = 3;
  frame.checksum = 99;
  return frame;
}

std::string refusal(const Frame &frame, uint32_t sequence = 41) {
  Result<Frame> read = decode(encode(frame), incarnation, sequence);
  return read ? "" : read.error().message;
}

TEST(Frame, IsReadAsItWasWritten) {
  for (int kind = 0; kind <= int(lastFrameKind); ++kind) {
    Frame frame = example();
    frame.kind = static_cast<FrameKind>(kind);
    Result<Frame> read = decode(encode(frame), incarnation, 41);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, frame);
  }
}

TEST(Frame, EachChangedBitIsFound) {
  for (size_t byte = 0; byte < Frame::size; ++byte)
    for (int bit = 0; bit < 8; ++bit) {
      auto bytes = encode(example());
      bytes[byte] ^= std::byte(1 << bit);
      Result<Frame> read = decode(bytes, incarnation, 41);
      ASSERT_FALSE(read) << "bit " << bit << " of byte " << byte;
      EXPECT_EQ(read.error().message, "a header has changed on its way");
    }
}

TEST(Frame, OfAnotherStartOfTheJobIsRefused) {
  Frame frame = example();
  frame.incarnation ^= 1;
  EXPECT_EQ(refusal(frame), "a message is of another start of the job");
}

TEST(Frame, ThatIsNotTheNextIsRefused) {
  EXPECT_EQ(refusal(example(), 40), "message 41 came instead of message 40");
  EXPECT_EQ(refusal(example(), 42), "message 41 came instead of message 42");
}

TEST(Frame, OfAnUnknownKindOrLengthIsRefused) {
  Frame frame = example();
  frame.kind = static_cast<FrameKind>(int(lastFrameKind) + 1);
  EXPECT_EQ(refusal(frame), "a message is of the unknown kind " +
                                std::to_string(int(frame.kind)));
  frame = example();
  frame.bytes = mostFrameBytes;
  EXPECT_EQ(refusal(frame), "");
  ++frame.bytes;
  EXPECT_EQ(refusal(frame), "a message says that 1048577 bytes follow");
}

} // namespace
} // namespace polyrank::runtime::net
