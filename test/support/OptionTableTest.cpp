// A table of options: fields are read from texts and printed as texts.

#include "support/OptionTable.h"

#include <gtest/gtest.h>

namespace polyrank::test {
namespace {

enum class Color { Red, Blue };

struct Fields {
  std::string model, word = "one";
  int64_t count = 1;
  uint32_t small = 0;
  double share = 0;
  std::optional<double> rate;
  std::vector<std::string> list;
  Color color = Color::Red;
  bool flag = false, quiet = false;

  OptionTable table() {
    return {
        {"First",
         {{"MODEL", "FILE", &model, ""},
          {"-w,--word,--former", "WORD", oneOfWords(&word, {"one", "two"}), ""},
          {"--count", "N", &count, "", {.check = between(int64_t(1), 9)}},
          {"--small", "N", &small, ""},
          {"--share", "X", &share, "", {.check = between(0.0, 0.5)}},
          {"--rate", "X", &rate, "", {.check = aboveZero()}},
          {"--list", "SPEC", &list, ""},
          {"--color", "C",
           choice(&color, {{"red", Color::Red}, {"blue", Color::Blue}}), ""},
          {"--flag", "", &flag, ""}}},
        {"Second", {{"--quiet", "", &quiet, ""}}, /*isInCommand=*/false}};
  }

  /// Sets an option; returns what is wrong.
  std::string set(const std::string &name, std::vector<std::string> texts) {
    for (const OptionGroup &group : table())
      for (const OptionRow &row : group.rows)
        if (row.longName() == name)
          return setField(row, texts);
    return "no row";
  }
  std::vector<std::string> arguments() {
    Fields standard;
    return argumentsOf(table(), standard.table());
  }
};

using Texts = std::vector<std::string>;

TEST(OptionTable, ACommandHasWhatIsNotTheDefault) {
  Fields fields;
  EXPECT_EQ(fields.arguments(), Texts());
  EXPECT_EQ(fields.set("MODEL", {"m.onnx"}), "");
  EXPECT_EQ(fields.set("--word", {"two"}), "");
  EXPECT_EQ(fields.set("--count", {"9"}), "");
  EXPECT_EQ(fields.set("--small", {"4294967295"}), "");
  EXPECT_EQ(fields.set("--share", {"0.25"}), "");
  EXPECT_EQ(fields.set("--rate", {"1e-05"}), "");
  EXPECT_EQ(fields.set("--list", {"a=1", "b c"}), "");
  EXPECT_EQ(fields.set("--color", {"blue"}), "");
  EXPECT_EQ(fields.set("--flag", {"true"}), "");
  EXPECT_EQ(fields.set("--quiet", {"true"}), "");
  EXPECT_EQ(fields.arguments(),
            (Texts{"m.onnx", "-w", "two", "--count", "9", "--small",
                   "4294967295", "--share", "0.25", "--rate", "1e-05", "--list",
                   "a=1", "--list", "b c", "--color", "blue", "--flag"}));
}

TEST(OptionTable, AFieldMayBeZeroWhereTheDefaultIsNot) {
  Fields fields;
  fields.count = 0;
  EXPECT_EQ(fields.arguments(), (Texts{"--count", "0"}));
}

TEST(OptionTable, ANameIsTheFirstLongOne) {
  Fields fields;
  OptionTable table = fields.table();
  EXPECT_EQ(table[0].rows[0].longName(), "MODEL");
  EXPECT_TRUE(table[0].rows[0].isPositional());
  EXPECT_EQ(table[0].rows[1].longName(), "--word");
}

TEST(OptionTable, ADefaultIsShownIfItIsOne) {
  Fields fields;
  std::vector<OptionRow> rows = fields.table()[0].rows;
  std::vector<std::string> shown;
  for (const OptionRow &row : rows)
    shown.push_back(defaultOf(row));
  EXPECT_EQ(shown, (Texts{"", "one", "1", "", "", "", "", "red", ""}));
}

TEST(OptionTable, WrongTextsAreNamed) {
  Fields fields;
  auto wrong = [&](const char *name, const char *text) {
    return fields.set(name, {text});
  };
  EXPECT_EQ(wrong("--count", "10"), "'10' is no whole number from 1 to 9");
  EXPECT_EQ(wrong("--count", "0"), "'0' is no whole number from 1 to 9");
  EXPECT_EQ(wrong("--count", "many"), "'many' is no whole number from 1 to 9");
  EXPECT_EQ(wrong("--small", "-1"),
            "'-1' is no whole number that is possible here");
  EXPECT_EQ(wrong("--small", "4294967296"),
            "'4294967296' is no whole number that is possible here");
  EXPECT_EQ(wrong("--share", "0.75"), "'0.75' is no number from 0 to 0.5");
  EXPECT_EQ(wrong("--share", "-0.1"), "'-0.1' is no number from 0 to 0.5");
  EXPECT_EQ(wrong("--rate", "0"), "'0' is no number above 0");
  EXPECT_EQ(wrong("--color", "bleu"),
            "'bleu' is none of red, blue; nearest: 'blue'");
  EXPECT_EQ(wrong("--word", "three"), "'three' is none of one, two");
  EXPECT_EQ(fields.arguments(), Texts());
}

} // namespace
} // namespace polyrank::test
