// Goes through the positions of the batches.

#include "runtime/feed/FeedBatches.h"

namespace polyrank::runtime {

Result<void> FeedBatches::run() {
  for (;;) {
    current = mix.at(number * layout.batch() + filled).source;
    FeedReader &reader = *readers[current];
    POLYRANK_ASSIGN(isThere, reader.awaitRow());
    if (!isThere)
      return {};
    if (filled == 0)
      batch = ends.room(number);
    if (batch.empty())
      return Error{"the run has ended", Error::Fault::Rank};
    POLYRANK_ASSIGN(count, reader.take(inARow(), batch, filled));
    filled += count;
    if (filled < layout.batch())
      continue;
    ends.publish(number);
    ++number;
    filled = 0;
  }
}

uint64_t FeedBatches::inARow() const {
  uint64_t position = number * layout.batch(), count = 1;
  while (filled + count < layout.batch() &&
         mix.at(position + filled + count).source == current)
    ++count;
  return count;
}

} // namespace polyrank::runtime
