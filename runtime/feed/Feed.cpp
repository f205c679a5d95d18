// Starts feeds, reads them in a thread, and says how they end.

#include "runtime/feed/Feed.h"

#include <fmt/format.h>
#include <utility>

namespace polyrank::runtime {
namespace {

SourceMix mixOf(const std::vector<FeedSource> &feeds) {
  std::vector<double> weights;
  for (const FeedSource &feed : feeds)
    weights.push_back(feed.weight);
  return SourceMix(weights);
}

} // namespace

Result<std::unique_ptr<Feed>> Feed::start(const FeedOptions &options,
                                          FeedLayout layout, int ranks,
                                          uint64_t first) {
  POLYRANK_ASSIGN(ring, FeedRing::create(layout, ranks, first));
  SourceMix mix = mixOf(options.feeds);
  std::vector<std::unique_ptr<FeedInput>> inputs;
  for (size_t source = 0; source < options.feeds.size(); ++source) {
    // Of several commands the lines say whose they are.
    std::string mark =
        options.feeds.size() == 1 ? "feed" : fmt::format("feed {}", source + 1);
    POLYRANK_ASSIGN(input, FeedInput::open(options.feeds[source].name,
                                           FeedBatches::firstSample(
                                               mix, source, layout, first),
                                           mark, options.say));
    inputs.push_back(std::move(input));
  }
  return std::unique_ptr<Feed>(new Feed(options, std::move(layout),
                                        std::move(ring), std::move(mix),
                                        std::move(inputs), first));
}

Feed::Feed(const FeedOptions &options, FeedLayout given, FeedRing shared,
           SourceMix mixed, std::vector<std::unique_ptr<FeedInput>> opened,
           uint64_t first)
    : options(options), layout(std::move(given)), ring(std::move(shared)),
      mix(std::move(mixed)), inputs(std::move(opened)), readers([&] {
        std::vector<std::unique_ptr<FeedReader>> made;
        for (size_t source = 0; source < inputs.size(); ++source)
          made.push_back(std::make_unique<FeedReader>(
              layout, FeedBatches::firstSample(mix, source, layout, first),
              options.allowsNan, [this, source](void *into, size_t size) {
                return inputs[source]->read(into, size, patienceWith(source));
              }));
        return made;
      }()),
      batches(layout, mix, readers, first,
              {[this](uint64_t number) {
                 return ring.room(number, [this] { return isOver.load(); });
               },
               [this](uint64_t number) { ring.publish(number); }}),
      worker([this] { run(); }) {}

Feed::~Feed() {
  isOver = true;
  worker.join();
}

FeedPatience Feed::patienceWith(size_t source) {
  return {options.limit, [this] { return isOver.load(); },
          [this, source](const std::string &text) {
            note(options.feeds[source].name.describe() + ": " + text);
          }};
}

std::string Feed::findInexact() const {
  for (size_t source = 0; source < readers.size(); ++source)
    if (!readers[source]->isExact())
      return options.feeds[source].name.describe();
  return "";
}

std::vector<std::string> Feed::takeNotes() {
  std::lock_guard lock(mutex);
  return std::exchange(notes, {});
}

void Feed::note(const std::string &text) {
  std::lock_guard lock(mutex);
  notes.push_back(text);
}

void Feed::run() {
  Result<void> done = runToTheEnd();
  if (isOver)
    return;
  if (done) {
    ring.end();
    return;
  }
  const Error &error = done.error();
  ring.fail(error.saying(fmt::format("{}: {}{}", name().describe(),
                                     error.message, input().lastLines())));
}

Result<void> Feed::runToTheEnd() {
  if (Result<void> ran = batches.run(); !ran)
    return ran;
  if (Result<void> well = input().finish(reader().isWhole()); !well)
    return well;
  // A run that goes on may have had all of them.
  if (batches.batchNumber() == 0)
    return Error{fmt::format(
        "it ended after {} samples, and a batch has {}; {}", reader().samples(),
        layout.batch(),
        reader().samples() == 0
            ? "a feed writes blocks to the file that POLYRANK_FEED names, as "
              "polyrank.feed() of Python does; what it prints is only shown"
            : "give it more, or compile the plan for a smaller batch")};
  note(describeEnd());
  return {};
}

std::string Feed::describeEnd() const {
  std::string end = fmt::format("{} has ended after {} samples",
                                name().describe(), reader().samples());
  if (inputs.size() > 1)
    return end + "; so does the run, after the last batch that the feeds have "
                 "filled";
  if (uint64_t left = batches.rowsOfBatch())
    end += fmt::format(", of which the last {} are no batch of {} and not used",
                       left, layout.batch());
  return end + "; so does the run, after the step with the last of them";
}

} // namespace polyrank::runtime
