// Passes libFuzzer's input to readers that take a named file.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace polyrank::fuzz {

/// A folder of this process, below TMPDIR, which is removed when it exits.
inline const std::filesystem::path &folder() {
  struct Folder {
    Folder() {
      std::string pattern =
          std::filesystem::temp_directory_path() / "polyrank-fuzz-XXXXXX";
      if (!mkdtemp(pattern.data()))
        std::abort();
      path = pattern;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };
  static Folder folder;
  return folder.path;
}

/// Writes a file of that name into the folder; returns its path.
inline std::string writeFile(const std::string &name, std::string_view bytes) {
  std::string path = folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    std::abort();
  return path;
}

inline std::string_view text(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// Reads every byte, so that the sanitizer detects invalid ones.
inline void touch(std::span<const char> bytes) {
  volatile unsigned sum = 0;
  for (char byte : bytes)
    sum = sum + static_cast<unsigned char>(byte);
}

} // namespace polyrank::fuzz
