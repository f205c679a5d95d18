// Runs that replace each other in a folder of checkpoints.

#include "runtime/checkpoint/FolderOwner.h"

#include "test/support/TemporaryFolder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <optional>

namespace polyrank::runtime::test {
namespace {

class FolderOwnerTest : public testing::Test {
protected:
  bool exists() const {
    return std::filesystem::exists(FolderOwner::pathIn(folder));
  }
  static std::string errorOf(const Result<void> &result) {
    return result ? "" : result.error().message;
  }

  TemporaryFolder temporary;
  std::string folder = temporary.path("");
};

TEST_F(FolderOwnerTest, TheLastOneThatTookItHasIt) {
  FolderOwner first(folder), second(folder);
  ASSERT_TRUE(first.take(1));
  EXPECT_TRUE(first.check());
  ASSERT_TRUE(second.take(2));
  EXPECT_TRUE(second.check());
  std::string why = errorOf(first.check());
  EXPECT_NE(why.find("belongs to incarnation 0000000000000002 (process"),
            std::string::npos)
      << why;
  EXPECT_NE(why.find("this run is incarnation 0000000000000001 (process"),
            std::string::npos)
      << why;
}

TEST_F(FolderOwnerTest, AnotherIncarnationOfTheSameRunKeepsIt) {
  FolderOwner run(folder);
  ASSERT_TRUE(run.take(1));
  ASSERT_TRUE(run.take(2));
  EXPECT_TRUE(run.check());
}

TEST_F(FolderOwnerTest, ARunThatWasReplacedDoesNotTakeItBack) {
  FolderOwner first(folder), second(folder);
  ASSERT_TRUE(first.take(1));
  ASSERT_TRUE(second.take(2));
  EXPECT_FALSE(first.take(3));
  EXPECT_TRUE(second.check());
}

TEST_F(FolderOwnerTest, ItIsLeftWithoutAnOwnerByItsOwnerAlone) {
  FolderOwner second(folder);
  {
    FolderOwner first(folder);
    ASSERT_TRUE(first.take(1));
    ASSERT_TRUE(second.take(2));
  }
  EXPECT_TRUE(second.check());
  {
    FolderOwner third(folder);
    ASSERT_TRUE(third.take(3));
    EXPECT_TRUE(exists());
  }
  EXPECT_FALSE(exists());
  // The run that replaced it is done meanwhile.
  EXPECT_NE(errorOf(second.check()).find("belongs to nobody any more"),
            std::string::npos);
}

TEST_F(FolderOwnerTest, WhatAKilledRunHasLeftIsTaken) {
  std::ofstream(FolderOwner::pathIn(folder)) << "incarnation 7";
  FolderOwner run(folder);
  ASSERT_TRUE(run.take(1));
  EXPECT_TRUE(run.check());
}

} // namespace
} // namespace polyrank::runtime::test
