// A range of bytes in a file of the user.

#pragma once

#include <cstdint>
#include <string>

namespace polyrank::frontends {

/// `length` bytes of the file at `path` from `offset` on.
struct FileSpan {
  std::string path;
  uint64_t offset = 0;
  uint64_t length = 0;

  bool operator==(const FileSpan &) const = default;
};

} // namespace polyrank::frontends
