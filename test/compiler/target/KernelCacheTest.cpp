// The folder of compiled kernels: what it takes for the same kernel, and each
// state of the folder or of a file that it must not trust.

#include "compiler/target/KernelCache.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>

#include "test/support/TemporaryFolder.h"
#include "gtest/gtest.h"

using namespace polyrank;
using namespace polyrank::target;
namespace fs = std::filesystem;

namespace {

class KernelCacheTest : public testing::Test {
protected:
  /// Returns the code of a kernel with these texts, where compiling it gives
  /// `code`; notes whether it was compiled and what was said.
  std::string get(std::vector<llvm::StringRef> texts, const std::string &code) {
    auto cache = KernelCache::open(path);
    if (!cache)
      return "cannot open: " + cache.error().message;
    isCompiled = false;
    said.clear();
    auto got = cache->get(
        texts,
        [&]() -> mlir::FailureOr<std::string> {
          isCompiled = true;
          if (code.empty())
            return mlir::failure();
          return code;
        },
        [&](const std::string &problem) { said += problem; });
    EXPECT_EQ(cache->numFound(), !isCompiled);
    EXPECT_EQ(cache->numCompiled(), isCompiled && !code.empty());
    return failed(got) ? "failed" : *got;
  }
  /// The only file of the folder.
  fs::path onlyFile() {
    std::vector<fs::path> files;
    for (const auto &entry : fs::directory_iterator(path))
      files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.front();
  }
  std::string errorOf(const std::string &folder) {
    auto cache = KernelCache::open(folder);
    return cache ? "" : cache.error().message;
  }

  runtime::test::TemporaryFolder folder;
  std::string path = folder.path("kernels");
  bool isCompiled = false;
  std::string said;
};

TEST_F(KernelCacheTest, AKernelIsCompiledOnce) {
  EXPECT_EQ(get({"cpu", "loops"}, "code"), "code");
  EXPECT_TRUE(isCompiled);
  EXPECT_EQ(get({"cpu", "loops"}, "other"), "code");
  EXPECT_FALSE(isCompiled);
  EXPECT_EQ(said, "");
}

TEST_F(KernelCacheTest, EachTextCounts) {
  get({"cpu", "loops"}, "code");
  EXPECT_EQ(get({"gpu", "loops"}, "1"), "1");
  EXPECT_EQ(get({"cpu", "loop"}, "2"), "2");
  // The same bytes, cut elsewhere.
  EXPECT_EQ(get({"cpul", "oops"}, "3"), "3");
  EXPECT_EQ(get({"cpuloops"}, "4"), "4");
  EXPECT_EQ(get({"cpu", "loops"}, "5"), "code");
}

TEST_F(KernelCacheTest, AKernelThatDoesNotCompileIsNotKept) {
  EXPECT_EQ(get({"loops"}, ""), "failed");
  EXPECT_EQ(get({"loops"}, "code"), "code");
}

TEST_F(KernelCacheTest, ADamagedFileIsCompiledAgain) {
  get({"loops"}, "code");
  fs::path file = onlyFile();
  std::string whole;
  std::ifstream(file) >> whole;
  std::string changed = whole;
  ++changed.back();
  for (const std::string &bytes :
       {changed, whole.substr(0, whole.size() - 1), whole.substr(0, 64),
        whole.substr(0, 10), std::string()}) {
    std::ofstream(file, std::ios::trunc) << bytes;
    EXPECT_EQ(get({"loops"}, "code"), "code");
    EXPECT_TRUE(isCompiled) << bytes;
    EXPECT_EQ(said, "the kernel in '" + file.string() +
                        "' is damaged, and is compiled again");
    // It was replaced.
    EXPECT_EQ(get({"loops"}, "other"), "code");
    EXPECT_EQ(said, "");
  }
}

TEST_F(KernelCacheTest, AFileThatCannotBeWrittenIsNamed) {
  get({"loops"}, "code");
  fs::path file = onlyFile();
  fs::remove(file);
  fs::create_directory(file);
  std::ofstream(file / "inside") << "x";
  EXPECT_EQ(get({"loops"}, "code"), "code");
  EXPECT_TRUE(isCompiled);
  EXPECT_NE(said.find("cannot read the kernel in '" + file.string() + "'"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("cannot keep a kernel as '" + file.string() + "'"),
            std::string::npos)
      << said;
}

TEST_F(KernelCacheTest, AWriteThatFailsLosesNothing) {
  // A file may have as many bytes as the digest alone.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{}, limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::string code = get({"loops"}, "code");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(code, "code");
  EXPECT_NE(said.find("cannot keep a kernel as '" + path), std::string::npos)
      << said;
  // No part of it is taken for the kernel, or left behind.
  EXPECT_TRUE(fs::is_empty(path));
  EXPECT_EQ(get({"loops"}, "other"), "other");
}

TEST_F(KernelCacheTest, AFolderThatOthersMayWriteIsRefused) {
  fs::create_directory(path);
  for (int mode : {0770, 0707, 0720, 0702}) {
    fs::permissions(path, fs::perms(mode));
    EXPECT_NE(errorOf(path).find("chmod go-w '" + path + "'"),
              std::string::npos)
        << errorOf(path);
  }
  // Who only reads it changes nothing.
  fs::permissions(path, fs::perms(0755));
  EXPECT_EQ(errorOf(path), "");
}

TEST_F(KernelCacheTest, AFolderOfAnotherUserIsRefused) {
  fs::create_directory(path);
  fs::permissions(path, fs::perms(0700));
  if (chown(path.c_str(), 12345, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "needs root";
  EXPECT_NE(errorOf(path).find("it belongs to user 12345"), std::string::npos)
      << errorOf(path);
}

TEST_F(KernelCacheTest, WhatIsNoFolderIsRefused) {
  std::ofstream(path) << "x";
  EXPECT_NE(errorOf(path).find("'" + path + "'"), std::string::npos)
      << errorOf(path);
  EXPECT_NE(errorOf(path + "/inside").find("cannot make the folder"),
            std::string::npos)
      << errorOf(path + "/inside");
}

TEST_F(KernelCacheTest, ANewFolderIsOnlyThisUsers) {
  get({"loops"}, "code");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0700));
}

} // namespace
