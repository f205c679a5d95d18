// The .npy format, versions 1 to 3:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#pragma once

#include "support/arrays/StoredArray.h"

namespace polyrank {

struct NpyHeader {
  ValueType type = ValueType::U8;
  std::vector<int64_t> shape;
  uint64_t dataOffset = 0; // from the magic
  uint64_t dataBytes = 0;
};

/// Parses the start of a .npy file, of which `size` bytes follow in all, header
/// included. Refuses objects (which would be pickles), records, big-endian
/// values and Fortran order, and data of another length than the shape says.
/// `bytes` need not go beyond the header. `where` is for messages.
Result<NpyHeader> parseNpyHeader(std::span<const std::byte> bytes,
                                 uint64_t size, const std::string &where);

/// No header of an array that we read is longer.
inline constexpr uint64_t npyHeaderLimit = 1 << 16;

/// The header that numpy would write, padded to 64 bytes. `type` as numpy
/// names it: "<f4".
std::string makeNpyHeader(const std::string &type,
                          std::span<const int64_t> shape);

Result<StoredArray> openNpy(const std::string &path);

} // namespace polyrank
