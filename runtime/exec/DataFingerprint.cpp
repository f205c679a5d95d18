// Computes the fingerprint from a few samples.

#include "runtime/exec/DataFingerprint.h"

#include "runtime/checkpoint/Checksum.h"

#include <algorithm>

namespace polyrank::runtime {

Result<std::string> fingerprintOf(const DataSource &data,
                                  std::span<const InputSpec> inputs,
                                  uint64_t batch) {
  constexpr uint64_t most = 256;
  uint64_t samples = data.samples(Split::Train),
           count = std::min(most, samples);
  std::string text = std::to_string(samples);
  std::vector<std::byte> row;
  for (uint64_t number = 0; number < count; ++number) {
    // Does not overflow for any number of samples.
    uint64_t position =
        samples / count * number + samples % count * number / count;
    auto at = static_cast<int64_t>(position % batch);
    for (size_t input = 0; input < inputs.size(); ++input) {
      row.resize(static_cast<size_t>(inputs[input].rowBytes()));
      if (Result<void> got = data.read(Split::Train, position / batch, input,
                                       at, at + 1, row.data());
          !got)
        return got.error();
      text += toHex(checksumOf(row));
    }
  }
  return digestOf(text);
}

} // namespace polyrank::runtime
