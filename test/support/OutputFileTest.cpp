// Files that get their name once they are complete, and SHA-256.

#include "support/OutputFile.h"
#include "support/Sha256.h"
#include "test/support/TemporaryFolder.h"

#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

OutputFile create(const std::string &path, const std::string &text) {
  auto file = OutputFile::create(path);
  EXPECT_TRUE(file) << file.error().message;
  EXPECT_TRUE(writeAt(file->descriptor(), path, 0, text.data(), text.size()));
  return *std::move(file);
}

/// Runs `body` in a process without /proc, in which a file needs a name from
/// the beginning. Returns the exit status, 77 if that is not permitted.
int withNames(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
      _exit(77);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(OutputFile, AFileUnderTheNameIsReplacedOnlyByCommit) {
  TemporaryFolder folder;
  std::string path = folder.write("w", "old");
  {
    OutputFile file = create(path, "new");
  }
  EXPECT_EQ(folder.read("w"), "old");
  OutputFile file = create(path, "new");
  EXPECT_EQ(folder.count(), 1u); // it has no name
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(folder.read("w"), "new");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(OutputFile, TwoForOnePathDoNotMeetAndTheLastOneStays) {
  TemporaryFolder folder;
  std::string path = folder.path("w");
  auto both = [&] {
    OutputFile first = create(path, "first"), second = create(path, "second");
    bool good = first.commit() && folder.read("w") == "first" &&
                second.commit() && folder.read("w") == "second" &&
                folder.count() == 1;
    return good ? 0 : 1;
  };
  EXPECT_EQ(both(), 0);
  int status = withNames(both);
  if (status == 77)
    GTEST_SKIP() << "may not hide /proc";
  EXPECT_EQ(status, 0);
}

TEST(OutputFile, WhatAKilledProcessLeftIsRemovedByTheNextAndNothingElse) {
  TemporaryFolder folder;
  std::string path = folder.path("w");
  int status = withNames([&] {
    OutputFile file = create(path, "half");
    raise(SIGKILL);
    return 1;
  });
  if (status == 77)
    GTEST_SKIP() << "may not hide /proc";
  EXPECT_EQ(status, -SIGKILL);
  EXPECT_EQ(folder.count(), 1u);
  folder.write("w.partial-mine", "the user's");
  folder.write("w.partial-0123456789abcdeg", "the user's");
  folder.write("v.partial-0123456789abcdef", "another file's");
  EXPECT_EQ(withNames([&] {
              OutputFile mine = create(path, "one"); // removes the old one
              if (folder.count() != 4)
                return 1;
              OutputFile other = create(path, "two"); // leaves that of `mine`
              if (folder.count() != 5)
                return 2;
              return other.commit() && mine.commit() &&
                             folder.read("w") == "one"
                         ? 0
                         : 3;
            }),
            0);
  EXPECT_EQ(folder.count(), 4u);
}

TEST(OutputFile, ALinkStaysAndTheFileThatItNamesIsReplaced) {
  TemporaryFolder folder;
  folder.write("real", "old");
  std::filesystem::create_symlink("real", folder.path("link"));
  std::filesystem::create_symlink("link", folder.path("longer"));
  ASSERT_TRUE(create(folder.path("longer"), "new").commit());
  EXPECT_EQ(folder.read("real"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("longer")));
  std::filesystem::create_symlink("later", folder.path("dangling"));
  ASSERT_TRUE(create(folder.path("dangling"), "made").commit());
  EXPECT_EQ(folder.read("later"), "made");
  std::filesystem::create_symlink("round", folder.path("round"));
  EXPECT_FALSE(OutputFile::create(folder.path("round")));
}

TEST(OutputFile, ALinkInTheWayOfAnUnfinishedFileIsNotFollowed) {
  TemporaryFolder folder;
  folder.write("victim", "precious");
  std::string link = "w.partial-" + std::to_string(getpid());
  std::filesystem::create_symlink("victim", folder.path(link));
  std::filesystem::create_symlink("victim",
                                  folder.path("w.partial-0123456789abcdef"));
  ASSERT_TRUE(create(folder.path("w"), "new").commit());
  EXPECT_EQ(folder.read("victim"), "precious");
  EXPECT_EQ(folder.count(), 4u);
}

TEST(OutputFile, WhatCannotBeAFileIsRefusedBeforeTheWork) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("d"));
  auto says = [](Result<OutputFile> file, const char *part,
                 Error::Fault fault = Error::Fault::Input) {
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().fault, fault);
    EXPECT_NE(file.error().message.find(part), std::string::npos)
        << file.error().message;
  };
  says(OutputFile::create(folder.path("d")), "it is a directory");
  says(OutputFile::create(folder.path("no/w")), "No such file or directory");
  says(OutputFile::create("/dev/full"), "it is not a regular file");
  says(OutputFile::create(folder.path("w"), uint64_t(1) << 60),
       "it needs 1152921504606846976 bytes, its file system has",
       Error::Fault::Disk);
  EXPECT_EQ(folder.count(), 1u);
}

