// Any bytes as a safetensors file.

#include "runtime/checkpoint/Safetensors.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("weights.safetensors",
                                     fuzz::text(data, size));
  auto file = SafetensorsFile::open(path);
  if (!file) {
    if (file.error().message.find(path) == std::string::npos)
      std::abort(); // a message names the file
    return 0;
  }
  // What opens has the promised form: every tensor lies in the file.
  for (const StoredTensorSpan &tensor : file->tensors()) {
    if (tensor.length > size || file->find(tensor.name) != &tensor)
      std::abort();
    std::vector<char> bytes(tensor.length);
    if (!file->read(tensor, 0, bytes.data(), bytes.size()))
      std::abort();
  }
  return 0;
}
