// The geometry of the collectives, and strided copies.

#include "runtime/comm/RowCopies.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <iterator>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace polyrank::runtime {
namespace {

/// Returns the overlap of the widened row of member `me` with the row of member
/// `other`: elements [begin, end), counted from the first member's row.
std::pair<int64_t, int64_t> overlapOf(const Transfer &transfer, int me,
                                      int other) {
  int64_t inner = transfer.inner;
  int64_t begin = std::max(me * inner - transfer.low, other * inner);
  int64_t end = std::min((me + 1) * inner + transfer.high, (other + 1) * inner);
  return {begin, std::max(begin, end)};
}

Error malformed(const Collective &collective, const std::string &what) {
  return {std::string(nameOf(collective.kind)) + " of value " +
              std::to_string(collective.id) + ": " + what,
          Error::Fault::Rank};
}

/// Returns true if [a, a + sizeA) and [b, b + sizeB) overlap. Neither range
/// wraps.
bool overlap(uint64_t a, uint64_t sizeA, uint64_t b, uint64_t sizeB) {
  return a < b + sizeB && b < a + sizeA;
}

Result<void> checkTransfer(const Collective &collective,
                           const Transfer &transfer, int members, int me,
                           uint64_t sharedSize) {
  int64_t element = bytesOf(collective.dtype);
  if (std::string fault =
          findFault(collective.kind, transfer, members, element);
      !fault.empty())
    return malformed(collective, fault);
  TransferElements elements = elementsOf(collective.kind, transfer, members);
  uint64_t inputBytes = elements.input * element;
  uint64_t outputBytes = elements.output * element;
  auto outside = [&](uint64_t offset, uint64_t bytes) {
    return offset > sharedSize || bytes > sharedSize - offset ||
           offset % element != 0;
  };
  if (outside(transfer.input, inputBytes) ||
      outside(transfer.output, outputBytes))
    return malformed(collective,
                     "a buffer is misaligned or outside the shared region of " +
                         std::to_string(sharedSize) + " bytes (input " +
                         std::to_string(inputBytes) + " bytes at " +
                         std::to_string(transfer.input) + ", output " +
                         std::to_string(outputBytes) + " bytes at " +
                         std::to_string(transfer.output) + ")");

  auto blockOf = [&](uint64_t whole) {
    return whole + me * transfer.inner * element;
  };
  bool inPlace = isInPlace(inPlaceOf(collective.kind, transfer.outer),
                           transfer.input, transfer.output, blockOf);
  if (!inPlace &&
      overlap(transfer.input, inputBytes, transfer.output, outputBytes))
    return malformed(collective, "the output overlaps the input");
  return {};
}

} // namespace

Result<void> checkCollective(const Collective &collective, int members, int me,
                             uint64_t sharedSize) {
  int kind = static_cast<int>(collective.kind);
  int dtype = static_cast<int>(collective.dtype);
  if (kind < 0 || kind >= numCollectiveKinds || dtype < 0 ||
      dtype >= numProgramTypes)
    return malformed(collective, "unknown kind or element type");
  for (const std::string &fault :
       {findFault(collective.kind, collective.reduction),
        findFault(collective.kind, collective.permutation, members)})
    if (!fault.empty())
      return malformed(collective, fault);
  for (const Transfer &transfer : collective.transfers)
    if (auto ok = checkTransfer(collective, transfer, members, me, sharedSize);
        !ok)
      return ok;
  return {};
}

int sourcesOf(CollectiveKind kind, int members) {
  return ruleOf(kind).resizing == Resizing::None ? 1 : members;
}

RowCopy copyOf(const Collective &collective, const Transfer &transfer,
               int members, int me, int number) {
  int64_t element = bytesOf(collective.dtype);
  int64_t inner = transfer.inner * element;
  RowCopy copy;
  // Each member begins with its own data, so that members read from different
  // memory.
  copy.source = (me + number) % members;
  switch (collective.kind) {
  case CollectiveKind::AllGather:
    copy.rows = transfer.outer;
    copy.run = inner;
    copy.rowFrom = inner;
    copy.rowTo = members * inner;
    copy.to = copy.source * inner;
    break;
  case CollectiveKind::AllToAll: {
    int64_t x = transfer.x, middle = transfer.middle, y = transfer.y;
    copy.outer = transfer.outer;
    copy.outerFrom = copy.outerTo = x * middle * y * inner;
    if (transfer.splitFirst) {
      copy.rows = x / members * middle;
      copy.run = y * inner;
      copy.rowFrom = y * inner;
      copy.rowTo = members * y * inner;
      copy.from = me * copy.rows * copy.rowFrom;
      copy.to = copy.source * copy.run;
    } else {
      copy.rows = x * middle;
      copy.run = y / members * inner;
      copy.rowFrom = y * inner;
      copy.rowTo = copy.run;
      copy.from = me * copy.run;
      copy.to = copy.source * copy.rows * copy.rowTo;
    }
    break;
  }
  case CollectiveKind::Halo: {
    auto [begin, end] = overlapOf(transfer, me, copy.source);
    copy.rows = begin < end ? transfer.outer : 0;
    copy.run = (end - begin) * element;
    copy.rowFrom = inner;
    copy.rowTo = inner + (transfer.low + transfer.high) * element;
    copy.from = begin * element - copy.source * inner;
    copy.to = (begin + transfer.low) * element - me * inner;
    break;
  }
  case CollectiveKind::Permute:
    copy.source = collective.permutation[me];
    copy.run = inner;
    break;
  case CollectiveKind::Broadcast:
    copy.source = 0;
    copy.run = inner;
    break;
  case CollectiveKind::AllReduce:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::HaloAdd:
    assert(false && "kinds that reduce are no copies");
    break;
  }
  return copy;
}

