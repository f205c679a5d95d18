// Batches of blocks of any size, and feeds of commands and FIFOs.

#include "runtime/feed/Feed.h"

#include "test/runtime/PlanBuilder.h"
#include "test/runtime/feed/Blocks.h"

#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>
#include <thread>

namespace polyrank::runtime::test {
namespace {

constexpr uint64_t batch = 4;

/// A reader of these bytes.
FeedReader::Read readerOf(const std::string &bytes) {
  return [&bytes, at = size_t(0)](void *into,
                                  size_t size) mutable -> Result<size_t> {
    size_t count = std::min(size, bytes.size() - at);
    std::memcpy(into, bytes.data() + at, count);
    at += count;
    return count;
  };
}

/// Runs the bytes of feeds with weights through FeedBatches. Returns the
/// batches, or the error.
struct Outcome {
  std::map<uint64_t, std::vector<float>> batches;
  std::string error;
  size_t source = 0; // that ended, or has the error
  bool isWhole = false, isExact = true;
  uint64_t left = 0;
};
Outcome runMixed(const std::vector<std::string> &feeds,
                 const std::vector<double> &weights, uint64_t first = 0) {
  FeedLayout layout(inputX(), batch);
  SourceMix mix(weights);
  std::vector<std::unique_ptr<FeedReader>> readers;
  for (size_t source = 0; source < feeds.size(); ++source)
    readers.push_back(std::make_unique<FeedReader>(
        layout, FeedBatches::firstSample(mix, source, layout, first), false,
        readerOf(feeds[source])));
  Outcome outcome;
  std::vector<std::byte> slot(layout.batchBytes());
  FeedBatches batches(layout, mix, readers, first,
                      {[&](uint64_t) { return std::span(slot); },
                       [&](uint64_t number) {
                         auto *values =
                             reinterpret_cast<const float *>(slot.data());
                         outcome.batches[number] = {values, values + batch};
                       }});
  Result<void> done = batches.run();
  outcome.error = done ? "" : done.error().message;
  outcome.source = batches.source();
  outcome.isWhole = readers[outcome.source]->isWhole();
  for (const std::unique_ptr<FeedReader> &reader : readers)
    outcome.isExact = outcome.isExact && reader->isExact();
  outcome.left = batches.rowsOfBatch();
  return outcome;
}
Outcome runBytes(const std::string &bytes, uint64_t first = 0) {
  return runMixed({bytes}, {1}, first);
}

TEST(FeedBatches, BlocksOfAnySizeFillBatches) {
  Outcome outcome =
      runBytes(blockOf({0, 1, 2}, "0") + blockOf({3}, "3") +
               blockOf({4, 5, 6, 7, 8, 9, 10, 11, 12}, "4") + endBlock());
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.isWhole);
  EXPECT_TRUE(outcome.isExact);
  EXPECT_EQ(outcome.left, 1u);
  ASSERT_EQ(outcome.batches.size(), 3u);
  EXPECT_EQ(outcome.batches[0], (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(outcome.batches[2], (std::vector<float>{8, 9, 10, 11}));
}

TEST(FeedBatches, AFeedThatGoesOnBeginsWithTheSampleThatIsWanted) {
  Outcome exact = runBytes(blockOf({20, 21, 22, 23}, "20"), 5);
  EXPECT_EQ(exact.error, "");
  EXPECT_TRUE(exact.isExact);
  EXPECT_FALSE(exact.isWhole);
  EXPECT_EQ(exact.batches[5], (std::vector<float>{20, 21, 22, 23}));
  Outcome unknown = runBytes(blockOf({0, 1, 2, 3}), 5);
  EXPECT_EQ(unknown.error, "");
  EXPECT_FALSE(unknown.isExact);
  Outcome anew = runBytes(blockOf({0, 1, 2, 3}, "0"), 5);
  EXPECT_NE(anew.error.find("begins with sample 0, but the run goes on with "
                            "sample 20"),
            std::string::npos)
      << anew.error;
}

TEST(FeedBatches, WhatIsCutOffOrOutOfOrderIsAnError) {
  std::string block = blockOf({0, 1, 2, 3}, "0");
  for (auto [bytes, message] : {
           std::pair(block + block, "a block begins with sample 0, but the one "
                                    "before it ends before sample 4"),
           {block.substr(0, 5), "after 5 of 8 bytes of its header"},
           {block.substr(0, 20), "after 12 of "},
           {block.substr(0, block.size() - 3), "after 13 of the 16 bytes"},
           {block + "hello world", "which are text"},
       }) {
    Outcome outcome = runBytes(bytes);
    EXPECT_NE(outcome.error.find(message), std::string::npos) << outcome.error;
  }
}

TEST(FeedBatches, TheMixNamesTheFeedOfEachRow) {
  // Weights 3 and 1: 0 0 0 1 0 0 0 1, as SourceMix.h has it.
  std::string a = blockOf({0, 1, 2, 3, 4}, "0") + blockOf({5, 6, 7, 8}, "5"),
              b = blockOf({100, 101, 102}, "0") + endBlock();
  Outcome outcome = runMixed({a, b}, {3, 1});
  EXPECT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.batches.size(), 3u);
  EXPECT_EQ(outcome.batches[0], (std::vector<float>{0, 1, 2, 100}));
  EXPECT_EQ(outcome.batches[1], (std::vector<float>{3, 4, 5, 101}));
  EXPECT_EQ(outcome.batches[2], (std::vector<float>{6, 7, 8, 102}));
  // The first feed has no row for the batch after that.
  EXPECT_EQ(outcome.source, 0u);
  EXPECT_FALSE(outcome.isWhole);
  EXPECT_EQ(outcome.left, 0u);
}

TEST(FeedBatches, EachFeedOfAMixtureGoesOnAtItsOwnSample) {
  Outcome outcome =
      runMixed({blockOf({6, 7, 8}, "6"), blockOf({102}, "2")}, {3, 1}, 2);
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.isExact);
  ASSERT_EQ(outcome.batches.size(), 1u);
  EXPECT_EQ(outcome.batches[2], (std::vector<float>{6, 7, 8, 102}));
  // One of them begins anew.
  outcome = runMixed({blockOf({6, 7, 8}, "6"), blockOf({100})}, {3, 1}, 2);
  EXPECT_FALSE(outcome.isExact);
  EXPECT_EQ(outcome.batches[2], (std::vector<float>{6, 7, 8, 100}));
  outcome = runMixed({blockOf({6, 7, 8}, "6"), blockOf({100}, "0")}, {3, 1}, 2);
  EXPECT_EQ(outcome.source, 1u);
  EXPECT_NE(outcome.error.find("begins with sample 0, but the run goes on with "
                               "sample 2"),
            std::string::npos)
      << outcome.error;
}

TEST(FeedBatches, AMixtureEndsWithTheFirstFeedThatEnds) {
  std::string a = blockOf({0, 1, 2, 3, 4, 5, 6, 7, 8}),
              b = blockOf({100}) + endBlock();
  Outcome outcome = runMixed({a, b}, {3, 1});
  ASSERT_EQ(outcome.batches.size(), 1u);
  EXPECT_EQ(outcome.source, 1u);
  EXPECT_TRUE(outcome.isWhole);
  EXPECT_EQ(outcome.left, 3u);
}

std::string problemOf(const std::vector<std::string> &given) {
  Result<std::vector<FeedSource>> found = findFeeds(given);
  return found ? "" : found.error().message;
}

TEST(FeedSources, SeveralFeedsHaveWeights) {
  auto found = findFeeds(std::vector<std::string>{
      "command:python a.py --port 80:3", "command:python b.py:1"});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].name.text, "python a.py --port 80");
  EXPECT_EQ(describe(*found), "the feeds 'python a.py --port 80' (75 %), "
                              "'python b.py' (25 %)");
  EXPECT_EQ(mixtureOf(*found), "a feed 0.75 0.25");
}

