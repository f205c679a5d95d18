// From bytes to blocks, and from blocks to rows.

#include "runtime/feed/FeedReader.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>

namespace polyrank::runtime {

Result<bool> FeedReader::awaitRow() {
  if (row < block.rows)
    return true;
  POLYRANK_ASSIGN(head, readHead());
  if (!head || head->isEnd) {
    whole = head.has_value();
    return false;
  }
  if (Result<void> follows = checkSample(*head); !follows)
    return follows.error();
  data.resize(head->dataBytes);
  POLYRANK_ASSIGN(got, read(data.data(), data.size()));
  if (got < data.size())
    return Error{fmt::format("it ended within a block: after {} of the {} "
                             "bytes of its arrays",
                             got, data.size()),
                 Error::Fault::Rank};
  block = *std::move(head);
  row = 0;
  return true;
}

Result<std::optional<FeedBlock>> FeedReader::readHead() {
  std::array<std::byte, sizeof(uint64_t)> start{};
  POLYRANK_ASSIGN(got, read(start.data(), start.size()));
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
  POLYRANK_ASSIGN(gotOfHeader, read(header.data(), header.size()));
  if (gotOfHeader < header.size())
    return cut(gotOfHeader, header.size());
  POLYRANK_ASSIGN(found, readFeedBlock(header, layout.inputs(),
                                       feedDataLimit(layout.batchBytes())));
  return std::optional(std::move(found));
}

Result<void> FeedReader::checkSample(const FeedBlock &following) {
  if (!following.sample) {
    if (next == first && first > 0)
      exact = false;
    return {};
  }
  if (*following.sample == next || !exact)
    return {};
  if (next == first)
    return Error{fmt::format(
        "it begins with sample {}, but the run goes on with sample {} "
        "(POLYRANK_FEED_FIRST); give polyrank.feed() a function that takes the "
        "number of its first sample, or leave \"sample\" out of the blocks",
        *following.sample, first)};
  return Error{fmt::format("a block begins with sample {}, but the one before "
                           "it ends before sample {}: one was lost or written "
                           "twice",
                           *following.sample, next)};
}

Result<uint64_t> FeedReader::take(uint64_t most, std::span<std::byte> batch,
                                  uint64_t at) {
  uint64_t count = std::min(block.rows - row, most);
  for (size_t input = 0; input < layout.inputs().size(); ++input) {
    const InputSpec &spec = layout.inputs()[input];
    if (!spec.hasBatch() && at > 0)
      continue; // the batch has it already
    std::byte *into =
        batch.data() + layout.offsetOf(input) +
        (spec.hasBatch() ? at * static_cast<uint64_t>(spec.rowBytes()) : 0);
    if (Result<void> done =
            convertRows({block, input, row, count, next - row, allowsNan}, spec,
                        data, into);
        !done)
      return done.error();
  }
  row += count;
  next += count;
  return count;
}

} // namespace polyrank::runtime
