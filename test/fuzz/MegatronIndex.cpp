// Any bytes as Megatron-LM's index: the first byte chooses the rule about
// documents, the second says how many bytes of tokens there are, the rest is
// the index.

#include "runtime/data/DataSource.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

const std::vector<InputSpec> inputs = {
    {.name = "ids", .dtype = ElementType::I64, .rowShape = {4}},
    {.name = "labels",
     .labels = true,
     .dtype = ElementType::I64,
     .rowShape = {4},
     .range = {0, -100}},
    {.name = "position_ids", .dtype = ElementType::I64, .rowShape = {4}}};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  std::string tokens(data[1], '\1');
  fuzz::writeFile("data.bin", tokens);
  std::string path =
      fuzz::writeFile("data.idx", fuzz::text(data + 2, size - 2));
  DataOptions options;
  options.paths = {path};
  options.order = SampleOrder::Sequential;
  options.documents.rule = DocumentRule(data[0] % 3);
  options.documents.maskLabels = options.documents.resetPositions =
      data[0] & 128;
  auto source = DataSource::open(options, inputs);
  if (!source) {
    if (source.error().message.find("data.") == std::string::npos)
      std::abort(); // a message names the file
    return 0;
  }
  std::vector<std::byte> row(inputs[0].rowBytes());
  for (uint64_t sample = 0; sample < source->samples(Split::Train); ++sample)
    for (size_t input = 0; input < inputs.size(); ++input)
      if (!source->read(Batch{Split::Train, sample, 1}, input, 0, 1,
                        row.data()))
        std::abort(); // what was opened can be read
  return 0;
}
