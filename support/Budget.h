// The memory that reading one file may take.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace polyrank {

/// The memory that the contents of one file may occupy: what is inflated from
/// it, and every value made of it (from a pickle, JSON, code, or as a known
/// tensor). The reader of a file has one budget for all of it and takes from it
/// before it allocates. Nothing is given back, so that time is bounded too. A
/// few bytes of a file may ask for any amount: deflate compresses a
/// thousandfold, a pickle may refer to one text a million times, and a view may
/// repeat one element.
class Budget {
public:
  /// The budget per byte of the file; saved models need up to ten.
  static constexpr uint64_t perByte = 32;
  /// The smallest budget.
  static constexpr uint64_t least = uint64_t(1) << 27;

  explicit Budget(uint64_t fileBytes)
      : fileBytes(fileBytes),
        all(std::max(least, fileBytes > UINT64_MAX / perByte
                                ? UINT64_MAX
                                : fileBytes * perByte)),
        left(all) {}

  /// Returns false, and takes nothing, if less than `bytes` is left.
  [[nodiscard]] bool take(uint64_t bytes) {
    if (bytes > left)
      return false;
    left -= bytes;
    return true;
  }
  uint64_t getLeft() const { return left; }
  uint64_t getAll() const { return all; }

  /// The end of an error message: what exceeded the budget, and what to do.
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