TEST(FeedSources, ANumberAtTheEndOfASingleCommandIsAPartOfIt) {
  auto found = findFeeds(std::vector<std::string>{"command:nc host:9000"});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].name.text, "nc host:9000");
  EXPECT_EQ(mixtureOf(*found), "a feed");
}

TEST(FeedSources, FilesAreNoFeeds) {
  auto found = findFeeds(std::vector<std::string>{"a.bin:1", "b.bin:2"});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->empty());
}

TEST(FeedSources, AFifoMayHaveAWeight) {
  TemporaryDirectory folder;
  std::string path = folder / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  auto found =
      findFeeds(std::vector<std::string>{path + ":1", "command:cat:1"});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 2u);
  EXPECT_FALSE((*found)[0].name.isCommand());
  EXPECT_EQ((*found)[0].name.text, path);
}

TEST(FeedSources, WhatCannotBeMixed) {
  EXPECT_NE(problemOf({"command:a:0.7", "command:b"})
                .find("--data command:b: of several feeds each has a weight"),
            std::string::npos);
  EXPECT_NE(problemOf({"command:a:1", "corpus.bin:1"})
                .find("--data command:a:1 is a feed, and --data corpus.bin:1 "
                      "is not"),
            std::string::npos);
  EXPECT_NE(problemOf({"command:a:0", "command:b:1"})
                .find("the weight 0 is not a number above 0"),
            std::string::npos);
}

