// Coordinates that follow each other are a range.

#include "support/Places.h"

#include <gtest/gtest.h>
#include <vector>

namespace polyrank::test {
namespace {

std::string join(const std::vector<std::string> &places) {
  return joinPlaces(places);
}

TEST(Places, NeighboursAreARange) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({"pipe=3"}), "pipe=3");
  EXPECT_EQ(join({"pipe=0", "pipe=1"}), "pipe=0, 1");
  EXPECT_EQ(join({"pipe=0", "pipe=1", "pipe=2"}), "pipe=0 to 2");
  EXPECT_EQ(join({"pipe=0", "pipe=2", "pipe=3", "pipe=4", "pipe=9"}),
            "pipe=0, 2 to 4, 9");
}

TEST(Places, AxesAreNamedAgainAndOtherTextsWhole) {
  EXPECT_EQ(join({"pipe=0", "pipe=1", "depth=2"}), "pipe=0, 1, depth=2");
  EXPECT_EQ(join({"pipe=0,data=1", "pipe=1,data=1"}),
            "pipe=0,data=1, pipe=1,data=1");
  EXPECT_EQ(join({"pipe=0", "", "pipe=1"}), "pipe=0, , pipe=1");
}

} // namespace
} // namespace polyrank::test
