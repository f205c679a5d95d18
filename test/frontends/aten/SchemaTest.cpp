// Schemas are read as PyTorch writes them.

#include "frontends/aten/Schema.h"

#include <gtest/gtest.h>

#include "frontends/aten/Operators.h"

using namespace polyrank::frontends::aten;

TEST(Schema, ReadsTypesDefaultsAndKeywords) {
  auto schema = parseSchema(
      "conv.padding(Tensor input, Tensor? bias=None, SymInt[2] stride=1, str "
      "padding=\"valid\", *, Tensor?[] indices, float eps=1e-05) -> Tensor");
  ASSERT_TRUE(schema);
  EXPECT_EQ(schema->name, "conv");
  EXPECT_EQ(schema->overload, "padding");
  ASSERT_EQ(schema->parameters.size(), 6u);
  const auto &parameters = schema->parameters;
  EXPECT_TRUE(parameters[1].type.isOptional);
  EXPECT_TRUE(parameters[1].otherwise->isNone());
  EXPECT_TRUE(parameters[2].type.isList);
  EXPECT_EQ(parameters[2].type.listSize, 2);
  EXPECT_EQ(parameters[3].otherwise->getString(), "valid");
  EXPECT_FALSE(parameters[3].isKeywordOnly);
  EXPECT_TRUE(parameters[4].isKeywordOnly);
  EXPECT_TRUE(parameters[4].type.hasOptionalElements);
  EXPECT_DOUBLE_EQ(parameters[5].otherwise->getFloat(), 1e-5);
}

TEST(Schema, SaysWhatIsWritten) {
  auto schema =
      parseSchema("add_(Tensor(a!) self, Tensor(b) other) -> Tensor(a!)");
  ASSERT_TRUE(schema);
  EXPECT_TRUE(schema->parameters[0].type.isWritten);
  EXPECT_FALSE(schema->parameters[1].type.isWritten);
}

TEST(Schema, ADefaultMayBeAList) {
  auto schema = parseSchema("roll(Tensor self, int[1] dims=[]) -> Tensor");
  ASSERT_TRUE(schema);
  EXPECT_TRUE(schema->parameters[1].otherwise->getList().empty());
}

TEST(Schema, MistypedOnesAreRefused) {
  EXPECT_FALSE(parseSchema("f(Tenser self) -> Tensor"));
  EXPECT_FALSE(parseSchema("f(Tensor self"));
  EXPECT_FALSE(parseSchema("f(int a=one) -> int"));
  EXPECT_FALSE(parseSchema("f(int[x] a) -> int"));
}

TEST(Schema, EveryRowOfTheTableIsRead) {
  size_t overloads = 0;
  for (const OperatorEntry &entry : listOperators()) {
    EXPECT_TRUE(hasOperator(entry.name));
    overloads += entry.schemas.size();
  }
  EXPECT_GT(overloads, 600u);
}
