// What the reading of one file may take.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace polyrank {

/// The memory that one file may be turned into: what is inflated from it, and
/// every value that is made of its contents (of a pickle, of JSON, of code, of
/// known tensors). Whoever reads a file has one budget for all of it and takes
/// from it before the memory is there; nothing is given back, so that time is
/// bounded too. A few bytes of a file may ask for any amount: deflate packs a
/// thousandfold, a pickle may name one text a million times, and a view may
/// repeat one element.
class Budget {
public:
  /// For each byte of the file; files that models are saved as take up to ten.
  static constexpr uint64_t perByte = 32;
  /// What the smallest file may take.
  static constexpr uint64_t least = uint64_t(1) << 27;

  explicit Budget(uint64_t fileBytes)
      : fileBytes(fileBytes),
        all(std::max(least, fileBytes > UINT64_MAX / perByte
                                ? UINT64_MAX
                                : fileBytes * perByte)),
        left(all) {}

  /// False where less than `bytes` is left; it then stays as it is.
  [[nodiscard]] bool take(uint64_t bytes) {
    if (bytes > left)
      return false;
    left -= bytes;
    return true;
  }
  uint64_t getLeft() const { return left; }
  uint64_t getAll() const { return all; }

  /// The end of a message: who asked for more, and what can be done.
  std::string describe() const {
    return "takes more than " + std::to_string(all) +
           " bytes of memory with what was read before, which is the most that "
           "is made of a file of " +
           std::to_string(fileBytes) + " bytes (" + std::to_string(perByte) +
           " for each of its bytes, and at least " + std::to_string(least) +
           ")";
  }

private:
  uint64_t fileBytes, all, left;
};

} // namespace polyrank