namespace {

template <typename T>
void copyElements(const std::byte *from, int64_t fromStride, std::byte *to,
                  int64_t toStride, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(to + row * toStride, from + row * fromStride, sizeof(T));
}

using Vector = int64_t __attribute__((vector_size(16)));

/// Stores `value` so that it bypasses the caches. g++ has an intrinsic for x86
/// alone; for other machines it stores as usual.
void storePastCaches(Vector value, Vector *to) {
#if __has_builtin(__builtin_nontemporal_store)
  __builtin_nontemporal_store(value, to);
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i *>(to),
                   reinterpret_cast<__m128i>(value));
#else
  *to = value;
#endif
}

/// Copies a row; with `past`, its whole cache lines bypass the caches.
void copyRow(const std::byte *from, std::byte *to, int64_t bytes, bool past) {
  constexpr int64_t line = 64, shortest = 4096;
  if (past && bytes >= shortest) {
    int64_t head = -reinterpret_cast<uintptr_t>(to) % line;
    std::memcpy(to, from, head);
    from += head, to += head, bytes -= head;
    for (; bytes >= line; from += line, to += line, bytes -= line) {
      Vector values[line / sizeof(Vector)];
      std::memcpy(values, from, line);
      for (size_t v = 0; v < std::size(values); ++v)
        storePastCaches(values[v], reinterpret_cast<Vector *>(to) + v);
    }
    // Non-temporal stores are ordered only by a fence.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  std::memcpy(to, from, bytes);
}

void copyWholeRows(const std::byte *from, int64_t fromStride, std::byte *to,
                   int64_t toStride, int64_t run, int64_t rows, bool past) {
  if (run == fromStride && run == toStride) {
    run *= rows;
    rows = 1;
  }
  switch (run) {
  case 2:
    return copyElements<uint16_t>(from, fromStride, to, toStride, rows);
  case 4:
    return copyElements<uint32_t>(from, fromStride, to, toStride, rows);
  case 8:
    return copyElements<uint64_t>(from, fromStride, to, toStride, rows);
  }
  for (int64_t row = 0; row < rows; ++row)
    copyRow(from + row * fromStride, to + row * toStride, run, past);
}

} // namespace

void copyRows(const RowCopy &copy, const std::byte *input, std::byte *output,
              int64_t begin, int64_t end, bool past) {
  const std::byte *inputBase = input + copy.from;
  std::byte *outputBase = output + copy.to;
  int64_t perOuter = copy.rows * copy.run;
  while (begin < end) {
    int64_t outer = begin / perOuter, within = begin % perOuter;
    int64_t row = within / copy.run, skipped = within % copy.run;
    const std::byte *from =
        inputBase + outer * copy.outerFrom + row * copy.rowFrom;
    std::byte *to = outputBase + outer * copy.outerTo + row * copy.rowTo;
    if (skipped != 0 || end - begin < copy.run) {
      int64_t bytes = std::min(copy.run - skipped, end - begin);
      copyRow(from + skipped, to + skipped, bytes, past);
      begin += bytes;
      continue;
    }
    int64_t rows = std::min(copy.rows - row, (end - begin) / copy.run);
    copyWholeRows(from, copy.rowFrom, to, copy.rowTo, copy.run, rows, past);
    begin += rows * copy.run;
  }
}

uint64_t bytesMoved(const Collective &collective, int members, int me) {
  CollectiveKind kind = collective.kind;
  uint64_t bytes = 0;
  for (const Transfer &transfer : collective.transfers)
    if (ruleOf(kind).hasBorders()) {
      for (int other = 0; other < members; ++other)
        if (auto [begin, end] = overlapOf(transfer, me, other); other != me)
          bytes += transfer.outer * (end - begin) * bytesOf(collective.dtype);
    } else if (kind != CollectiveKind::Permute ||
               collective.permutation[me] != me) {
      TransferElements elements = elementsOf(kind, transfer, members);
      bytes +=
          sentBytes(kind, members, elements.input * bytesOf(collective.dtype),
                    elements.output * bytesOf(collective.dtype));
    }
  return bytes;
}

std::string describe(CollectiveKind kind, Reduction reduction,
                     ElementType dtype, int64_t elements) {
  std::string text = nameOf(kind);
  if (ruleOf(kind).reduces)
    text += std::string(" ") + nameOf(reduction);
  return text + " " + nameOf(dtype) + " of " + std::to_string(elements) +
         " elements";
}

} // namespace polyrank::runtime
