// The .npy format, versions 1 to 3:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#pragma once

#include "support/arrays/StoredArray.h"

namespace polyrank {

struct NpyHeader {
  ElementType type = ElementType::U8;
  std::vector<int64_t> shape;
  uint64_t dataOffset = 0; // from the magic
  uint64_t dataBytes = 0;
};

/// Parses the start of a .npy file of `size` bytes in total. Refuses objects
/// (which would be pickles), records, big-endian values, Fortran order, and
/// data whose length contradicts the shape. `bytes` need not extend beyond the
/// header. `where` is used in messages.
Result<NpyHeader> parseNpyHeader(std::span<const std::byte> bytes,
                                 uint64_t size, const std::string &where);

/// The longest supported header.
inline constexpr uint64_t npyHeaderLimit = 1 << 16;

/// The header that numpy would write, padded to 64 bytes. `type` is numpy's
/// name: "<f4".
std::string makeNpyHeader(const std::string &type,
                          std::span<const int64_t> shape);

Result<StoredArray> openNpy(const std::string &path);

} // namespace polyrank
