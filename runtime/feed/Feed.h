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
  /// A feed that gives nothing for this long fails.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  bool allowsNan = false;
  FeedInput::Say say; // shows the lines that the command writes
};

/// Assembles the blocks of a feed to batches. A part of a batch at the end of
/// the feed is not used.
class FeedBatches {
public:
  /// The functions that read the feed's bytes and store its batches.
  struct Ends {
    /// Reads this many bytes, or less at the end.
    std::function<Result<size_t>(void *into, size_t size)> read;
    /// Returns the memory of a batch; empty if the run has ended.
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
  /// The number of the last samples, which do not fill a batch.
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
  std::span<std::byte> batch; // the one that is being filled
  uint64_t filled = 0;        // the number of its rows that are there
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

  /// Returns the file descriptor of the memory that the ranks map.
  int descriptor() const { return ring.descriptor(); }
  bool isExact() const { return batches.isExact(); }
  /// Returns the messages for the user that came since the last call.
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
