// The meaning of --data.

#include "test/support/TemporaryFolder.h"

#include "runtime/data/DataFiles.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

std::string messageOf(std::vector<std::string> given) {
  auto found = findDataFiles(given);
  return found ? "" : found.error().message;
}

TEST(DataFiles, APatternIsItsFilesByName) {
  TemporaryFolder folder;
  for (const char *name : {"b.bin", "a.bin", "B.bin", "c.txt", "a10.bin"})
    folder.write(name, "x");
  const std::string given[] = {folder.path("*.bin"), folder.path("c.txt")};
  auto found = findDataFiles(given);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].paths,
            (std::vector{folder.path("B.bin"), folder.path("a.bin"),
                         folder.path("a10.bin"), folder.path("b.bin")}));
  EXPECT_EQ((*found)[1].paths, (std::vector{folder.path("c.txt")}));
  EXPECT_FALSE((*found)[0].weight);
}

TEST(DataFiles, AMegatronPairIsOneSource) {
  TemporaryFolder folder;
  for (const char *name : {"a.bin", "a.idx", "b.bin"})
    folder.write(name, "x");
  const std::string given[] = {folder.path("*")};
  auto found = findDataFiles(given);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)[0].paths,
            (std::vector{folder.path("a.idx"), folder.path("b.bin")}));
}

TEST(DataFiles, AWeightStandsBehindTheLastColon) {
  TemporaryFolder folder;
  folder.write("a.bin", "x");
  folder.write("b:2", "x");
  const std::string given[] = {folder.path("*.bin:0.25"), "b:x.bin:3e1"};
  auto found = findDataFiles(given);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ((*found)[0].paths, (std::vector{folder.path("a.bin")}));
  EXPECT_EQ((*found)[0].weight, 0.25);
  EXPECT_EQ((*found)[1].paths, (std::vector<std::string>{"b:x.bin"}));
  EXPECT_EQ((*found)[1].weight, 30);
  // A file that literally has this name.
  const std::string real[] = {folder.path("b:2")};
  found = findDataFiles(real);
  EXPECT_EQ((*found)[0].paths, (std::vector{folder.path("b:2")}));
  EXPECT_FALSE((*found)[0].weight);
}

TEST(DataFiles, WhatCannotBeMeantIsAnErrorThatNamesIt) {
  TemporaryFolder folder;
  std::string a = folder.write("a.bin", "x"), b = folder.write("b.bin", "x");
  EXPECT_EQ(messageOf({folder.path("*.txt")}),
            "--data " + folder.path("*.txt") + ": no file has such a name");
  EXPECT_EQ(messageOf({a, folder.path("*.bin")}),
            a +
                ": is given twice; to take more of it than of others, give "
                "weights: " +
                a + ":2");
  EXPECT_EQ(messageOf({a + ":1", b}),
            "--data " + a + ":1 has a weight, and " + b +
                " has none; give one to each, or to none");
  EXPECT_EQ(messageOf({a, b + ":1"}),
            "--data " + b + ":1 has a weight, and " + a +
                " has none; give one to each, or to none");
  for (const char *weight : {"0", "-1", "inf", "nan"})
    EXPECT_NE(messageOf({a + ":" + weight}).find("is not a number above 0"),
              std::string::npos)
        << weight;
}

} // namespace
} // namespace polyrank::runtime::test
