// The formulas of docs/schedules.md.

#include "compiler/stage_order/ClosedForms.h"

#include "compiler/stage_order/Generators.h"

#include <algorithm>

using namespace polyrank::stage_order;

namespace {

constexpr int64_t forward = 1, backward = 2;

/// The formulas in P, V and m.
struct Formulas {
  int64_t P, V, m;

  /// The first microbatch of a chunk comes around after P forwards, or when the
  /// m microbatches of the previous chunk have begun; after the last chunk, the
  /// last rank is P - 1 later. The backwards are the same in the other
  /// direction.
  int64_t getWavesOfChunks() const {
    return ((V - 1) * std::max(m, P) + m + P - 1) * (forward + backward);
  }
  /// The last rank begins P - 1 later and takes 3 for each microbatch. With few
  /// microbatches the path of the last one counts: 2 m until its gradient
  /// leaves the last rank, P - 1 to reach the first rank, and its weight
  /// gradients.
  int64_t getZeroBubble() const {
    return std::max(3 * m + P - 1, 2 * m + 2 * P - 1);
  }
  /// The same for two chunks: the rank at which the second chunk begins starts
  /// P - 1 later.
  int64_t getZeroBubbleV() const {
    return std::max(6 * m + P - 1, 4 * m + 4 * P - 2);
  }
  /// With enough microbatches a rank never idles once it has begun.
  int64_t getPeriodOfZeroBubbleV() const {
    return std::max(6 * m, 4 * m + 4 * P - 2);
  }

  int64_t getHeldBy1f1b(int64_t rank) const { return std::min(m, P - rank); }
  int64_t getHeldByInterleaved(int64_t rank) const {
    int64_t group = getGroupSizes(P, m).front();
    return std::min(m * V, (V - 1) * group + 2 * (P - 1 - rank) + 1);
  }
  int64_t getHeldByZeroBubbleV(int64_t rank) const {
    return std::min({2 * m, 2 * P, m + rank + 1});
  }
};

} // namespace

std::optional<ClosedForm>
polyrank::stage_order::getClosedForm(std::string_view text, int64_t ranks,
                                     int64_t chunks, int64_t microbatches) {
  if (text.find(':') != std::string_view::npos ||
      !getCoordinates(text, ranks, chunks) || microbatches < 1 ||
      microbatches > mostMicrobatches)
    return std::nullopt;
  Formulas formulas{ranks, chunks, microbatches};
  ClosedForm form;
  auto set = [&](int64_t makespan, int64_t period, auto getHeld) {
    form.makespan = makespan;
    form.period = period;
    for (int64_t rank = 0; rank < ranks; ++rank)
      form.held.push_back(getHeld(rank));
  };
  int64_t waves = formulas.getWavesOfChunks();
  if (text == "gpipe")
    set(waves, waves, [&](int64_t) { return microbatches * chunks; });
  else if (text == "1f1b" || (text == "interleaved" && chunks == 1))
    set(waves, waves,
        [&](int64_t rank) { return formulas.getHeldBy1f1b(rank); });
  else if (text == "interleaved")
    set(waves, waves,
        [&](int64_t rank) { return formulas.getHeldByInterleaved(rank); });
  else if (text == "zero-bubble")
    set(formulas.getZeroBubble(), formulas.getZeroBubble(),
        [&](int64_t) { return std::min(microbatches, ranks); });
  else
    set(formulas.getZeroBubbleV(), formulas.getPeriodOfZeroBubbleV(),
        [&](int64_t rank) { return formulas.getHeldByZeroBubbleV(rank); });
  form.bubble = form.makespan - microbatches * chunks * (forward + backward);
  return form;
}
