// Keys of jobs: files, texts and MACs.

#include "runtime/job/net/JobKey.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace polyrank::runtime::net {
namespace {

class JobKeyTest : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/polyrank-key-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    folder = name;
    path = folder + "/key";
  }
  void TearDown() override {
    unlink(path.c_str());
    rmdir(folder.c_str());
  }
  std::string errorOfReading() {
    Result<JobKey> key = JobKey::read(path);
    return key ? "" : key.error().message;
  }
  void write(const std::string &text, mode_t mode = 0600) {
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  }

  std::string folder, path;
};

std::span<const uint8_t> bytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::string hex(const Mac &mac) {
  std::string text;
  for (uint8_t byte : mac) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

TEST_F(JobKeyTest, ANewKeyIsThisUsersAlone) {
  ASSERT_TRUE(JobKey::create(path));
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(status.st_size, 65);
  EXPECT_EQ(errorOfReading(), "");
}

TEST_F(JobKeyTest, TwoNewKeysDiffer) {
  ASSERT_TRUE(JobKey::create(path));
  JobKey first = *JobKey::read(path);
  unlink(path.c_str());
  ASSERT_TRUE(JobKey::create(path));
  EXPECT_NE(first.mac({}), JobKey::read(path)->mac({}));
}

TEST_F(JobKeyTest, AKeyIsNotOverwritten) {
  ASSERT_TRUE(JobKey::create(path));
  Mac before = JobKey::read(path)->mac({});
  Result<void> again = JobKey::create(path);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("is there already"), std::string::npos);
  EXPECT_EQ(JobKey::read(path)->mac({}), before);
}

TEST_F(JobKeyTest, AKeyThatOthersMayUseIsRefused) {
  ASSERT_TRUE(JobKey::create(path));
  for (mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601}) {
    chmod(path.c_str(), mode);
    EXPECT_NE(errorOfReading().find("chmod 600"), std::string::npos) << mode;
  }
  chmod(path.c_str(), 0400);
  EXPECT_EQ(errorOfReading(), "");
}

TEST_F(JobKeyTest, AnotherUsersKeyIsRefused) {
  ASSERT_TRUE(JobKey::create(path));
  if (chown(path.c_str(), 12345, -1) != 0)
    GTEST_SKIP() << "only root gives files away";
  EXPECT_NE(errorOfReading().find("belongs to user 12345"), std::string::npos);
}

TEST_F(JobKeyTest, WhatIsNoKeyIsRefused) {
  std::string good(64, 'a');
  for (const std::string &text :
       {std::string(), good.substr(1), good + "b", good + "\n\n",
        "x" + good.substr(1), " " + good.substr(1), good + "\r\n"}) {
    write(text);
    EXPECT_NE(errorOfReading().find("64 hex digits"), std::string::npos)
        << text;
  }
  write(good);
  EXPECT_EQ(errorOfReading(), "");
  write(std::string(64, 'A') + "\n");
  EXPECT_EQ(errorOfReading(), "");
}

TEST_F(JobKeyTest, AFolderAndAMissingFileAreNoKeys) {
  EXPECT_NE(errorOfReading().find("cannot read the key"), std::string::npos);
  Result<JobKey> key = JobKey::read(folder);
  ASSERT_FALSE(key);
  EXPECT_NE(key.error().message.find("is no file"), std::string::npos);
}

TEST_F(JobKeyTest, TheFileComesBeforeTheVariable) {
  ASSERT_TRUE(JobKey::create(path));
  std::string text(64, '7');
  Result<std::optional<JobKey>> key = JobKey::find(path, text.c_str());
  ASSERT_TRUE(key && *key);
  EXPECT_EQ((*key)->mac({}), JobKey::read(path)->mac({}));
  key = JobKey::find("", text.c_str());
  ASSERT_TRUE(key && *key);
  EXPECT_EQ((*key)->mac({}), JobKey::parse(text, "")->mac({}));
  // A Secret that is made of a file has its line break.
  EXPECT_EQ((*key)->mac({}), JobKey::parse(text + "\n", "")->mac({}));
  EXPECT_FALSE(JobKey::parse(text + "\n\n", ""));
  EXPECT_FALSE(*JobKey::find("", nullptr));
  EXPECT_FALSE(*JobKey::find("", ""));
  key = JobKey::find("", "12");
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().message.find("12"), std::string::npos) // no secrets
      << key.error().message;
}

TEST(Mac, IsTheStandardsForItsExample) {            // RFC 4231, test case 2
  std::array<uint8_t, 32> jefe{'J', 'e', 'f', 'e'}; // HMAC pads with zeros too
  Mac mac =
      JobKey(jefe).mac({bytesOf("what do ya want "), bytesOf("for nothing?")});
  EXPECT_EQ(hex(mac), "5bdcc146bf60754e6a042426089575c7"
                      "5a003f089d2739839dec58b964ec3843");
}

TEST(Mac, EveryBitCounts) {
  Mac mac{};
  for (size_t bit = 0; bit < 8 * mac.size(); ++bit) {
    Mac other = mac;
    other[bit / 8] ^= uint8_t(1 << (bit % 8));
    EXPECT_FALSE(areEqual(mac, other)) << bit;
  }
  EXPECT_TRUE(areEqual(mac, Mac{}));
}

TEST(Mac, KeysOfDifferentPurposesDiffer) {
  std::array<uint8_t, 32> bytes{1};
  JobKey key(bytes);
  EXPECT_NE(key.derive("a", bytesOf("bc")).mac({}),
            key.derive("ab", bytesOf("c")).mac({}));
  EXPECT_NE(key.derive("a", bytesOf("b")).mac({}),
            key.derive("a", bytesOf("c")).mac({}));
  EXPECT_EQ(key.derive("a", bytesOf("b")).mac({}),
            key.derive("a", bytesOf("b")).mac({}));
}

} // namespace
} // namespace polyrank::runtime::net
