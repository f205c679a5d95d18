// JSON that is read into structs, with the place of what is wrong.

#include "frontends/exported_program/JsonFields.h"

#include <gtest/gtest.h>
#include <malloc.h>

using namespace polyrank::frontends::exported_program;

namespace {

struct Pair {
  std::string name;
  std::vector<int64_t> numbers;
  bool flag = true;
};

bool readJson(const Json &value, Pair &into, llvm::json::Path path) {
  Fields fields(value, path);
  return fields && fields.map("name", into.name) &&
         fields.map("numbers", into.numbers) &&
         fields.mapOptional("flag", into.flag);
}

/// Returns the error for `text`; empty if it is a Pair.
std::string errorOf(llvm::StringRef text, Pair *into = nullptr) {
  auto json = parseJson(text, "x.json");
  if (!json)
    return json.error().message;
  Pair pair;
  llvm::json::Path::Root path("x.json");
  if (!readJson(*json, into ? *into : pair, path))
    return llvm::toString(path.getError());
  llvm::consumeError(path.getError());
  return "";
}

TEST(JsonFields, FieldsAreReadAndMayBeLeftOut) {
  Pair pair;
  EXPECT_EQ(
      errorOf(R"({"numbers": [1, -2], "name": "a\"b", "more": {}})", &pair),
      "");
  EXPECT_EQ(pair.name, "a\"b");
  EXPECT_EQ(pair.numbers, (std::vector<int64_t>{1, -2}));
  EXPECT_TRUE(pair.flag);
  EXPECT_EQ(errorOf(R"({"name": "a", "numbers": [], "flag": false})", &pair),
            "");
  EXPECT_FALSE(pair.flag);
  EXPECT_TRUE(pair.numbers.empty());
}

TEST(JsonFields, AnotherKindIsSaidWithItsPlace) {
  for (const auto &[text, problem] :
       {std::pair(R"([])", "expected object"),
        std::pair(R"({"numbers": []})", "missing value at x.json.name"),
        std::pair(R"({"name": 1, "numbers": []})",
                  "expected string at x.json.name"),
        std::pair(R"({"name": "a", "numbers": {}})",
                  "expected array at x.json.numbers"),
        std::pair(R"({"name": "a", "numbers": [1, 1.5]})",
                  "expected integer at x.json.numbers[1]"),
        std::pair(R"({"name": "a", "numbers": [9223372036854775808]})",
                  "expected integer at x.json.numbers[0]"),
        std::pair(R"({"name": "a", "numbers": [], "flag": 1})",
                  "expected boolean at x.json.flag")})
    EXPECT_NE(errorOf(text).find(problem), std::string::npos)
        << text << ": " << errorOf(text);
}

TEST(JsonFields, ATableAndWhatMayBeNull) {
  auto json = parseJson(R"({"a": null, "b": 3})", "x.json");
  ASSERT_TRUE(json) << json.error().message;
  using polyrank::frontends::exported_program::readJson;
  std::map<std::string, std::optional<int64_t>> table;
  llvm::json::Path::Root path("x.json");
  EXPECT_TRUE(readJson(*json, table, path));
  EXPECT_EQ(table, (decltype(table){{"a", std::nullopt}, {"b", 3}}));
  EXPECT_FALSE(readJson(Json::array(), table, path));
  EXPECT_NE(llvm::toString(path.getError()).find("expected object"),
            std::string::npos);
}

TEST(JsonFields, WhatIsNoJsonIsSaid) {
  for (const char *text : {"", "{", "[1,]", "{\"a\" 1}", "[1] 2", "\"\xff\""})
    EXPECT_EQ(errorOf(text).find("x.json: "), 0u) << text;
  EXPECT_EQ(errorOf(std::string(257, '[')),
            "x.json: nested more than 256 deep");
  auto deep = parseJson(std::string(256, '[') + std::string(256, ']'), "x");
  EXPECT_TRUE(deep);
}

TEST(JsonFields, NumbersThatJsonLacksAreTexts) {
  auto json = parseJson(R"([NaN, -Infinity, Infinity, "NaN"])", "x.json");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json, Json({"NaN", "-Infinity", "Infinity", "NaN"}));
}

/// A size of a tensor is an object, and a model of 7B has 50,000 of them.
TEST(JsonFields, ASmallObjectTakesLittleMemory) {
  std::string text = "[0";
  for (int i = 0; i < 10'000; ++i)
    text += R"(, {"as_int": 1})";
  text += "]";
  auto used = [] {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  size_t before = used();
  auto json = parseJson(text, "x.json");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_LT(used() - before, 30 * text.size());
}

TEST(JsonFields, WhatADocumentTakesIsTakenFromTheBudget) {
  std::string text = "[1";
  for (int i = 0; i < 1'000'000; ++i)
    text += ",1";
  auto json = parseJson(text + "]", "x.json");
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().message.find(
                "x.json: takes more than 134217728 bytes of memory"),
            std::string::npos)
      << json.error().message;
}

} // namespace
