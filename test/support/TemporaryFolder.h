// A folder for one test's files, removed with it.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace polyrank::runtime::test {

class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "polyrank-test-XXXXXX")
            .string();
    if (!mkdtemp(pattern.data()))
      std::abort();
    root = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(root); }

  std::string path(const std::string &name) const { return root / name; }
  std::string write(const std::string &name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string read(const std::string &name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// The number of files in the folder.
  size_t count() const {
    size_t files = 0;
    for ([[maybe_unused]] auto &entry :
         std::filesystem::directory_iterator(root))
      ++files;
    return files;
  }

private:
  std::filesystem::path root;
};

} // namespace polyrank::runtime::test
