// Each message of a rank there and back, and malformed ones.

#include "runtime/session/RankMessage.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>

namespace polyrank::runtime::test {
namespace {

/// One message of each type, with a value in each field.
std::vector<RankMessage> examples() {
  StepReport step;
  step.step = 7, step.seconds = 0.5, step.communicationShare = 0.25;
  step.metrics = {{"loss", 0.1}};
  step.learningRates = {{"lr", 1e-3}};
  step.share = 0.75;
  RankStep time{7, 0.5, 0.25, 0.125, 0.0625, uint64_t(5) << 40};
  ShardReport shard;
  shard.step = 8, shard.bytes = uint64_t(3) << 40;
  shard.copySeconds = 0.1, shard.waitSeconds = 0.2, shard.writeSeconds = 0.3;
  shard.checksums = {{0, ~uint64_t(0)}, {}, {5}};
  shard.error = "the disk is full";
  EvaluationReport evaluation;
  evaluation.step = 9, evaluation.samples = 10, evaluation.seconds = 0.5;
  evaluation.metrics = {{"eval_loss", 2.5}, {"eval_accuracy", 0.5}};
  return {ReadyReport{0.5, 0.25},
          StepMessage{step, time},
          time,
          SaveReport{"out/w.safetensors", 1, 2, 0.5},
          shard,
          DamageMessage{"a file is cut off"},
          evaluation,
          StuckMessage{11, 3},
          PatienceReport{12, 8, 0.1},
          SkippedSaveMessage{13},
          KeptMessage{14},
          TracedMessage{15},
          TracePieceMessage{"{\"ph\":\"X\"},\n"},
          RankUse{1, 2, 3, 4, 5, 6, 7, 8}};
}

Result<RankMessage> sent(const RankMessage &message) {
  auto tagged = TaggedMessage::parse(toTagged(message).line());
  EXPECT_TRUE(tagged);
  return rankMessageFrom(*tagged);
}

template <class Body>
Body back(const Body &body) {
  auto read = sent(body);
  EXPECT_TRUE(read) << read.error().message;
  return std::get<Body>(*read);
}

TEST(RankMessage, EachComesThroughTheRanksPipeAsItWas) {
  std::set<size_t> types;
  for (const RankMessage &message : examples()) {
    TaggedMessage before = toTagged(message);
    auto read = sent(message);
    ASSERT_TRUE(read) << before.kind << ": " << read.error().message;
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(toTagged(*read).line(), before.line());
    types.insert(message.index());
  }
  EXPECT_EQ(types.size(), std::variant_size_v<RankMessage>);
}

TEST(RankMessage, HasAKindThatNoOtherMessageHas) {
  std::set<std::string_view> kinds(rankMessageKinds.begin(),
                                   rankMessageKinds.end());
  EXPECT_EQ(kinds.size(), rankMessageKinds.size());
}

TEST(RankMessage, HasTheValuesOfItsFields) {
  auto step = back(std::get<StepMessage>(examples()[1]));
  EXPECT_EQ(step.report.step, 7u);
  EXPECT_EQ(step.report.share, 0.75);
  EXPECT_EQ(step.report.metrics[0], std::pair(std::string("loss"), 0.1));
  EXPECT_EQ(step.measured->waitingSeconds, 0.0625);
  EXPECT_FALSE(back(StepMessage{step.report, {}}).measured);
  auto shard = back(std::get<ShardReport>(examples()[4]));
  EXPECT_EQ(shard.checksums,
            (std::vector<std::vector<uint64_t>>{{0, ~uint64_t(0)}, {}, {5}}));
  EXPECT_EQ(shard.bytes, uint64_t(3) << 40);
  EXPECT_EQ(shard.error, "the disk is full");
  EXPECT_EQ(back(StuckMessage{11, 3}).stored, 3u);
  EXPECT_EQ(back(StuckMessage{11, {}}).stored, std::nullopt);
  EXPECT_EQ(back(DamageMessage{"why"}).reason, "why");
  EXPECT_EQ(back(SkippedSaveMessage{13}).step, 13u);
  EXPECT_EQ(back(KeptMessage{14}).step, 14u);
  EXPECT_EQ(back(TracedMessage{15}).steps, 15u);
  EXPECT_EQ(back(TracePieceMessage{"{},\n"}).text, "{},\n");
}

TEST(RankMessage, NumbersThatAreNotFiniteStayAsTheyAre) {
  double infinity = std::numeric_limits<double>::infinity();
  StepReport step;
  step.metrics = {{"loss", NAN}, {"norm", -infinity}};
  StepReport read = back(StepMessage{step, {}}).report;
  EXPECT_TRUE(std::isnan(read.metrics[0].second));
  EXPECT_EQ(read.metrics[1].second, -infinity);
  EXPECT_EQ(back(PatienceReport{1, 0, infinity}).bestLoss, infinity);
}

TEST(RankMessage, IsRefusedWithoutAnyOfItsFields) {
  std::set<std::string> optional{"measured", "stored"};
  for (const RankMessage &message : examples()) {
    TaggedMessage whole = toTagged(message);
    for (size_t n = 0; n < whole.body.size(); ++n) {
      TaggedMessage cut = whole;
      std::string what = whole.kind;
      if (cut.body.is_array()) {
        cut.body.erase(n);
      } else {
        auto field = std::next(cut.body.begin(), std::ptrdiff_t(n));
        what += "." + field.key();
        if (optional.contains(field.key()))
          continue;
        cut.body.erase(field.key());
      }
      auto read = rankMessageFrom(cut);
      ASSERT_FALSE(read) << what;
      EXPECT_EQ(read.error().message.find("sends a message of the kind '" +
                                          whole.kind +
                                          "' that its launcher cannot read: "),
                0u)
          << read.error().message;
      EXPECT_EQ(read.error().fault, Error::Fault::Rank);
    }
  }
}

TEST(RankMessage, IsRefusedWithAFieldOfAnotherType) {
  for (const RankMessage &message : examples()) {
    TaggedMessage whole = toTagged(message);
    for (auto field = whole.body.begin(); field != whole.body.end(); ++field) {
      nlohmann::json before = *field;
      *field = nlohmann::json{{"another", "type"}};
      EXPECT_FALSE(rankMessageFrom(whole)) << whole.kind << ": " << whole.body;
      *field = before;
    }
    whole.body = nullptr;
    EXPECT_FALSE(rankMessageFrom(whole)) << whole.kind;
  }
}

TEST(RankMessage, IsRefusedWithATextThatIsNoNumberAndNoChecksum) {
  auto refused = [](TaggedMessage message) {
    auto read = rankMessageFrom(message);
    EXPECT_FALSE(read);
    return read ? "" : read.error().message;
  };
  TaggedMessage step = toTagged(examples()[1]);
  step.body["metrics"][0][1] = "0.1x";
  EXPECT_NE(refused(step).find("'0.1x' is no number"), std::string::npos);
  TaggedMessage shard = toTagged(examples()[4]);
  shard.body["checksums"][0][0] = "zz";
  EXPECT_NE(refused(shard).find("'zz' is no checksum"), std::string::npos);
}

TEST(RankMessage, AnUnknownKindIsNamed) {
  auto read = rankMessageFrom({"sleeping", nlohmann::json::object()});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "sends a message of the kind 'sleeping', which its launcher does "
            "not know");
}

} // namespace
} // namespace polyrank::runtime::test
