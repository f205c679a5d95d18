// From bytes to blocks, and from blocks to batches.

#include "runtime/feed/Feed.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace polyrank::runtime {

Result<bool> FeedBatches::run() {
  std::vector<std::byte> data;
  for (;;) {
    POLYRANK_ASSIGN(head, readHead());
    if (!head)
      return false;
    if (head->isEnd)
      return true;
    if (Result<void> follows = checkSample(*head); !follows)
      return follows.error();
    data.resize(head->dataBytes);
    POLYRANK_ASSIGN(got, ends.read(data.data(), data.size()));
    if (got < data.size())
      return Error{fmt::format("it ended within a block: after {} of the {} "
                               "bytes of its arrays",
                               got, data.size()),
                   Error::Fault::Rank};
    if (Result<void> added = addRows(*head, data); !added)
      return added.error();
  }
}

Result<std::optional<FeedBlock>> FeedBatches::readHead() {
  std::array<std::byte, sizeof(uint64_t)> start{};
  POLYRANK_ASSIGN(got, ends.read(start.data(), start.size()));
  if (got == 0)
    return std::optional<FeedBlock>();
  auto cut = [](size_t some, uint64_t all) {
    return Error{fmt::format("it ended within a block: after {} of {} bytes of "
                             "its header",
                             some, all),
                 Error::Fault::Rank};
  };
  if (got < start.size())
    return cut(got, start.size());
  POLYRANK_ASSIGN(length, feedHeaderLength(start));
  std::string header(length, '\0');
  POLYRANK_ASSIGN(gotOfHeader, ends.read(header.data(), header.size()));
  if (gotOfHeader < header.size())
    return cut(gotOfHeader, header.size());
  POLYRANK_ASSIGN(block, readFeedBlock(header, layout.inputs(),
                                       feedDataLimit(layout.batchBytes())));
  return std::optional(std::move(block));
}

Result<void> FeedBatches::checkSample(const FeedBlock &block) {
  if (!block.sample) {
    if (next == first && first > 0)
      exact = false;
    return {};
  }
  if (*block.sample == next || !exact)
    return {};
  if (next == first)
    return Error{fmt::format(
        "it begins with sample {}, but the run goes on with sample {} "
        "(POLYRANK_FEED_FIRST); give polyrank.feed() a function that takes the "
        "number of its first sample, or leave \"sample\" out of the blocks",
        *block.sample, first)};
  return Error{fmt::format("a block begins with sample {}, but the one before "
                           "it ends before sample {}: one was lost or written "
                           "twice",
                           *block.sample, next)};
}

Result<void> FeedBatches::addRows(const FeedBlock &block,
                                  std::span<const std::byte> data) {
  for (uint64_t row = 0; row < block.rows;) {
    uint64_t number = next / layout.batch();
    if (filled == 0)
      batch = ends.room(number);
    if (batch.empty())
      return Error{"the run has ended", Error::Fault::Rank};
    uint64_t count = std::min(block.rows - row, layout.batch() - filled);
    for (size_t input = 0; input < layout.inputs().size(); ++input) {
      const InputSpec &spec = layout.inputs()[input];
      if (!spec.hasBatch() && filled > 0)
        continue; // the batch has it already
      std::byte *into =
          batch.data() + layout.offsetOf(input) +
          (spec.hasBatch() ? filled * static_cast<uint64_t>(spec.rowBytes())
                           : 0);
      if (Result<void> done =
              convertRows({block, input, row, count, next - row, allowsNan},
                          spec, data, into);
          !done)
        return done;
    }
    row += count;
    next += count;
    filled += count;
    if (filled < layout.batch())
      continue;
    ends.publish(number);
    filled = 0;
  }
  return {};
}

Result<std::unique_ptr<Feed>> Feed::start(const FeedOptions &options,
                                          FeedLayout layout, int ranks,
                                          uint64_t first) {
  POLYRANK_ASSIGN(ring, FeedRing::create(layout, ranks, first));
  POLYRANK_ASSIGN(input, FeedInput::open(options.name, first * layout.batch(),
                                         options.say));
  return std::unique_ptr<Feed>(new Feed(
      options, std::move(layout), std::move(ring), std::move(input), first));
}

Feed::Feed(const FeedOptions &options, FeedLayout given, FeedRing shared,
           std::unique_ptr<FeedInput> opened, uint64_t first)
    : options(options), layout(std::move(given)), ring(std::move(shared)),
      input(std::move(opened)),
      batches(layout, first * layout.batch(), options.allowsNan,
              {[this](void *into, size_t size) {
                 return input->read(into, size, this->options.limit,
                                    [this] { return isOver.load(); });
               },
               [this](uint64_t number) {
                 return ring.room(number, [this] { return isOver.load(); });
               },
               [this](uint64_t number) { ring.publish(number); }}),
      worker([this] { run(); }) {}

Feed::~Feed() {
  isOver = true;
  worker.join();
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
  ring.fail(error.saying(fmt::format("{}: {}{}", options.name.describe(),
                                     error.message, input->lastLines())));
}

Result<void> Feed::runToTheEnd() {
  POLYRANK_ASSIGN(isWhole, batches.run());
  if (Result<void> well = input->finish(isWhole); !well)
    return well;
  // A run that goes on may have had all of them.
  if (batches.samples() < layout.batch() && batches.isFromTheStart())
    return Error{fmt::format(
        "it ended after {} samples, and a batch has {}; {}", batches.samples(),
        layout.batch(),
        batches.samples() == 0
            ? "a feed writes blocks to the file that POLYRANK_FEED names, as "
              "polyrank.feed() of Python does; what it prints is only shown"
            : "give it more, or compile the plan for a smaller batch")};
  note(fmt::format(
      "{} has ended after {} samples{}; so does the run, after the step with "
      "the last of them",
      options.name.describe(), batches.samples(),
      batches.samplesLeft() == 0
          ? ""
          : fmt::format(
                ", of which the last {} are no batch of {} and not used",
                batches.samplesLeft(), layout.batch())));
  return {};
}

} // namespace polyrank::runtime
