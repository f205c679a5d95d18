// Any bytes as the samples of a model: the first byte chooses the file's name
// (and so its kind) and the plan's inputs, the rest is the file.

#include "runtime/data/DataSource.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

const std::vector<InputSpec> tokens = {
    {.name = "ids", .dtype = ElementType::I64, .rowShape = {4}, .range = {256}},
    {.name = "labels",
     .labels = true,
     .dtype = ElementType::I64,
     .rowShape = {4},
     .range = {256, -100}}};
const std::vector<InputSpec> features = {
    {.name = "x", .dtype = ElementType::F32, .rowShape = {2, 3}},
    {.name = "y",
     .labels = true,
     .dtype = ElementType::I32,
     .rowShape = {},
     .range = {10, -100}}};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  static const char *const suffixes[] = {"txt", "bin", "u32", "npy",
                                         "npz", "dat", "NPZ", "u8"};
  uint8_t choice = data[0];
  std::string path =
      fuzz::writeFile(std::string("data.") + suffixes[choice & 7],
                      fuzz::text(data + 1, size - 1));
  DataOptions options;
  options.paths = {path};
  options.batch = choice & 8 ? 3 : 1;
  options.order = choice & 16 ? SampleOrder::Random : SampleOrder::Sequential;
  options.holdout = choice & 32 ? 0.25 : 0;
  options.tokenType = choice & 64 ? "uint16" : "";
  const std::vector<InputSpec> &inputs = choice & 128 ? features : tokens;
  auto source = DataSource::open(options, inputs);
  if (!source) {
    if (source.error().message.find(path) == std::string::npos)
      std::abort(); // a message names the file
    return 0;
  }
  source->describe();
  for (Split split : {Split::Train, Split::Holdout})
    if (source->samples(split) > 0)
      for (uint64_t step : {uint64_t(0), uint64_t(1), uint64_t(1) << 40})
        for (size_t input = 0; input < inputs.size(); ++input) {
          std::vector<std::byte> rows(options.batch * inputs[input].rowBytes());
          auto done = source->read(split, step, input, 0,
                                   int64_t(options.batch), rows.data());
          if (!done && done.error().message.find(path) == std::string::npos)
            std::abort();
        }
  return 0;
}
