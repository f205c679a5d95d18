// A file that is mapped whole.

#pragma once

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

  /// Returns false and sets `error` where the file is not a readable file.
  bool map(const std::string &path, std::string &error);
  std::string_view bytes() const { return contents; }

private:
  std::string_view contents;
};

} // namespace polyrank
