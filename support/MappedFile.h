// A file that is mapped whole.

#pragma once

#include "support/Result.h"

#include <string>
#include <string_view>
#include <utility>

namespace polyrank {

/// A read-only file that is mapped whole; unmapped by the destructor.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(contents, other.contents);
    return *this;
  }
  ~MappedFile();

  /// An error where `path` is no regular file, cannot be read or is empty.
  static Result<MappedFile> open(const std::string &path);
  std::string_view bytes() const { return contents; }

private:
  std::string_view contents;
};

} // namespace polyrank
