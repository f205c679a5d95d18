// Outputs are named by the tree that torch.export writes.

#include "frontends/exported_program/Outputs.h"

#include <gtest/gtest.h>

using polyrank::frontends::exported_program::nameOutputs;
using Names = std::vector<std::string>;

namespace {
const std::string leaf =
    R"({"type": null, "context": null, "children_spec": []})";
std::string node(const std::string &type, const std::string &context,
                 const std::string &children) {
  return R"({"type": ")" + type + R"(", "context": )" + context +
         R"(, "children_spec": [)" + children + "]}";
}
} // namespace

TEST(Outputs, OneIsCalledOutput) {
  EXPECT_EQ(nameOutputs("[1, " + leaf + "]", 1), Names{"output"});
}

TEST(Outputs, ElementsOfATupleAreCounted) {
  EXPECT_EQ(
      nameOutputs(
          "[1, " + node("builtins.tuple", R"("null")", leaf + "," + leaf) + "]",
          2),
      (Names{"output_0", "output_1"}));
}

TEST(Outputs, KeysOfADictAreNames) {
  std::string inner = node("builtins.tuple", R"("null")", leaf + "," + leaf);
  EXPECT_EQ(
      nameOutputs("[1, " +
                      node("builtins.dict", R"("[\"logits\", \"states\"]")",
                           leaf + "," + inner) +
                      "]",
                  3),
      (Names{"logits", "states_0", "states_1"}));
}

TEST(Outputs, WithoutATreeTheyAreATuple) {
  EXPECT_EQ(nameOutputs("", 2), (Names{"output_0", "output_1"}));
  EXPECT_EQ(nameOutputs("[1, " + leaf + "]", 2),
            (Names{"output_0", "output_1"}));
  EXPECT_EQ(nameOutputs("[1, {}]", 1), Names{"output"});
}
