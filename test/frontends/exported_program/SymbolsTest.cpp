// Expressions of sizes in both notations of torch.export.

#include "frontends/exported_program/Symbols.h"

#include <gtest/gtest.h>

using polyrank::frontends::exported_program::SymbolicExpression;

namespace {

std::optional<int64_t> valueOf(const char *text, int64_t s0) {
  return SymbolicExpression(text).evaluate(
      [&](llvm::StringRef name) -> std::optional<int64_t> {
        if (name == "s0")
          return s0;
        return std::nullopt;
      });
}

} // namespace

TEST(Symbols, ASymbolHasItsName) {
  EXPECT_EQ(SymbolicExpression("s0").getSymbol(), "s0");
  EXPECT_EQ(SymbolicExpression("Symbol('s77', positive=True, integer=True)")
                .getSymbol(),
            "s77");
  EXPECT_EQ(SymbolicExpression("2*s0").getSymbol(), "");
}

TEST(Symbols, BothNotationsHaveTheSameValue) {
  EXPECT_EQ(valueOf("2*s0 + 1", 4), 9);
  EXPECT_EQ(
      valueOf("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))",
              4),
      9);
  EXPECT_EQ(valueOf("(s0 - 1)//2", 6), 2);
  EXPECT_EQ(valueOf("FloorDiv(Symbol('s0'), Integer(-1))", 6), std::nullopt);
  EXPECT_EQ(valueOf("-s0 + 7", 4), 3);
}

TEST(Symbols, AreShownAsTheUserWouldWriteThem) {
  EXPECT_EQ(SymbolicExpression("Add(Mul(Integer(2), Symbol('s0')), Integer(1))")
                .toString(),
            "2*s0 + 1");
  EXPECT_EQ(SymbolicExpression("Mul(Integer(2), Add(Symbol('s0'), Integer(1)))")
                .toString(),
            "2*(s0 + 1)");
}

TEST(Symbols, WhatIsShownIsReadAsTheSame) {
  for (const char *text :
       {"s0*(s0//3)", "s0*(2*s0)", "s0//(s0//2)", "7 - (s0 - 1)", "-(s0 + 1)",
        "--s0", "s0 - s0*2", "9223372036854775800 + (s0 - s0)",
        "(s0 - s0)*(9223372036854775807*1)", "2*-s0", "-s0*2", "-(s0*2)"}) {
    std::string shown = SymbolicExpression(text).toString();
    EXPECT_EQ(shown, SymbolicExpression(shown).toString()) << text;
    EXPECT_EQ(valueOf(text, 5), valueOf(shown.c_str(), 5)) << text;
    EXPECT_NE(valueOf(text, 5), std::nullopt) << text;
  }
  EXPECT_EQ(SymbolicExpression("Mul(Symbol('s0'), FloorDiv(Symbol('s0'), "
                               "Integer(3)))")
                .toString(),
            "s0*(s0//3)");
  EXPECT_EQ(SymbolicExpression("s0 - 1").toString(), "s0 - 1");
}

TEST(Symbols, WhatIsNotUnderstoodHasNoValue) {
  for (const char *text :
       {"", "Max(s0, 1)", "s0 +", "s0 ** 2", "(s0", "Symbol('s0'", "s0 s1",
        "Symbol('3')", "Symbol('s 0')", "Symbol('')"})
    EXPECT_EQ(valueOf(text, 4), std::nullopt) << text;
  EXPECT_EQ(valueOf("s1 + 1", 4), std::nullopt);
}

TEST(Symbols, LargeNumbersDoNotWrapAround) {
  EXPECT_EQ(valueOf("9223372036854775807 + s0", 4), std::nullopt);
  EXPECT_EQ(valueOf("9223372036854775807*s0", 4), std::nullopt);
}

TEST(Symbols, DeepAndLongTextsAreNotUnderstood) {
  EXPECT_EQ(
      valueOf((std::string(100, '(') + "s0" + std::string(100, ')')).c_str(),
              4),
      std::nullopt);
  std::string sum = "s0";
  for (int i = 0; i < 5000; ++i)
    sum += "+1";
  EXPECT_EQ(valueOf(sum.c_str(), 4), std::nullopt);
}
