// Bags of an embedding's rows: what they need to be known.

#include "test/frontends/aten/Program.h"

namespace polyrank::test {
namespace {

class Bags : public OperatorTest {
protected:
  /// Bags of the rows of `x`, by six indices.
  std::string refuse(const Value &offsets, bool byFrequency = false,
                     bool includeLast = false) {
    Value indices = call("aten::flatten", {i});
    EXPECT_TRUE(call("aten::embedding_bag",
                     {x, indices, offsets, Value(byFrequency), Value(0),
                      Value(false), Value(), Value(includeLast)})
                    .isUnknown());
    return reasons();
  }
};

TEST_F(Bags, OffsetsThatAnInputSaysAreRefused) {
  Value offsets = call("aten::select", {i, Value(1), Value(0)});
  EXPECT_NE(refuse(offsets).find("offsets that the model's inputs say: how "
                                 "long bags are must be known; give indices of "
                                 "two dims"),
            std::string::npos);
}

TEST_F(Bags, OffsetsThatDoNotBeginWithZeroAreRefused) {
  EXPECT_NE(refuse(known({1, 3})).find("do not begin with 0"),
            std::string::npos);
}

TEST_F(Bags, OffsetsThatDecreaseAreRefused) {
  EXPECT_NE(refuse(known({0, 4, 3})).find("decrease"), std::string::npos);
}

TEST_F(Bags, OffsetsBehindTheIndicesAreRefused) {
  EXPECT_NE(refuse(known({0, 7}), false, true).find("end behind the 6 indices"),
            std::string::npos);
}

TEST_F(Bags, NoBagsAreRefused) {
  EXPECT_EQ(refuse(known({0}), false, true), "aten::embedding_bag: no bags\n");
}

TEST_F(Bags, AGradientByFrequencyIsRefused) {
  options.training = true;
  EXPECT_NE(refuse(known({0, 3}), true).find("scale_grad_by_freq=True"),
            std::string::npos);
}

TEST_F(Bags, IndicesOfTwoDimsAreRefused) {
  EXPECT_TRUE(call("aten::embedding_bag", {x, i, known({0})}).isUnknown());
  EXPECT_EQ(reasons(),
            "aten::embedding_bag: rows of [2, 3] by indices of [2, 3]\n");
}

} // namespace
} // namespace polyrank::test
