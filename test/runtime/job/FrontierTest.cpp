// A frontier that is held, opened up to a piece, and closed.

#include "runtime/job/Frontier.h"

#include <gtest/gtest.h>

namespace polyrank::runtime {
namespace {

using Answer = Frontier::Answer;

TEST(Frontier, WhileItIsHeldNobodyGoesFurther) {
  Frontier frontier;
  ASSERT_EQ(frontier.ask(3), Answer::Yes);
  EXPECT_EQ(frontier.hold(), 3u);
  EXPECT_EQ(frontier.ask(2), Answer::Yes);
  EXPECT_EQ(frontier.ask(3), Answer::Yes);
  EXPECT_EQ(frontier.ask(4), Answer::Wait);
  EXPECT_FALSE(frontier.isClosedBefore(4));
  EXPECT_EQ(frontier.hold(), 3u);
  frontier.release();
  EXPECT_EQ(frontier.ask(4), Answer::Yes);
}

TEST(Frontier, ItOpensUpToTheLastPiece) {
  Frontier frontier;
  ASSERT_EQ(frontier.ask(3), Answer::Yes);
  frontier.hold();
  frontier.stopAfter(5);
  EXPECT_EQ(frontier.ask(4), Answer::Yes);
  EXPECT_EQ(frontier.ask(5), Answer::Yes);
  EXPECT_EQ(frontier.ask(6), Answer::No);
  EXPECT_FALSE(frontier.isClosedBefore(5));
  EXPECT_TRUE(frontier.isClosedBefore(6));
}

TEST(Frontier, APieceThatHasBegunIsNotTakenBack) {
  Frontier frontier;
  ASSERT_EQ(frontier.ask(3), Answer::Yes);
  frontier.stopAfter(2);
  EXPECT_EQ(frontier.ask(3), Answer::Yes);
  EXPECT_EQ(frontier.ask(4), Answer::No);
}

TEST(Frontier, ClosingEndsAHold) {
  Frontier frontier;
  ASSERT_EQ(frontier.ask(1), Answer::Yes);
  frontier.hold();
  EXPECT_EQ(frontier.close(), 1u);
  EXPECT_EQ(frontier.ask(2), Answer::No);
  frontier.release(); // a closed frontier stays closed
  EXPECT_EQ(frontier.ask(2), Answer::No);
}

} // namespace
} // namespace polyrank::runtime
