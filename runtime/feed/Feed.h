// Reads the feeds of a run and fills the batches that ranks take.

#pragma once

#include "runtime/feed/FeedBatches.h"
#include "runtime/feed/FeedRing.h"
#include "runtime/feed/FeedSources.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace polyrank::runtime {

struct FeedOptions {
  std::vector<FeedSource> feeds; // one, or several that are mixed
  /// A feed that gives nothing for this long fails.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  bool allowsNan = false;
  FeedInput::Say say; // shows the lines that the commands write
};

/// Feeds that run as long as this object lives.
class Feed {
public:
  /// Starts them. Batch number `first` is the first that the ranks want.
  static Result<std::unique_ptr<Feed>> start(const FeedOptions &options,
                                             FeedLayout layout, int ranks,
                                             uint64_t first);
  ~Feed();

  /// Returns the file descriptor of the memory that the ranks map.
  int descriptor() const { return ring.descriptor(); }
  /// Returns the name of a feed that does not say with which sample it begins,
  /// although that is not the first; empty if there is none.
  std::string findInexact() const;
  /// Returns the messages for the user that came since the last call.
  std::vector<std::string> takeNotes();

private:
  Feed(const FeedOptions &options, FeedLayout layout, FeedRing ring,
       SourceMix mix, std::vector<std::unique_ptr<FeedInput>> inputs,
       uint64_t first);
  void run();
  Result<void> runToTheEnd();
  FeedPatience patienceWith(size_t source);
  /// What is said when a feed has ended well.
  std::string describeEnd() const;
  void note(const std::string &text);
  /// The feed, and what is read of it, of which the latest row or the error is.
  const FeedName &name() const { return options.feeds[batches.source()].name; }
  FeedInput &input() const { return *inputs[batches.source()]; }
  const FeedReader &reader() const { return *readers[batches.source()]; }

  FeedOptions options;
  FeedLayout layout;
  FeedRing ring;
  SourceMix mix;
  std::vector<std::unique_ptr<FeedInput>> inputs;
  std::vector<std::unique_ptr<FeedReader>> readers;
  FeedBatches batches;
  std::atomic<bool> isOver = false;
  std::mutex mutex;
  std::vector<std::string> notes;
  std::thread worker; // the last member, since it uses the others
};

} // namespace polyrank::runtime
