// The copies that each kind of collective consists of: which bytes of which
// member become which bytes of an output.

#pragma once

#include "runtime/comm/Communicator.h"

namespace polyrank::runtime {

/// Checks one collective by itself: kind, type, reduction, sources and shapes
/// are valid (runtime/plan/Collectives.h); the buffers lie within `sharedSize`
/// bytes, are aligned, and alias only as Communicator.h allows. `me` is this
/// rank's position among the `members`.
Result<void> checkCollective(const Collective &collective, int members, int me,
                             uint64_t sharedSize);

/// `rows` equal runs of bytes, from one member's input to this rank's output;
/// all offsets and strides in bytes, relative to the two buffers.
struct RowCopy {
  int source = 0;                                // member
  int64_t outer = 1, outerFrom = 0, outerTo = 0; // strides of the outer loop
  int64_t rows = 1, rowFrom = 0, rowTo = 0;      // strides of the inner loop
  int64_t from = 0, to = 0;
  int64_t run = 0;

  int64_t bytes() const { return outer * rows * run; }
};

/// `copyOf` returns what member `me` copies from its source number `number`, of
/// which there are `sourcesOf`. Not for the kinds that reduce.
int sourcesOf(CollectiveKind kind, int members);
RowCopy copyOf(const Collective &collective, const Transfer &transfer,
               int members, int me, int number);

/// Copies bytes [begin, end) of the copy, counted row by row. With `past`, long
/// rows are written with non-temporal stores, which bypass the caches. That is
/// faster if the output is not read soon or does not fit the caches, because a
/// cache line is not loaded before it is overwritten.
void copyRows(const RowCopy &copy, const std::byte *input, std::byte *output,
              int64_t begin, int64_t end, bool past = false);

/// See CollectiveStatistics::bytes.
uint64_t bytesMoved(const Collective &collective, int members, int me);

/// "all_reduce sum f32 of 12 elements", for messages.
std::string describe(CollectiveKind kind, Reduction reduction,
                     ElementType dtype, int64_t elements);

} // namespace polyrank::runtime