/// Feeds with one rank.
class FeedTest : public testing::Test {
protected:
  void start(const std::string &given, uint64_t first = 0,
             int milliseconds = 20000) {
    startAll({{*feedNameOf(given), 1}}, first, milliseconds);
  }
  void startAll(const std::vector<FeedSource> &feeds, uint64_t first = 0,
                int milliseconds = 20000) {
    FeedOptions options{feeds, std::chrono::milliseconds(milliseconds), false,
                        [this](const std::string &text) {
                          std::lock_guard lock(mutex);
                          said += text;
                        }};
    auto started = Feed::start(options, layout, 1, first);
    ASSERT_TRUE(started) << started.error().message;
    feed = *std::move(started);
    stream.emplace(*FeedRing::map(feed->descriptor(), layout, 1), layout, 0);
  }
  /// The first value of a batch; -1 at the end; -2 with an error.
  float first(uint64_t number) {
    Result<bool> there = stream->await(number, [] { return Result<void>(); });
    if (!there) {
      error = there.error().message;
      return -2;
    }
    if (!*there)
      return -1;
    float rows[batch];
    stream->read(number, 0, 0, batch, reinterpret_cast<std::byte *>(rows));
    return rows[0];
  }
  void write(const std::string &name, const std::string &bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }

  TemporaryDirectory folder;
  FeedLayout layout{inputX(), batch};
  std::unique_ptr<Feed> feed;
  std::optional<RingStream> stream;
  std::mutex mutex;
  std::string said, error;
};

TEST_F(FeedTest, ACommandWritesBatchesUntilItEnds) {
  std::string bytes;
  for (float b = 0; b < 10; ++b)
    bytes += blockOf({b, b, b, b});
  write("blocks", bytes + blockOf({9, 9}));
  start("command:echo hello; cat " + (folder / "blocks") + " > $POLYRANK_FEED");
  for (float b = 0; b < 10; ++b)
    EXPECT_EQ(first(uint64_t(b)), b);
  EXPECT_EQ(first(10), -1);
  EXPECT_EQ(first(11), -1);
  std::vector<std::string> notes = feed->takeNotes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("has ended after 42 samples, of which the last 2 are "
                          "no batch of 4"),
            std::string::npos)
      << notes[0];
  feed.reset();
  EXPECT_EQ(said, "feed: hello\n"); // a feed has a file of its own
}

TEST_F(FeedTest, ACommandLearnsItsFirstSample) {
  start("command:echo $POLYRANK_FEED_FIRST >&2; exit 3", 5);
  EXPECT_EQ(first(5), -2);
  EXPECT_NE(error.find("the command ended with status 3; the last lines of the "
                       "command:\n    20"),
            std::string::npos)
      << error;
}

TEST_F(FeedTest, NoBatchIsOverwrittenBeforeItIsRead) {
  write("blocks", blockOf({1, 1, 1, 1}));
  start("command:for i in 1 2 3 4 5 6 7 8 9 10; do cat " + (folder / "blocks") +
        "; done > $POLYRANK_FEED; touch " + (folder / "done"));
  EXPECT_EQ(first(0), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (uint64_t number = 1; number < 10; ++number)
    EXPECT_EQ(first(number), 1);
  EXPECT_EQ(first(10), -1);
}

TEST_F(FeedTest, GoodBatchesComeBeforeTheError) {
  write("blocks", blockOf({1, 1, 1, 1}) + blockOf({2, 2}).substr(0, 30));
  start("command:cat " + (folder / "blocks") + " > $POLYRANK_FEED");
  EXPECT_EQ(first(0), 1);
  EXPECT_EQ(first(1), -2);
  EXPECT_NE(error.find("it ended within a block"), std::string::npos) << error;
}

TEST_F(FeedTest, ACommandThatGivesNothingIsEnded) {
  start("command:sleep 100", 0, 300);
  EXPECT_EQ(first(0), -2);
  EXPECT_NE(error.find("for 0.3 seconds the command gives nothing "
                       "(--data-timeout)"),
            std::string::npos)
      << error;
}

TEST_F(FeedTest, CommandsAreMixedAndLearnTheirOwnFirstSample) {
  auto commandOf = [](const char *digit, const std::string &end) {
    return FeedSource{*feedNameOf(std::string("command:echo of ") + digit +
                                  " $POLYRANK_FEED_FIRST >&2; " + end),
                      *digit == '1' ? 3.0 : 1.0};
  };
  write("a", blockOf({6, 7, 8}, "6") + endBlock());
  write("b", blockOf({102}, "2"));
  startAll({commandOf("1", "cat " + (folder / "a") + " > $POLYRANK_FEED"),
            commandOf("2", "cat " + (folder / "b") +
                               " > $POLYRANK_FEED; exec sleep 100")},
           2);
  EXPECT_EQ(first(2), 6);
  EXPECT_EQ(first(3), -1);
  std::vector<std::string> notes = feed->takeNotes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("has ended after 3 samples; so does the run, after "
                          "the last batch that the feeds have filled"),
            std::string::npos)
      << notes[0];
  EXPECT_EQ(feed->findInexact(), "");
  feed.reset();
  EXPECT_NE(said.find("feed 1: of 1 6\n"), std::string::npos) << said;
  EXPECT_NE(said.find("feed 2: of 2 2\n"), std::string::npos) << said;
}

