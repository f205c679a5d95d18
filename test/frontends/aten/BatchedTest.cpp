// Tensors inside of a region of torch.vmap: what is hidden, and what is wrong.

#include "test/frontends/aten/Program.h"

#include "frontends/aten/BatchedCall.h"

namespace polyrank::test {
namespace {

class Regions : public OperatorTest {
protected:
  Value add(const Value &value, int64_t dim, int64_t level = 1) {
    return aten::addBatchDim(operators, value, dim, level);
  }
  Value remove(const Value &value, int64_t dim, int64_t size,
               int64_t level = 1) {
    return aten::removeBatchDim(operators, value, level, size, dim);
  }
  static Shape shapeOf(const Value &value) {
    return value.getTensor()->getShape();
  }
  static Shape seen(const Value &value) {
    return aten::asBatched(value)->getShape();
  }
  /// 0 to 5 as [2, 3], known.
  Value numbers() {
    return call("aten::view", {known({0, 1, 2, 3, 4, 5}), Value::ints({2, 3})});
  }
};

TEST_F(Regions, ADimThatEntersIsHidden) {
  EXPECT_EQ(seen(add(x, 0)), Shape({3}));
  EXPECT_EQ(seen(add(x, -1)), Shape({2}));
  Value both = add(add(x, 1, 1), 0, 2);
  EXPECT_EQ(seen(both), Shape());
  EXPECT_EQ(aten::heldTensor(both)->getShape(), Shape({3, 2}));
  EXPECT_EQ(both.describe(), "a tensor of float32[] in torch.vmap");
}

TEST_F(Regions, ADimThatLeavesIsWhereItIsAskedFor) {
  EXPECT_EQ(shapeOf(remove(add(x, 0), 0, 2)), Shape({2, 3}));
  EXPECT_EQ(integers(remove(add(numbers(), 0), 1, 2)),
            std::vector<int64_t>({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(integers(remove(add(numbers(), 1), -1, 3)),
            std::vector<int64_t>({0, 1, 2, 3, 4, 5}));
}

TEST_F(Regions, LevelsLeaveInAnyOrder) {
  Value both = add(add(numbers(), 0, 1), 0, 2);
  Value outer = remove(both, 0, 2, 1);
  EXPECT_EQ(seen(outer), Shape({2}));
  EXPECT_EQ(integers(remove(outer, 1, 3, 2)),
            std::vector<int64_t>({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(integers(remove(outer, 0, 3, 2)),
            std::vector<int64_t>({0, 3, 1, 4, 2, 5}));
}

TEST_F(Regions, WhatIsTheSameForAllIsRepeated) {
  EXPECT_EQ(integers(remove(known({7, 8}), 1, 2)),
            std::vector<int64_t>({7, 7, 8, 8}));
  Value row = remove(add(numbers(), 0, 1), 1, 2, 2);
  EXPECT_EQ(seen(row), Shape({3, 2}));
  EXPECT_EQ(integers(remove(row, 0, 2, 1)),
            std::vector<int64_t>({0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
}

TEST_F(Regions, OperandsOfOtherLevelsAndRanksAreAligned) {
  Value rows = add(numbers(), 0, 1), scalars = add(known({10, 20}), 0, 2);
  Value sum = call("aten::add", {rows, scalars});
  EXPECT_EQ(seen(sum), Shape({3}));
  Value outer = remove(sum, 0, 2, 2);
  EXPECT_EQ(
      integers(remove(outer, 0, 2, 1)),
      std::vector<int64_t>({10, 11, 12, 20, 21, 22, 13, 14, 15, 23, 24, 25}));
}

TEST_F(Regions, WhatHasNoDimsThatAreSeenTakesTheOthersType) {
  Value narrow = call("aten::to", {known({1, 2, 3}), Value(3)}, {}, "dtype");
  ASSERT_EQ(narrow.getTensor()->getType(), ElementType::I32);
  Value sum = call("aten::add", {narrow, add(known({10, 20}), 0)});
  EXPECT_EQ(aten::heldTensor(sum)->getType(), ElementType::I32);
  sum = call("aten::add", {known({5}), add(narrow, 0)});
  EXPECT_EQ(aten::heldTensor(sum)->getType(), ElementType::I64);
  EXPECT_EQ(aten::promoteTypes({add(narrow, 0), Value(2)}), ElementType::I32);
}

TEST_F(Regions, AReductionOfAllDimsKeepsThem) {
  Value row = add(x, 0);
  EXPECT_EQ(seen(call("aten::amax", {row, Value::list({}), Value(true)})),
            Shape({1}));
  EXPECT_EQ(seen(call("aten::argmax", {row, Value(), Value(true)})),
            Shape({1}));
  EXPECT_EQ(seen(call("aten::amax", {row})), Shape());
}

TEST_F(Regions, AFormulaWritesNothing) {
  Value sum = add(call("aten::clone", {x}), 0);
  EXPECT_TRUE(call("aten::addmm_", {sum, x, x}).isUnknown());
  EXPECT_NE(reasons().find("aten::addmm_ is not supported inside"),
            std::string::npos);
}

TEST_F(Regions, WhatDoesNotBecomeBatchedStaysATensor) {
  EXPECT_TRUE(call("aten::type_as", {x, add(i, 0)}).isTensor());
  EXPECT_EQ(seen(call("aten::type_as", {add(i, 0), x})), Shape({3}));
}

TEST_F(Regions, SizesAreThoseThatAreSeen) {
  Value row = add(x, 0);
  EXPECT_EQ(call("aten::size", {row, Value(0)}).getInt(), 3);
  EXPECT_EQ(call("aten::sym_size", {row, Value(-1)}).getInt(), 3);
  EXPECT_EQ(call("aten::dim", {row}).getInt(), 1);
  EXPECT_EQ(call("aten::numel", {row}).getInt(), 3);
  EXPECT_TRUE(call("aten::is_floating_point", {row}).getBool());
  EXPECT_TRUE(call("aten::size", {row, Value(1)}).isUnknown());
}

TEST_F(Regions, WhatIsWrongAtTheEndsOfARegionIsSaid) {
  EXPECT_TRUE(add(x, 2).isUnknown());
  EXPECT_TRUE(add(x, -3).isUnknown());
  EXPECT_TRUE(add(add(x, 0), 0).isUnknown()); // the same level
  EXPECT_TRUE(add(Value(2), 0).isUnknown());
  EXPECT_EQ(reasons(),
            "torch.vmap: it maps over dim -1 of a tensor of float32[2, 3]\n"
            "torch.vmap: it maps over dim 0 of a tensor of float32[3] in "
            "torch.vmap\n"
            "torch.vmap: it maps over dim 2 of a tensor of float32[2, 3]\n"
            "torch.vmap: it maps over the integer 2, which is no real "
            "tensor\n");
}

TEST_F(Regions, AResultOfAnotherSizeIsRefused) {
  EXPECT_TRUE(remove(add(x, 0), 0, 5).isUnknown());
  EXPECT_TRUE(remove(add(x, 0), 2, 2).isUnknown());
  EXPECT_TRUE(remove(x, 3, 2).isUnknown());
  EXPECT_TRUE(remove(Value(1), 0, 2).isUnknown());
  EXPECT_EQ(reasons(), "torch.vmap: it gives the integer 1\n"
                       "torch.vmap: its result has no dim 3\n"
                       "torch.vmap: of 2 samples its result has 2 in dim 2\n"
                       "torch.vmap: of 2 samples its result has 5 in dim 0\n");
}

TEST_F(Regions, OperandsOfOtherSizesAreRefused) {
  EXPECT_TRUE(call("aten::add", {add(x, 0), add(x, 1)}).isUnknown());
  EXPECT_NE(reasons().find("it has tensors of 3 and of 2 samples"),
            std::string::npos);
}

TEST_F(Regions, AWriteIntoWhatIsTheSameForAllIsRefused) {
  Value row =
      call("aten::clone", {call("aten::select", {x, Value(0), Value(0)})});
  EXPECT_TRUE(call("aten::add_", {row, add(x, 0)}).isUnknown());
  EXPECT_NE(reasons().find("aten::add_ in torch.vmap: it writes what differs "
                           "from sample to sample into a tensor that does not"),
            std::string::npos);
}

TEST_F(Regions, AWriteOfMoreDimsThanAreSeenIsRefused) {
  Value scalar = add(add(call("aten::clone", {x}), 0, 1), 0, 2);
  EXPECT_TRUE(call("aten::add_", {scalar, known({1, 2})}).isUnknown());
}

TEST_F(Regions, DimsThatAreNotSeenAreRefused) {
  EXPECT_TRUE(call("aten::softmax", {add(x, 0), Value(1)}).isUnknown());
  EXPECT_TRUE(call("aten::softmax", {add(x, 0), Value(-2)}).isUnknown());
  EXPECT_TRUE(
      call("aten::index_select", {add(x, 0), Value(1), add(i, 0)}).isUnknown());
  EXPECT_EQ(reasons().find("is not supported"), std::string::npos);
}

TEST_F(Regions, AMaskOfEachSampleIsNoIndex) {
  Value mask = call("aten::gt", {add(x, 0), Value(0)});
  EXPECT_TRUE(
      call("aten::index", {add(x, 0), Value::list({mask})}).isUnknown());
  EXPECT_NE(reasons().find("aten::index in torch.vmap: a mask as an index"),
            std::string::npos);
}

TEST_F(Regions, WhatHasNoRuleSaysTheWayOut) {
  EXPECT_TRUE(call("aten::where", {add(x, 0)}).isUnknown());
  EXPECT_TRUE(call("aten::nonzero", {add(x, 0)}).isUnknown());
  std::string said = reasons();
  for (const char *name : {"where", "nonzero"})
    EXPECT_NE(said.find("aten::" + std::string(name) +
                        " is not supported inside of torch.vmap, which it is "
                        "called in; PyTorch can decompose the region: export "
                        "the model by tools/export.py --decompose, or save "
                        "program.run_decompositions()"),
              std::string::npos)
        << said;
}

TEST_F(Regions, ComplexNumbersAreRefused) {
  Value complex = call("aten::complex", {x, x});
  EXPECT_TRUE(call("aten::mul", {complex, add(x, 0)}).isUnknown());
  EXPECT_TRUE(add(complex, 0).isUnknown());
  EXPECT_NE(reasons().find("complex numbers"), std::string::npos);
}

TEST_F(Regions, EachRuleIsThatOfAnOperator) {
  for (const auto &rule : aten::BatchedCall::rules()) {
    std::string name = "aten::" + rule.getKey().str();
    EXPECT_TRUE(aten::hasOperator(name) || aten::hasOperator(name + "_"))
        << name;
  }
}

} // namespace
} // namespace polyrank::test
