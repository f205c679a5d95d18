// Messages: their fields arrive, and nothing else is accepted.

#include "test/runtime/job/net/ExampleMessages.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::net {
namespace {

using test::exampleMessages;

uint16_t kindOf(const Message &message) {
  return static_cast<uint16_t>(message.index() + 1);
}

TEST(Messages, EveryFieldArrives) {
  std::vector<Message> all = exampleMessages();
  ASSERT_EQ(all.size(), size_t(numKinds));
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].index(), i);
    Result<Message> back = decode(kindOf(all[i]), encode(all[i]));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_TRUE(*back == all[i]) << nameOfKind(kindOf(all[i]));
  }
}

TEST(Messages, WhatIsCutOrTooLongIsRefused) {
  for (const Message &message : exampleMessages()) {
    std::vector<uint8_t> body = encode(message);
    for (size_t length = 0; length < body.size(); ++length)
      EXPECT_FALSE(decode(kindOf(message), std::span(body).first(length)))
          << nameOfKind(kindOf(message)) << " of " << length;
    body.push_back(0);
    Result<Message> longer = decode(kindOf(message), body);
    EXPECT_FALSE(longer) << nameOfKind(kindOf(message));
  }
}

TEST(Messages, UnknownKindsAreRefused) {
  for (int kind : {0, numKinds + 1, 0xffff}) {
    Result<Message> message = decode(uint16_t(kind), {});
    ASSERT_FALSE(message);
    EXPECT_NE(message.error().message.find("does not know"), std::string::npos);
  }
}

TEST(Messages, ABodyBeyondTheBoundIsRefused) {
  std::vector<uint8_t> body(MessageBounds::body + 1);
  EXPECT_FALSE(decode(9, body));
}

TEST(Messages, ACountThatTheBytesCannotHoldTakesNoMemory) {
  // 256 lines are allowed, but there are bytes for none of them.
  std::vector<uint8_t> body{0, 1, 0, 0};
  EXPECT_FALSE(decode(9, body));
  body = {0xff, 0xff, 0xff, 0xff};
  EXPECT_FALSE(decode(9, body));
}

TEST(Messages, CountsBeyondTheirBoundsAreRefused) {
  TellMessage message;
  message.lines.resize(MessageBounds::lines);
  std::vector<uint8_t> body = encode(message);
  EXPECT_TRUE(decode(9, body));
  body[0] = 1; // 257 lines
  body.insert(body.end(), 4, 0);
  EXPECT_FALSE(decode(9, body));
}

TEST(Messages, ValuesThatNoEnumerationHasAreRefused) {
  FailMessage fail{{0, 0, Error{"", Error::Fault::Input}}};
  std::vector<uint8_t> body = encode(fail);
  size_t place = 4 + 4 + 4; // behind machine, rank and an empty text
  ASSERT_EQ(body[place], uint8_t(Error::Fault::Input));
  for (uint8_t fault : {0, 7, 255}) { // faults are 1 to 6
    body[place] = fault;
    EXPECT_FALSE(decode(8, body)) << int(fault);
  }
  NodePulse pulse{{}, 0, {RemoteRank{}}};
  body = encode(pulse);
  size_t running = 4 + 8 + 4 + 4 + 4; // the place of the first flag
  body[running] = 2;
  EXPECT_FALSE(decode(4, body));
}

TEST(Messages, RanksBeyondThoseOfAMachineAreRefused) {
  NodePulse pulse{{}, MessageBounds::ranks - 1, {RemoteRank{}}};
  EXPECT_TRUE(decode(4, encode(pulse)));
  pulse.firstRank = MessageBounds::ranks;
  EXPECT_FALSE(decode(4, encode(pulse)));
  pulse.firstRank = 0xffffffff;
  EXPECT_FALSE(decode(4, encode(pulse)));
}

TEST(Messages, WhatIsTooLongIsCutWhenItIsWritten) {
  TellMessage message{{std::string(2 * MessageBounds::text, 'x')}};
  Result<Message> back = decode(9, encode(message));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<TellMessage>(*back).lines[0].size(), MessageBounds::text);
  NodePulse pulse{{}, 0, {RemoteRank{}}};
  pulse.ranks[0].wait.ranks.assign(1000, 5);
  back = decode(4, encode(pulse));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<NodePulse>(*back).ranks[0].wait.ranks.size(),
            MessageBounds::blockers);
}

TEST(Messages, NumbersAreLittleEndian) {
  EXPECT_EQ(encode(PingMessage{0x0102030405060708}),
            (std::vector<uint8_t>{8, 7, 6, 5, 4, 3, 2, 1}));
}

} // namespace
} // namespace polyrank::runtime::net
