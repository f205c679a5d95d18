// KEY=VALUE, alone and in lists, and numbers in values.

#include "support/KeyValue.h"

#include <gtest/gtest.h>

namespace polyrank::test {
namespace {

constexpr PairForm form{"AXIS=SIZE", "data=2,tensor=4"};

TEST(KeyValue, APairHasTwoSidesWithoutBlanks) {
  auto pair = parsePair("  data = 2 ", form);
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->key, "data");
  EXPECT_EQ(pair->value, "2");
  for (const char *text : {"", "data", "=2", "data=", " = "}) {
    auto wrong = parsePair(text, form);
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().message,
              "'" + std::string(text) +
                  "' is not AXIS=SIZE, as in data=2,tensor=4");
  }
}

TEST(KeyValue, TheFirstOrTheLastSignSeparates) {
  auto first = parsePair("a=b=3", form);
  EXPECT_EQ(first->key, "a");
  EXPECT_EQ(first->value, "b=3");
  auto last = parsePair("a=b=3", form, Separator::Last);
  EXPECT_EQ(last->key, "a=b");
  EXPECT_EQ(last->value, "3");
}

TEST(KeyValue, AListIsSeparatedByCommas) {
  auto pairs = parsePairs("data=2, tensor=4", form);
  ASSERT_TRUE(pairs);
  ASSERT_EQ(pairs->size(), 2u);
  EXPECT_EQ((*pairs)[1].key, "tensor");
  EXPECT_EQ((*pairs)[1].value, "4");
  EXPECT_TRUE(parsePairs(" ", form)->empty());
  auto wrong = parsePairs("data=2,", form);
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().message.starts_with("'' is not AXIS=SIZE"));
}

TEST(KeyValue, ANumberIsTheWholeText) {
  EXPECT_EQ(numberOf("1e-3"), 1e-3);
  EXPECT_EQ(integerOf("-7"), -7);
  for (const char *text : {"", "1x", " 1", "one"}) {
    EXPECT_FALSE(numberOf(text)) << text;
    EXPECT_FALSE(integerOf(text)) << text;
  }
  EXPECT_FALSE(integerOf("1.5"));
  EXPECT_FALSE(integerOf("9223372036854775808"));
}

TEST(KeyValue, NumbersAreAsManyAsAskedFor) {
  EXPECT_EQ(numbersOf("10:25", 2), (std::vector<double>{10, 25}));
  for (const char *text : {"", "10", "10:", "10:25:3", "10:fast"})
    EXPECT_FALSE(numbersOf(text, 2)) << text;
}

} // namespace
} // namespace polyrank::test
