// One writer and many readers, who sleep on two words.

#include "runtime/feed/FeedRing.h"

#include "support/Futex.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <new>

namespace polyrank::runtime {

/// The memory begins with this. The needs of the ranks follow, and the batches
/// begin at `batchesBegin`.
struct FeedRing::Head {
  enum class State : uint32_t { Open, Ended, Failed };

  std::atomic<uint64_t> published; // the batches before this one are there
  std::atomic<State> state;
  std::atomic<uint32_t> written, taken; // change with what either side does
  Error::Fault fault;
  uint32_t errorLength;
  char error[8192];
};

namespace {

constexpr uint64_t pageBytes = 4096;

uint64_t alignedTo(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

template <typename Head>
uint64_t batchesBegin(int ranks) {
  return alignedTo(sizeof(Head) +
                       static_cast<uint64_t>(ranks) * sizeof(uint64_t),
                   pageBytes);
}

} // namespace

FeedLayout::FeedLayout(std::vector<InputSpec> inputs, uint64_t batch)
    : specs(std::move(inputs)), rows(batch), offsets{0} {
  constexpr uint64_t alignment = 64;
  for (const InputSpec &spec : specs)
    offsets.push_back(offsets.back() +
                      alignedTo(static_cast<uint64_t>(spec.rowBytes()) *
                                    (spec.hasBatch() ? batch : 1),
                                alignment));
}

uint64_t FeedLayout::ringBytes(int ranks) const {
  // The head takes no more than a few pages.
  constexpr uint64_t headPages = 4;
  return headPages * pageBytes +
         alignedTo(static_cast<uint64_t>(ranks) * sizeof(uint64_t), pageBytes) +
         slots * batchBytes();
}

FeedRing::FeedRing(const FeedLayout &layout, int ranks, Descriptor file,
                   SharedMapping mapping)
    : file(std::move(file)), mapping(std::move(mapping)),
      batchBytes(layout.batchBytes()), ranks(ranks) {}

Result<FeedRing> FeedRing::create(const FeedLayout &layout, int ranks,
                                  uint64_t first) {
  POLYRANK_ASSIGN(memory,
                  createSharedMemory("polyrank-feed", layout.ringBytes(ranks)));
  POLYRANK_ASSIGN(mapped,
                  SharedMapping::map(memory.get(), "the batches of the feed"));
  FeedRing ring(layout, ranks, std::move(memory), std::move(mapped));
  Head *head = new (ring.mapping.data()) Head{};
  head->published = first;
  for (int rank = 0; rank < ranks; ++rank)
    new (ring.needs() + rank) std::atomic<uint64_t>(first);
  return std::move(ring);
}

Result<FeedRing> FeedRing::map(int descriptor, const FeedLayout &layout,
                               int ranks) {
  POLYRANK_ASSIGN(mapped,
                  SharedMapping::map(descriptor, "the batches of the feed"));
  if (mapped.size() != layout.ringBytes(ranks))
    return Error{fmt::format("the batches of the feed have {} bytes of memory, "
                             "and this rank needs {}",
                             mapped.size(), layout.ringBytes(ranks)),
                 Error::Fault::Rank};
  return FeedRing(layout, ranks, Descriptor(), std::move(mapped));
}

FeedRing::Head &FeedRing::head() const {
  return *std::launder(reinterpret_cast<Head *>(mapping.data()));
}

std::atomic<uint64_t> *FeedRing::needs() const {
  return reinterpret_cast<std::atomic<uint64_t> *>(mapping.data() +
                                                   sizeof(Head));
}

void FeedRing::change() {
  ++head().written;
  wakeAll(head().written);
}

std::span<std::byte> FeedRing::room(uint64_t number,
                                    const std::function<bool()> &isOver) {
  while (!isOver()) {
    uint32_t seen = head().taken;
    uint64_t least = UINT64_MAX;
    for (int rank = 0; rank < ranks; ++rank)
      least = std::min(least, needs()[rank].load());
    if (number < least + FeedLayout::slots)
      return {mapping.data() + batchesBegin<Head>(ranks) +
                  number % FeedLayout::slots * batchBytes,
              static_cast<size_t>(batchBytes)};
    sleepWhile(head().taken, seen);
  }
  return {};
}

void FeedRing::publish(uint64_t number) {
  head().published = number + 1;
  change();
}

void FeedRing::end() {
  head().state = Head::State::Ended;
  change();
}

void FeedRing::fail(const Error &error) {
  Head &shared = head();
  shared.errorLength = static_cast<uint32_t>(
      std::min(error.message.size(), sizeof(shared.error)));
  std::memcpy(shared.error, error.message.data(), shared.errorLength);
  shared.fault = error.fault;
  shared.state = Head::State::Failed;
  change();
}

std::optional<Result<bool>> FeedRing::look(int rank, uint64_t number) {
  Head &shared = head();
  if (needs()[rank].load() < number) {
    needs()[rank] = number;
    ++shared.taken;
    wakeAll(shared.taken);
  }
  // The state is read first: whoever sees the end also sees all batches that
  // were published before it.
  Head::State state = shared.state;
  if (number < shared.published)
    return Result<bool>(true);
  switch (state) {
  case Head::State::Open:
    return std::nullopt;
  case Head::State::Ended:
    return Result<bool>(false);
  case Head::State::Failed:
    break;
  }
  return Result<bool>(
      Error{std::string(shared.error, shared.errorLength), shared.fault});
}

uint32_t FeedRing::changes() const { return head().written; }

void FeedRing::sleepSince(uint32_t seen) { sleepWhile(head().written, seen); }

std::span<const std::byte> FeedRing::batch(uint64_t number) const {
  return {mapping.data() + batchesBegin<Head>(ranks) +
              number % FeedLayout::slots * batchBytes,
          static_cast<size_t>(batchBytes)};
}

Result<bool> RingStream::await(uint64_t number,
                               const std::function<Result<void>()> &beat) {
  for (;;) {
    uint32_t seen = ring.changes();
    if (std::optional<Result<bool>> known = ring.look(rank, number))
      return *std::move(known);
    if (isCancelled)
      return Error{"the rank ends", Error::Fault::Rank};
    if (Result<void> goesOn = beat(); !goesOn)
      return goesOn.error();
    ring.sleepSince(seen);
  }
}

void RingStream::read(uint64_t number, size_t input, int64_t begin, int64_t end,
                      std::byte *into) const {
  const InputSpec &spec = layout.inputs()[input];
  auto bytes = static_cast<size_t>(spec.rowBytes());
  const std::byte *rows = ring.batch(number).data() + layout.offsetOf(input);
  if (spec.hasBatch()) {
    std::memcpy(into, rows + static_cast<size_t>(begin) * bytes,
                static_cast<size_t>(end - begin) * bytes);
    return;
  }
  for (int64_t row = begin; row < end; ++row, into += bytes)
    std::memcpy(into, rows, bytes);
}

} // namespace polyrank::runtime