TEST(OutputFile, WhatTakesAnothersPlaceHasItsModeAndOwner) {
  TemporaryFolder folder;
  std::string path = folder.write("w", "old");
  struct stat status;
  for (mode_t mode : {0600, 0640, 0444}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    OutputFile file = create(path, "new");
    ASSERT_EQ(fstat(file.descriptor().get(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode); // also while it is written
    ASSERT_TRUE(file.commit());
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode);
  }
  if (geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown(path.c_str(), 12345, 23456), 0);
  ASSERT_TRUE(create(path, "newer").commit());
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12345u);
  EXPECT_EQ(status.st_gid, 23456u);
}

TEST(OutputFile, RoomIsKeptAndWhatIsNotNeededIsGivenBack) {
  TemporaryFolder folder;
  std::string path = folder.path("w");
  constexpr uint64_t room = 1 << 20;
  Result<OutputFile> file = OutputFile::create(path, room);
  ASSERT_TRUE(file) << file.error().message;
  int number = file->descriptor().get();
  auto blocks = [&] {
    struct stat status;
    EXPECT_EQ(fstat(number, &status), 0);
    return uint64_t(status.st_blocks) * 512;
  };
  if (blocks() == 0)
    GTEST_SKIP() << "this file system keeps no room";
  EXPECT_GE(blocks(), room);
  ASSERT_TRUE(writeAt(file->descriptor(), path, 0, "words", 5));
  ASSERT_TRUE(file->clear());
  EXPECT_GE(blocks(), room);
  char text[6] = {};
  ASSERT_EQ(pread(number, text, 5, 0), 5);
  EXPECT_STREQ(text, "");
  ASSERT_TRUE(writeAt(file->descriptor(), path, 0, "other", 5));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(folder.read("w"), "other");
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_LT(uint64_t(status.st_blocks) * 512, room);
  // Without reserved space the file is truncated.
  OutputFile plain = create(path, "words");
  ASSERT_TRUE(plain.clear());
  ASSERT_TRUE(plain.commit());
  EXPECT_EQ(folder.read("w"), "");
}

TEST(OutputFile, ANameAsLongAsTheSystemTakesIsWritten) {
  TemporaryFolder folder;
  std::string path = folder.path(std::string(255, 'n'));
  ASSERT_TRUE(create(path, "new").commit());
  EXPECT_EQ(withNames([&] { return create(path, "x").commit() ? 0 : 1; }) % 77,
            0);
}

std::string sha256(const std::string &text, size_t piece) {
  Sha256 digest;
  for (size_t at = 0; at < text.size(); at += piece)
    digest.add({reinterpret_cast<const uint8_t *>(text.data()) + at,
                std::min(piece, text.size() - at)});
  return digest.hex();
}

TEST(Sha256, IsTheStandardsForItsExamples) {
  EXPECT_EQ(sha256("", 1),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc", 2),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 64),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  for (size_t piece : {1, 63, 64, 65, 1000000})
    EXPECT_EQ(
        sha256(std::string(1000000, 'a'), piece),
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

} // namespace
} // namespace polyrank::runtime::test
