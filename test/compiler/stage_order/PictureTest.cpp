// The contents of a schedule's picture.

#include "compiler/stage_order/Picture.h"

#include <gtest/gtest.h>

using namespace polyrank::stage_order;

namespace {

int64_t count(const std::string &text, const std::string &word) {
  int64_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1))
    ++found;
  return found;
}

TEST(Picture, HasABoxForAllThatHappens) {
  Schedule schedule = *makeSchedule("zero-bubble", 2, 1, 3);
  Times times;
  times.updates = {2, 2};
  times.transfers = {{0, 1, 1, 1}};
  Simulation simulation = *simulate(schedule, times);
  std::string svg = toSvg(schedule, simulation, "two & three");
  EXPECT_EQ(count(svg, "<title>forward of stage"), 6);
  EXPECT_EQ(count(svg, "<title>gradient of the input of stage"), 6);
  EXPECT_EQ(count(svg, "<title>gradients of weights of stage"), 6);
  EXPECT_EQ(count(svg, "<title>update of rank"), 2);
  EXPECT_EQ(count(svg, "<title>microbatch"), 6);
  int64_t standing = 0;
  for (size_t rank = 0; rank < 2; ++rank)
    standing += count(svg, "<title>rank " + std::to_string(rank) + " stands");
  EXPECT_GT(standing, 0);
  // Boxes have the numbers of microbatches.
  EXPECT_EQ(count(svg, "text-anchor=\"middle\">2<"), 6);
  EXPECT_NE(svg.find("two &amp; three"), std::string::npos);
  EXPECT_NE(svg.find("2 ranks, 2 stages, 3 microbatches"), std::string::npos);
}

TEST(Picture, NamesOnlyWhatItShows) {
  Schedule schedule = *makeSchedule("gpipe", 2, 2, 2);
  std::string svg = toSvg(schedule, *simulate(schedule));
  EXPECT_EQ(svg.find(">gradients of weights<"), std::string::npos);
  EXPECT_EQ(svg.find(">update<"), std::string::npos);
  EXPECT_EQ(svg.find(">communication<"), std::string::npos);
  EXPECT_NE(svg.find(">backward<"), std::string::npos);
  EXPECT_NE(svg.find("later chunks are paler"), std::string::npos);
  EXPECT_NE(svg.find("opacity=\"0.45\""), std::string::npos);
}

TEST(Picture, OfNoTimeIsEmpty) {
  Schedule schedule = *makeSchedule("1f1b", 2, 1, 2);
  Times times;
  times.stages = {{0, 0, 0}};
  std::string svg = toSvg(schedule, *simulate(schedule, times));
  EXPECT_EQ(svg.find("<title>forward of"), std::string::npos);
}

} // namespace
