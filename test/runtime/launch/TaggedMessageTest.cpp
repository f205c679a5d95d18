// Messages of ranks as lines: there and back, and those that cannot be read.

#include "runtime/launch/EndMessage.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// Sends a message and reads it again.
EndMessage sent(const EndMessage &message) {
  std::string line = toTagged(message, endKinds).line();
  EXPECT_EQ(line.find('\n'), line.npos);
  auto tagged = TaggedMessage::parse(line);
  EXPECT_TRUE(tagged) << line;
  EXPECT_TRUE(isOneOf(*tagged, endKinds));
  auto read = fromTagged<EndMessage>(*tagged, endKinds);
  EXPECT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->index(), message.index());
  return *read;
}

/// The error of reading this line.
std::string refused(const std::string &line) {
  auto tagged = TaggedMessage::parse(line);
  if (!tagged)
    return tagged.error().message;
  auto read = fromTagged<EndMessage>(*tagged, endKinds);
  EXPECT_FALSE(read) << line;
  return read ? "" : read.error().message;
}

TEST(TaggedMessage, TheEndsOfARankComeThroughItsPipe) {
  for (auto fault : {Error::Fault::Input, Error::Fault::Rank,
                     Error::Fault::Disk, Error::Fault::NotFinite}) {
    auto failed = sent(RankFailed{{"it's\n\"wrong\"", fault}});
    const Error &error = std::get<RankFailed>(failed).error;
    EXPECT_EQ(error.message, "it's\n\"wrong\"");
    EXPECT_EQ(error.fault, fault);
  }
  sent(RankFinished());
  EXPECT_EQ(std::get<RankStopped>(sent(RankStopped{7})).step, 7u);
}

TEST(TaggedMessage, BytesThatAreNoTextDoNotBreakALine) {
  auto failed = sent(RankFailed{{"file \xff.bin"}});
  EXPECT_EQ(std::get<RankFailed>(failed).error.message, "file \uFFFD.bin");
}

TEST(TaggedMessage, ALineThatIsNoMessageIsRefusedAndShown) {
  for (const char *line :
       {"", "garbage", "[1]", "7", "{}", R"({"stopped": {"step": 1)",
        R"({"finished": {}, "stopped": {"step": 1}})"})
    EXPECT_EQ(refused(line),
              std::string("sends a line that is no message: '") + line + "'");
  EXPECT_EQ(refused(std::string(61, 'x')),
            "sends a line that is no message: '" + std::string(60, 'x') +
                "..'");
}

TEST(TaggedMessage, AnUnknownKindIsNamed) {
  EXPECT_EQ(refused(R"({"sleeping": {}})"),
            "sends a message of the kind 'sleeping', which its launcher does "
            "not know");
}

TEST(TaggedMessage, ABodyThatDoesNotFitItsKindIsRefused) {
  for (const char *line :
       {R"({"stopped": {}})", R"({"stopped": {"step": "one"}})",
        R"({"stopped": 3})", R"({"finished": true})",
        R"({"failed": {"fault": 2}})", R"({"failed": {"message": "no"}})",
        R"({"failed": {"message": "no", "fault": 0}})",
        R"({"failed": {"message": "no", "fault": 7}})"})
    EXPECT_NE(refused(line).find("that its launcher cannot read: "),
              std::string::npos)
        << line;
}

} // namespace
} // namespace polyrank::runtime::test
