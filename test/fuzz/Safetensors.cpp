// Any bytes as a safetensors file; what begins with a brace as the index of two
// files, and after a zero byte the bytes of each of them.

#include "support/safetensors/Safetensors.h"
#include "runtime/checkpoint/SafetensorsSet.h"
#include "test/fuzz/Input.h"

using namespace polyrank;
using namespace polyrank::runtime;

namespace {

void readSet(std::string_view input) {
  size_t end = std::min(input.find('\0'), input.size());
  std::string_view bytes = input.substr(std::min(end + 1, input.size()));
  for (size_t number : {1, 2})
    fuzz::writeFile(shardName(number, 2), bytes);
  std::string path = fuzz::writeFile(indexName, input.substr(0, end));
  auto set = SafetensorsSet::open(path);
  if (!set) {
    if (set.error().message.find(fuzz::folder()) == std::string::npos)
      std::abort(); // a message names the file
    return;
  }
  for (const auto &[name, tensor] : set->tensors()) {
    if (tensor.span->length > bytes.size())
      std::abort();
    std::vector<char> read(tensor.span->length);
    if (set->find(name) != &tensor || !tensor.read(0, read.data(), read.size()))
      std::abort();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 0 && data[0] == '{') {
    readSet(fuzz::text(data, size));
    return 0;
  }
  std::string path =
      fuzz::writeFile("weights.safetensors", fuzz::text(data, size));
  auto file = SafetensorsFile::open(path);
  if (!file) {
    if (file.error().message.find(path) == std::string::npos)
      std::abort(); // a message names the file
    return 0;
  }
  // In a file that opens every tensor lies within the file.
  for (const StoredTensorSpan &tensor : file->tensors()) {
    if (tensor.length > size || file->find(tensor.name) != &tensor)
      std::abort();
    std::vector<char> bytes(tensor.length);
    if (!file->read(tensor, 0, bytes.data(), bytes.size()))
      std::abort();
  }
  return 0;
}
