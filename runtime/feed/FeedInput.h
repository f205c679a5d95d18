// The source of a feed's bytes: a command, or a FIFO.

#pragma once

#include "support/File.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace polyrank::runtime {

/// The value of a --data option that names a feed: `command:python loader.py`,
/// `fifo:PATH`, or the path of a FIFO.
struct FeedName {
  enum class Kind { Command, Fifo };
  Kind kind = Kind::Command;
  std::string text;  // the command, or the path
  std::string given; // as the user wrote it

  bool isCommand() const { return kind == Kind::Command; }
  /// "the feed 'python loader.py'".
  std::string describe() const { return "the feed '" + text + "'"; }
};
std::optional<FeedName> feedNameOf(const std::string &given);

/// How long a reader waits for bytes.
struct FeedPatience {
  std::chrono::milliseconds limit;
  std::function<bool()> isOver; // asked every 100 ms; true ends the wait
  /// Called once for a feed, when nothing has come for some seconds, with what
  /// there is to say.
  std::function<void(const std::string &text)> note;
};

/// The bytes that a feed writes, in order. One thread reads.
class FeedInput {
public:
  virtual ~FeedInput() = default;

  /// Starts the command, or opens the FIFO. A command finds in POLYRANK_FEED
  /// the path of the file that it is to write blocks to, and in
  /// POLYRANK_FEED_FIRST the number of the sample with which it is to begin.
  /// Its output and its errors go to `say` by lines, as far as they are few, in
  /// another thread; each line begins with `mark` ("feed"). To be called by the
  /// thread that lives as long as the process: the shell of the command is
  /// killed with it, and what the shell has started ends at its next write,
  /// since nobody reads any more.
  using Say = std::function<void(const std::string &text)>;
  static Result<std::unique_ptr<FeedInput>> open(const FeedName &name,
                                                 uint64_t first,
                                                 const std::string &mark,
                                                 const Say &say);

  /// Reads `size` bytes. Returns their number, which is less only at the end.
  /// Fails if nothing comes for as long as the patience lasts.
  Result<size_t> read(void *into, size_t size, const FeedPatience &patience);

  /// Fails if whoever wrote the feed did not end well; `isWhole` is true if it
  /// said that the feed ends.
  virtual Result<void> finish(bool isWhole) = 0;
  /// Returns the text that is added to an error of the feed: the last lines of
  /// the command, after a line break.
  virtual std::string lastLines() { return ""; }

protected:
  explicit FeedInput(Descriptor file) : file(std::move(file)) {}

  /// Called after a read of 0 bytes. True if that means the end of the feed.
  virtual bool isAtEnd() = 0;
  /// True if whoever writes has ended, although others may have the file open.
  virtual bool isGone() { return false; }
  /// Returns the reason why nothing comes, as the end of a message that begins
  /// with the time ("for 5 seconds ...").
  virtual std::string whyNothing() const = 0;

  Descriptor file;
  bool hasBegun = false; // some bytes have come

private:
  /// The end of a message about nothing that comes.
  std::string nothingFor(std::chrono::milliseconds time) const;

  bool isNoted = false; // the reader was told that nothing comes
};

/// The lines that a command writes to standard error: the first are shown, and
/// the last are kept.
class FeedLines {
public:
  explicit FeedLines(std::string mark) : mark(std::move(mark)) {}

  /// Takes bytes, which may end within a line. Returns what is to be shown.
  std::string take(std::string_view bytes);
  /// The last lines, each after a line break and four spaces.
  std::string last() const;

  static constexpr size_t shownLines = 200, keptLines = 12, longestLine = 500;

private:
  std::string mark; // before each line that is shown
  std::deque<std::string> kept;
  std::string line;
  size_t lines = 0;
  bool isCut = false; // the line is longer than what is kept of it
};

} // namespace polyrank::runtime
