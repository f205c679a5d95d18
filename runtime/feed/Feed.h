// Reads a feed and fills the batches that ranks take.

#pragma once

#include "runtime/feed/FeedBlock.h"
#include "runtime/feed/FeedInput.h"
#include "runtime/feed/FeedRing.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace polyrank::runtime {

struct FeedOptions {
  FeedName name;
  /// How long a feed may give nothing.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  bool allowsNan = false;
  FeedInput::Say say; // shows what the command says
};

/// Assembles the blocks of a feed to batches. A part of a batch at the end of
/// the feed is not used.
class FeedBatches {
public:
  /// Where the bytes come from, and where batches go.
  struct Ends {
    /// Reads this many bytes, or less at the end.
    std::function<Result<size_t>(void *into, size_t size)> read;
    /// The memory of a batch; empty if the run has ended.
    std::function<std::span<std::byte>(uint64_t number)> room;
    std::function<void(uint64_t number)> publish;
  };
  /// Samples begin with number `first`, which is the first of a batch.
  FeedBatches(const FeedLayout &layout, uint64_t first, bool allowsNan,
              Ends ends)
      : layout(layout), first(first), next(first), allowsNan(allowsNan),
        ends(std::move(ends)) {}

  /// Runs until the feed ends. Returns true if it has said that it does.
  Result<bool> run();

  /// The number of samples that were read.
  uint64_t samples() const { return next - first; }
  bool isFromTheStart() const { return first == 0; }
  /// The last of them, which fill no batch.
  uint64_t samplesLeft() const { return filled; }
  /// False if the feed did not say with which sample it begins, although that
  /// is not the first.
  bool isExact() const { return exact; }

private:
  /// Reads the head of the next block; nothing at the end of the bytes.
  Result<std::optional<FeedBlock>> readHead();
  /// Fails unless the block is that of the samples that are wanted next.
  Result<void> checkSample(const FeedBlock &block);
  Result<void> addRows(const FeedBlock &block, std::span<const std::byte> data);

  const FeedLayout &layout;
  uint64_t first, next; // numbers of samples
  bool allowsNan;
  Ends ends;
  std::span<std::byte> batch; // that is being filled
  uint64_t filled = 0;        // rows of it
  std::atomic<bool> exact = true;
};

/// A feed that runs as long as this object lives.
class Feed {
public:
  /// Starts it. Batch number `first` is the first that the ranks want.
  static Result<std::unique_ptr<Feed>> start(const FeedOptions &options,
                                             FeedLayout layout, int ranks,
                                             uint64_t first);
  ~Feed();

  /// The memory for the ranks.
  int descriptor() const { return ring.descriptor(); }
  bool isExact() const { return batches.isExact(); }
  /// What the user is to be told, once each.
  std::vector<std::string> takeNotes();

private:
  Feed(const FeedOptions &options, FeedLayout layout, FeedRing ring,
       std::unique_ptr<FeedInput> input, uint64_t first);
  void run();
  Result<void> runToTheEnd();
  void note(const std::string &text);

  FeedOptions options;
  FeedLayout layout;
  FeedRing ring;
  std::unique_ptr<FeedInput> input;
  FeedBatches batches;
  std::atomic<bool> isOver = false;
  std::mutex mutex;
  std::vector<std::string> notes;
  std::thread worker; // the last member, since it uses the others
};

} // namespace polyrank::runtime
