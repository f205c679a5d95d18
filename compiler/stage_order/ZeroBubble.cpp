// Generates schedules with a split backward: zero-bubble, zero-bubble-v.
//
// Other ranks wait only for the gradient of a stage's input. The gradients of
// weights fill the times in which a rank would be idle.

#include "compiler/stage_order/Generators.h"

#include <algorithm>

using namespace polyrank::stage_order;

namespace {

/// Lists entries. The microbatches of each part of a chunk count up from 0;
/// entries beyond the last microbatch are left out.
class Writer {
public:
  explicit Writer(int64_t microbatches) : microbatches(microbatches) {}

  void add(Part part, int32_t chunk) {
    int64_t microbatch = counts[static_cast<int>(part)][chunk]++;
    if (microbatch < microbatches)
      entries.push_back({part, chunk, static_cast<int32_t>(microbatch)});
  }
  void forward(int32_t chunk) { add(Part::Forward, chunk); }
  void input(int32_t chunk) { add(Part::BackwardInput, chunk); }
  void weight(int32_t chunk) { add(Part::BackwardWeight, chunk); }
  int64_t getCount(Part part, int32_t chunk) const {
    return counts[static_cast<int>(part)][chunk];
  }
  Entries finish() { return std::move(entries); }

private:
  int64_t microbatches;
  int64_t counts[4][2] = {};
  Entries entries;
};

} // namespace

// ZB-H1: every rank may hold as many microbatches as the first rank of 1f1b.
// Rank r begins r microbatches less before its first backward than the first
// rank does, so it may keep r microbatches that lack only their weight
// gradients. It computes these while the last gradients go down to the first
// rank.
Entries polyrank::stage_order::makeZeroBubble(const Sizes &sizes,
                                              int64_t rank) {
  Writer writer(sizes.microbatches);
  for (int64_t i = 0; i < sizes.ranks - 1 - rank; ++i)
    writer.forward(0);
  for (int64_t m = 0; m < sizes.microbatches; ++m) {
    writer.forward(0);
    writer.input(0);
    if (m >= rank)
      writer.weight(0);
  }
  while (writer.getCount(Part::BackwardWeight, 0) < sizes.microbatches)
    writer.weight(0);
  return writer.finish();
}

// ZB-V, in the order of PyTorch's ScheduleZBVZeroBubble: the first rank has the
// first and the last stage. If there are fewer microbatches than fill the
// pipeline, their entries are those of the first microbatches of a filled
// pipeline.
Entries polyrank::stage_order::makeZeroBubbleV(const Sizes &sizes,
                                               int64_t rank) {
  Writer writer(sizes.microbatches);
  int64_t microbatches =
      std::max<int64_t>(2 * sizes.ranks - 1, sizes.microbatches);
  auto count = [&](Part part, int32_t chunk) {
    return writer.getCount(part, chunk);
  };
  auto backward = [&](int32_t chunk) {
    writer.input(chunk);
    writer.weight(chunk);
  };
  // As many forwards as it takes a microbatch to reach the last rank and to
  // come back.
  for (int64_t i = 0; i < 2 * (sizes.ranks - rank) - 1; ++i)
    writer.forward(0);
  // Then forwards of both chunks alternate while the microbatch goes on to the
  // last stage and its gradient comes back.
  for (int64_t i = 0; i < rank; ++i) {
    writer.forward(1);
    writer.forward(0);
  }
  for (int64_t i = 0; i < sizes.ranks - rank; ++i) {
    writer.forward(1);
    backward(1);
  }
  while (count(Part::Forward, 1) < count(Part::Forward, 0) ||
         count(Part::Forward, 0) < microbatches) {
    if (count(Part::Forward, 0) < microbatches)
      writer.forward(0);
    backward(0);
    writer.forward(1);
    backward(1);
  }
  // Input gradients, which other ranks wait for, come first; weight gradients
  // fill the rest.
  for (int64_t i = 0; i < rank; ++i) {
    writer.input(0);
    writer.input(1);
  }
  for (int64_t i = 0; i < sizes.ranks - rank; ++i)
    backward(0);
  while (count(Part::BackwardWeight, 1) < microbatches)
    writer.weight(1);
  while (count(Part::BackwardWeight, 0) < microbatches)
    writer.weight(0);
  return writer.finish();
}