TEST_F(FeedTest, AnErrorNamesTheFeedOfAMixture) {
  write("a", blockOf({0, 1, 2, 3, 4, 5, 6, 7}));
  startAll({{*feedNameOf("command:cat " + (folder / "a") +
                         " > $POLYRANK_FEED; exec sleep 100"),
             3},
            {*feedNameOf("command:echo lost >&2; exit 3"), 1}});
  EXPECT_EQ(first(0), -2);
  EXPECT_NE(error.find("the feed 'echo lost >&2; exit 3': the command ended "
                       "with status 3; the last lines of the command:\n    "
                       "lost"),
            std::string::npos)
      << error;
}

TEST_F(FeedTest, AFloodOfLinesDoesNotStopIt) {
  write("blocks", blockOf({1, 1, 1, 1}));
  start("command:yes noise | head -n 100000 >&2; cat " + (folder / "blocks") +
        " > $POLYRANK_FEED; yes noise >&2");
  EXPECT_EQ(first(0), 1);
  feed.reset();
  EXPECT_LT(said.size(), 10000u);
  EXPECT_NE(said.find("what else the command says is not shown"),
            std::string::npos);
}

TEST_F(FeedTest, AWaitIsCancelled) {
  start("command:sleep 100");
  std::thread canceller([this] { stream->cancel(); });
  EXPECT_EQ(first(0), -2);
  canceller.join();
}

TEST_F(FeedTest, AFifoIsReadWhoeverWritesIt) {
  std::string path = folder / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  start(path);
  std::thread writer([&] {
    std::ofstream(path, std::ios::binary)
        << blockOf({1, 1, 1, 1}) << blockOf({2, 2, 2, 2}) << endBlock();
  });
  EXPECT_EQ(first(0), 1);
  EXPECT_EQ(first(1), 2);
  EXPECT_EQ(first(2), -1);
  writer.join();
}

TEST_F(FeedTest, AFifoEndsWithTheBlockThatSaysSo) {
  std::string path = folder / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  start("fifo:" + path);
  std::thread writer(
      [&] { std::ofstream(path, std::ios::binary) << blockOf({1, 1, 1, 1}); });
  EXPECT_EQ(first(0), 1);
  EXPECT_EQ(first(1), -2);
  EXPECT_NE(error.find("it was closed before the block that ends a feed"),
            std::string::npos)
      << error;
  writer.join();
}

TEST_F(FeedTest, AFifoThatNobodyWrites) {
  std::string path = folder / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  start("fifo:" + path, 0, 300);
  EXPECT_EQ(first(0), -2);
  EXPECT_NE(error.find("nobody writes to it: start what writes blocks, with "
                       "POLYRANK_FEED=" +
                       path),
            std::string::npos)
      << error;
  // The user was told before.
  EXPECT_EQ(feed->takeNotes(),
            std::vector{"the feed '" + path +
                        "': for 0.15 seconds nobody writes to it: start what "
                        "writes blocks, with POLYRANK_FEED=" +
                        path +
                        "; after 0.3 seconds the run ends (--data-timeout)"});
}

TEST(FeedInput, WhatIsNoFifo) {
  TemporaryDirectory folder;
  for (auto [path, message] : {std::pair(folder / "none", "cannot be opened"),
                               {std::string("/dev/null"), "is no FIFO"}}) {
    auto opened =
        FeedInput::open({FeedName::Kind::Fifo, path, path}, 0, "feed", {});
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message.find(message), std::string::npos)
        << opened.error().message;
  }
  EXPECT_FALSE(feedNameOf("/dev/null"));
  EXPECT_FALSE(feedNameOf(folder / "tokens.bin"));
}

} // namespace
} // namespace polyrank::runtime::test
