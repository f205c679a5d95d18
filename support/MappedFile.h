// A file that is mapped into memory as a whole.

#pragma once

#include "support/Result.h"

#include <string>
#include <string_view>
#include <utility>

namespace polyrank {

/// A read-only mapping of a whole file; the destructor unmaps it.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(contents, other.contents);
    return *this;
  }
  ~MappedFile();

  /// Fails if `path` is not a regular file, cannot be read or is empty.
  static Result<MappedFile> open(const std::string &path);
  std::string_view bytes() const { return contents; }

private:
  std::string_view contents;
};

} // namespace polyrank
