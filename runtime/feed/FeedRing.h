// Batches in memory that the launcher fills and all ranks read.

#pragma once

#include "runtime/data/SampleFile.h"
#include "runtime/data/SampleStream.h"
#include "support/SharedMemory.h"

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// The layout of a ring: of each batch one array after another, each with its
/// rows in the dtype of the input.
class FeedLayout {
public:
  /// `batch` is the number of samples in a step.
  FeedLayout(std::vector<InputSpec> inputs, uint64_t batch);

  const std::vector<InputSpec> &inputs() const { return specs; }
  uint64_t batch() const { return rows; }
  /// The bytes of a batch, and those before an input in it.
  uint64_t batchBytes() const { return offsets.back(); }
  uint64_t offsetOf(size_t input) const { return offsets[input]; }
  /// The bytes of the whole ring.
  uint64_t ringBytes(int ranks) const;

  /// So many batches are kept: one that is read, the one after it, which is
  /// read ahead, and others that come early.
  static constexpr uint64_t slots = 4;

private:
  std::vector<InputSpec> specs;
  uint64_t rows;
  std::vector<uint64_t> offsets; // and the end
};

/// What launcher and ranks share. Batch `number` is in slot `number` modulo
/// FeedLayout::slots until all ranks have asked for a later one.
class FeedRing {
public:
  /// Creates the memory. The first batch that is wanted is number `first`.
  static Result<FeedRing> create(const FeedLayout &layout, int ranks,
                                 uint64_t first);
  /// Maps what the launcher has created. Fails if its size is another one.
  static Result<FeedRing> map(int descriptor, const FeedLayout &layout,
                              int ranks);

  int descriptor() const { return file.get(); }

  // The launcher's side.

  /// The memory of a batch, once no rank needs the one that was there. Empty if
  /// `isOver` returns true before that; it is asked every 100 ms.
  std::span<std::byte> room(uint64_t number,
                            const std::function<bool()> &isOver);
  /// Batches up to this one are there.
  void publish(uint64_t number);
  /// No batch follows those that are there: because of an error, or since the
  /// feed has ended.
  void end();
  void fail(const Error &error);

  // A rank's side.

  /// Tells that this rank needs no batch before `number`, and whether that one
  /// is there: the answer of SampleStream::await, or nothing if it is not known
  /// yet.
  std::optional<Result<bool>> look(int rank, uint64_t number);
  /// Sleeps until something has changed since `seen`, at most 100 ms.
  void sleepSince(uint32_t seen);
  /// Changes with everything that the launcher does.
  uint32_t changes() const;
  std::span<const std::byte> batch(uint64_t number) const;

private:
  struct Head;
  FeedRing(const FeedLayout &layout, int ranks, Descriptor file,
           SharedMapping mapping);
  Head &head() const;
  /// The first batch that a rank still needs, for each rank.
  std::atomic<uint64_t> *needs() const;
  void change();

  Descriptor file; // of the launcher
  SharedMapping mapping;
  uint64_t batchBytes;
  int ranks;
};

/// A rank's view of a ring.
class RingStream : public SampleStream {
public:
  RingStream(FeedRing ring, FeedLayout layout, int rank)
      : ring(std::move(ring)), layout(std::move(layout)), rank(rank) {}

  Result<bool> await(uint64_t number,
                     const std::function<Result<void>()> &beat) override;
  void read(uint64_t number, size_t input, int64_t begin, int64_t end,
            std::byte *into) const override;
  void cancel() override { isCancelled = true; }

private:
  FeedRing ring;
  FeedLayout layout;
  int rank;
  std::atomic<bool> isCancelled = false;
};

} // namespace polyrank::runtime
