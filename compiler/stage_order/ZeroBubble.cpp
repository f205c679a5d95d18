// Schedules whose backward is two parts: zero-bubble, zero-bubble-v.
//
// Only the gradient of a stage's input is waited for by others. The gradients
// of weights fill the times in which a rank would wait.

#include "compiler/stage_order/Generators.h"

#include <algorithm>

using namespace polyrank::stage_order;

namespace {

/// Lists entries; microbatches of each part of a chunk are counted up, and
/// those that there are not are left out.
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

// ZB-H1: what the first rank of 1f1b holds, every rank may hold. Rank r begins
// r microbatches less before its first backward than the first rank does, so it
// may keep r for which only the gradients of weights are missing. It does them
// while the last gradients go down to the first rank.
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

// ZB-V, as PyTorch's ScheduleZBVZeroBubble lists it: the first rank has the
// first stage and the last. Fewer microbatches than fill the pipeline are the
// first ones of as many as do.
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
  // As many as go to the turn and come back meanwhile.
  for (int64_t i = 0; i < 2 * (sizes.ranks - rank) - 1; ++i)
    writer.forward(0);
  // And on to the last stage and back again, with both chunks in turn.
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
  // What others wait for first; weights fill what is left.
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
