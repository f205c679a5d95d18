// The blocks of a feed: what a loader writes, one after another.

#pragma once

#include "runtime/data/SampleFile.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace polyrank::runtime {

/// A block is a safetensors file in a stream: 8 bytes with the length of the
/// header (little-endian), the header, which is JSON, and the arrays
/// (https://github.com/huggingface/safetensors). Each array has the name of an
/// input and rows of it, in any number that is the same for all arrays of the
/// block. The metadata may state
///   "sample"  the number of the block's first row, counted from 0 over the
///             whole feed,
///   "end"     that no block follows; such a block has no arrays.
struct FeedBlock {
  /// One array for each input, in the order of the inputs.
  struct Array {
    ElementType dtype = ElementType::F32;
    uint64_t offset = 0, bytes = 0; // in the data
  };
  std::vector<Array> arrays;
  uint64_t rows = 0;
  uint64_t dataBytes = 0;
  std::optional<uint64_t> sample;
  bool isEnd = false;
};

/// The longest header, in bytes.
inline constexpr uint64_t feedHeaderLimit = uint64_t(1) << 20;

/// The most bytes of arrays in a block of a feed whose batches have so many
/// bytes.
constexpr uint64_t feedDataLimit(uint64_t batchBytes) {
  return (uint64_t(256) << 20) + 16 * batchBytes;
}

/// Returns the length of a header from its 8 bytes. The error says what the
/// bytes may be instead.
Result<uint64_t> feedHeaderLength(std::span<const std::byte> bytes);

/// Reads a header and compares it with the inputs. The text is untrusted.
Result<FeedBlock> readFeedBlock(std::string_view header,
                                std::span<const InputSpec> inputs,
                                uint64_t dataLimit);

/// Converts rows [first, first + count) of an array of a block, `data`, to the
/// type of the input, and stores them densely, one after another. An input
/// without a batch has one row. Fails with the value that the input cannot
/// take, as value, row of the block and element; NaN is such a value unless
/// `allowsNan`. `sample` is the number of the block's first row, for messages.
struct FeedRows {
  const FeedBlock &block;
  size_t input = 0;
  uint64_t first = 0, count = 1, sample = 0;
  bool allowsNan = false;
};
Result<void> convertRows(const FeedRows &rows, const InputSpec &spec,
                         std::span<const std::byte> data, std::byte *into);

} // namespace polyrank::runtime
