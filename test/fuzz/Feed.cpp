// Any bytes as what a feed writes.

#include "runtime/feed/Feed.h"
#include "test/fuzz/Input.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

const std::vector<InputSpec> inputs = {
    {.name = "x", .dtype = ElementType::F32, .rowShape = {2, 3}},
    {.name = "ids",
     .dtype = ElementType::I32,
     .rowShape = {2},
     .range = {10, -100},
     .batchDim = 1},
    {.name = "scale",
     .dtype = ElementType::F32,
     .rowShape = {1},
     .batchDim = noBatch}};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::string_view bytes = fuzz::text(data + 1, size - 1);
  FeedLayout layout(inputs, data[0] & 1 ? 3 : 1);
  uint64_t first = data[0] & 2 ? 7 : 0, next = first;
  std::vector<std::byte> slot(layout.batchBytes());
  size_t at = 0;
  FeedBatches batches(layout, first * layout.batch(), data[0] & 4,
                      {[&](void *into, size_t wanted) -> Result<size_t> {
                         size_t count = std::min(wanted, bytes.size() - at);
                         std::memcpy(into, bytes.data() + at, count);
                         at += count;
                         return count;
                       },
                       [&](uint64_t) { return std::span(slot); },
                       [&](uint64_t number) {
                         if (number != next++)
                           std::abort(); // batches come in order
                       }});
  Result<bool> done = batches.run();
  if (!done && done.error().message.empty())
    std::abort();
  if (batches.samplesLeft() >= layout.batch())
    std::abort();
  return 0;
}
