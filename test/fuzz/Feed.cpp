// Any bytes as what one feed writes, or two that are mixed.

#include "runtime/feed/Feed.h"
#include "test/fuzz/Input.h"

#include <algorithm>
#include <cstring>
#include <memory>
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
  std::vector<double> weights{2};
  if (data[0] & 8)
    weights.push_back(1);
  SourceMix mix(weights);
  std::vector<std::unique_ptr<FeedReader>> readers;
  size_t each = bytes.size() / weights.size();
  for (size_t source = 0; source < weights.size(); ++source)
    readers.push_back(std::make_unique<FeedReader>(
        layout, FeedBatches::firstSample(mix, source, layout, first),
        data[0] & 4,
        [rest = bytes.substr(source * each, each)](
            void *into, size_t wanted) mutable -> Result<size_t> {
          size_t count = std::min(wanted, rest.size());
          std::memcpy(into, rest.data(), count);
          rest.remove_prefix(count);
          return count;
        }));
  FeedBatches batches(layout, mix, readers, first,
                      {[&](uint64_t) { return std::span(slot); },
                       [&](uint64_t number) {
                         if (number != next++)
                           std::abort(); // batches come in order
                       }});
  Result<void> done = batches.run();
  if (!done && done.error().message.empty())
    std::abort();
  if (batches.rowsOfBatch() >= layout.batch())
    std::abort();
  return 0;
}
