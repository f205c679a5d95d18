// Reads the blocks of one feed.

#pragma once

#include "runtime/feed/FeedBlock.h"
#include "runtime/feed/FeedRing.h"

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// Gives the rows of a feed one after another, whatever its blocks are.
class FeedReader {
public:
  /// Reads this many bytes, or less at the end.
  using Read = std::function<Result<size_t>(void *into, size_t size)>;

  /// The first row is to be that of sample `first`.
  FeedReader(const FeedLayout &layout, uint64_t first, bool allowsNan,
             Read read)
      : layout(layout), first(first), next(first), allowsNan(allowsNan),
        read(std::move(read)) {}

  /// Waits for the next row. Returns false at the end of the feed.
  Result<bool> awaitRow();
  /// Converts rows of the block that has the next one, at most `most` of them,
  /// and stores them from row `at` of a batch on. Returns how many.
  Result<uint64_t> take(uint64_t most, std::span<std::byte> batch, uint64_t at);

  /// The number of rows that were taken.
  uint64_t samples() const { return next - first; }
  /// True if the feed has said that it ends.
  bool isWhole() const { return whole; }
  /// False if the feed did not say with which sample it begins, although that
  /// is not the first. May be asked by any thread.
  bool isExact() const { return exact; }

private:
  /// Reads the head of the next block; nothing at the end of the bytes.
  Result<std::optional<FeedBlock>> readHead();
  /// Fails unless the block is that of the samples that are wanted next.
  Result<void> checkSample(const FeedBlock &following);

  const FeedLayout &layout;
  uint64_t first, next; // numbers of samples
  bool allowsNan, whole = false;
  Read read;
  FeedBlock block;
  std::vector<std::byte> data; // of the block
  uint64_t row = 0;            // the next one of the block
  std::atomic<bool> exact = true;
};

} // namespace polyrank::runtime
