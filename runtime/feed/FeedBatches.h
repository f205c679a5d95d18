// Fills batches with rows of feeds.

#pragma once

#include "runtime/data/SourceMix.h"
#include "runtime/feed/FeedReader.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// Takes each row from the feed that the mix names for its position. A part of
/// a batch at the end of a feed is not used.
class FeedBatches {
public:
  /// The functions that store batches.
  struct Ends {
    /// Returns the memory of a batch; empty if the run has ended.
    std::function<std::span<std::byte>(uint64_t number)> room;
    std::function<void(uint64_t number)> publish;
  };
  /// Begins with batch `first`. Reader s gives the rows of source s from number
  /// `firstSample(mix, s, ..)` on.
  FeedBatches(const FeedLayout &layout, const SourceMix &mix,
              std::span<const std::unique_ptr<FeedReader>> readers,
              uint64_t first, Ends ends)
      : layout(layout), mix(mix), readers(readers), number(first),
        ends(std::move(ends)) {}

  /// The number of the first sample of a source that batch `first` or a later
  /// one has.
  static uint64_t firstSample(const SourceMix &mix, size_t source,
                              const FeedLayout &layout, uint64_t first) {
    return mix.countBefore(source, first * layout.batch());
  }

  /// Runs until one of the feeds ends, or fails.
  Result<void> run();

  /// The source of the latest row, or of the error.
  size_t source() const { return current; }
  /// The number of the batch that is being filled, and of its rows that are
  /// there.
  uint64_t batchNumber() const { return number; }
  uint64_t rowsOfBatch() const { return filled; }

private:
  /// How many of the next positions go to the current source, at most as many
  /// as the batch still takes.
  uint64_t inARow() const;

  const FeedLayout &layout;
  const SourceMix &mix;
  std::span<const std::unique_ptr<FeedReader>> readers;
  uint64_t number, filled = 0;
  size_t current = 0;
  Ends ends;
  std::span<std::byte> batch; // the one that is being filled
};

} // namespace polyrank::runtime
