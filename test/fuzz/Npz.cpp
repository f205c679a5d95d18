// Any bytes as a set of arrays (.npz), or as one (.npy) where they begin so.

#include "support/arrays/Npz.h"
#include "support/arrays/Npy.h"
#include "test/fuzz/Input.h"

using namespace polyrank;

namespace {

void read(const StoredArray &array, const std::string &path) {
  if (array.path() != path || array.elements() < 0)
    std::abort();
  auto read = [&](int64_t first, int64_t count) {
    std::vector<std::byte> bytes(count * bytesOf(array.type()));
    // A file's own elements can be read.
    if (!array.read(first, count, bytes.data()))
      std::abort();
  };
  // Reads only both ends: an array of many zeros deflates to almost nothing.
  int64_t some = std::min<int64_t>(array.elements(), 1 << 10);
  read(0, some);
  read(array.elements() - some, some);
}

template <typename Outcome>
void check(const Outcome &outcome, const std::string &path) {
  if (!outcome && outcome.error().message.find(path) == std::string::npos)
    std::abort(); // a message names the file
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 0 && data[0] == 0x93) {
    std::string path = fuzz::writeFile("array.npy", fuzz::text(data, size));
    auto array = openNpy(path);
    check(array, path);
    if (array)
      read(*array, path);
    return 0;
  }
  std::string path = fuzz::writeFile("set.npz", fuzz::text(data, size));
  auto arrays = openNpz(path);
  check(arrays, path);
  if (arrays)
    for (const StoredArray &array : *arrays)
      read(array, path);
  return 0;
}
