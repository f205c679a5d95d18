// Suggestions for misspelled names, and names that differ only in layer
// numbers.

#include "support/Names.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

std::string rangeOf(std::initializer_list<std::string_view> names) {
  LayerNames layers;
  for (std::string_view name : names)
    layers.add(name);
  return layers.toString();
}

TEST(EditDistance, CountsCharactersThatChange) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("tensor", "tensor"), 0u);
  EXPECT_EQ(editDistance("tensr", "tensor"), 1u);
  EXPECT_EQ(editDistance("tesnor", "tensor"), 1u);
  EXPECT_EQ(editDistance("trian", "train"), 1u);
  EXPECT_EQ(editDistance("ca", "abc"), 3u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
}

TEST(NearestNames, LeavesOutLeadingModulesAndNumbersOfLayers) {
  std::vector<std::string> names{"transformer.h.0.attn.c_attn.weight",
                                 "transformer.h.1.attn.c_attn.weight",
                                 "transformer.h.0.mlp.c_fc.weight",
                                 "transformer.wte.weight"};
  EXPECT_EQ(nearestNames("*.c_atn.weight", names),
            "; nearest: 'transformer.h.*.attn.c_attn.weight', "
            "'transformer.h.*.mlp.c_fc.weight', 'transformer.wte.weight'");
  EXPECT_EQ(nearestNames("h.7.mlp.cfc.weight", names).substr(0, 44),
            "; nearest: 'transformer.h.*.mlp.c_fc.weight'");
  EXPECT_EQ(nearestNames("x", {}), "");
}

TEST(NearestNames, ShowsOneNameHoweverFarItIs) {
  std::vector<std::string> names{"encoder.weight", "decoder.weight"};
  EXPECT_EQ(nearestNames("zz", names), "; nearest: 'decoder.weight'");
}

TEST(NearestNames, BeginWithWhatWasWritten) {
  std::vector<std::string> names{"down.bias", "h.0.c_attn.weight",
                                 "embedding.weight", "ln.weight",
                                 "h.1.c_attn.weight"};
  EXPECT_EQ(nearestNames("emb", names), "; nearest: 'embedding.weight'");
  EXPECT_EQ(nearestNames("emb*.weight", names).substr(0, 28),
            "; nearest: 'embedding.weight");
  EXPECT_EQ(nearestNames("attn.*", names), "; nearest: 'h.*.c_attn.weight'");
  EXPECT_EQ(nearestNames("h.3.attn", names), "; nearest: 'h.*.c_attn.weight'");
}

TEST(NearestNames, HaveWhatWasWrittenAmongTheirParts) {
  std::vector<std::string> names{"a.weight", "model.wpe.weight", "wep.bias"};
  EXPECT_EQ(nearestNames("wpe", names),
            "; nearest: 'model.wpe.weight', 'wep.bias'");
  EXPECT_EQ(nearestNames("bias", names), "; nearest: 'wep.bias'");
}

TEST(NearestWords, AreNotGuessedWhereNoneIsNear) {
  EXPECT_EQ(nearestWords("trian", {"train", "forward"}), "; nearest: 'train'");
  EXPECT_EQ(nearestWords("sgd", {"sgd", "adam", "adamw"}), "; nearest: 'sgd'");
  EXPECT_EQ(nearestWords("foo", {"data", "tensor"}), "");
  EXPECT_EQ(nearestWords("--precision", {"--version"}), "");
  EXPECT_EQ(nearestWords("--stpes", {"--seed", "--steps", "--save"}),
            "; nearest: '--steps'");
}

TEST(LayerNames, DifferInNumbersOnly) {
  EXPECT_EQ(LayerNames::getKey("h.0.attn"), LayerNames::getKey("h.11.attn"));
  EXPECT_NE(LayerNames::getKey("h.0.attn"), LayerNames::getKey("h.0.mlp"));
  EXPECT_NE(LayerNames::getKey("fc1.weight"), LayerNames::getKey("fc2.weight"));
  // A sequence's first module has no name before its number.
  EXPECT_EQ(LayerNames::getKey("0.weight"), LayerNames::getKey("2.weight"));
  EXPECT_EQ(LayerNames::getKey("mul '0.weight'"),
            LayerNames::getKey("mul '2.weight'"));
}

TEST(LayerNames, InQuotesLoseTheNameOfTheNode) {
  EXPECT_EQ(LayerNames::getKey("matmul 'h.0.attn/node_mm_1'"),
            LayerNames::getKey("matmul 'h.1.attn/node_mm_7'"));
  EXPECT_NE(LayerNames::getKey("encoder/kernel"),
            LayerNames::getKey("encoder/bias"));
}

TEST(LayerNames, AreWrittenAsARange) {
  EXPECT_EQ(rangeOf({"h.0.attn", "h.1.attn", "h.2.attn"}), "h.[0-2].attn");
  EXPECT_EQ(rangeOf({"h.0.attn", "h.3.attn"}), "h.{0,3}.attn");
  EXPECT_EQ(rangeOf({"a.0.b.1", "a.0.b.2"}), "a.0.b.[1-2]");
  EXPECT_EQ(rangeOf({"mm 'h.0/node_1'", "mm 'h.1/node_9'"}), "mm 'h.[0-1]'");
  EXPECT_EQ(rangeOf({"mm 'h.0/node_1'"}), "mm 'h.0/node_1'");
}

} // namespace
} // namespace polyrank::runtime::test
