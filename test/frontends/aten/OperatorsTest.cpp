// The overload that a call takes, and the type of its result.

#include "test/frontends/aten/Program.h"

#include "frontends/aten/Call.h"

using namespace polyrank;
using namespace polyrank::test;
using aten::List;

using Overloads = OperatorTest;

namespace {
ElementType typeOf(const Value &value) { return value.getTensor()->getType(); }
} // namespace

TEST_F(Overloads, ANumberAndATensorAreTakenApart) {
  EXPECT_EQ(typeOf(call("aten::mul", {x, Value(2)})), ElementType::F32);
  EXPECT_EQ(call("aten::mul", {Value(3), Value(2)}).getInt(), 6);
  EXPECT_DOUBLE_EQ(call("aten::mul", {Value(3), Value(0.5)}).getFloat(), 1.5);
  EXPECT_EQ(call("aten::mul", {Value::ints({1}), Value(2)}).getList().size(),
            2u);
}

TEST_F(Overloads, DivisionOfIntegersIsOfNumbersAFloat) {
  EXPECT_DOUBLE_EQ(call("aten::div", {Value(1), Value(2)}).getFloat(), 0.5);
  EXPECT_EQ(call("aten::floordiv", {Value(-7), Value(2)}).getInt(), -4);
  EXPECT_EQ(call("aten::remainder", {Value(-7), Value(2)}).getInt(), 1);
}

TEST_F(Overloads, ANamedOverloadIsTakenAndConvertsANumber) {
  Value sum = call("aten::add", {}, {{"self", x}, {"other", Value(1)}},
                   llvm::StringRef("Tensor"));
  EXPECT_EQ(typeOf(sum), ElementType::F32);
}

TEST_F(Overloads, DefaultsAreFilledIn) {
  Value flat = call("aten::flatten", {x});
  EXPECT_EQ(flat.getTensor()->getShape(), Shape({6}));
}

TEST_F(Overloads, AKnownTensorWithoutDimsIsANumberWhereOneIsNeeded) {
  Value size = call("prim::NumToTensor", {Value(3)});
  Value shape = Value::list(List{size, Value(2)});
  EXPECT_EQ(call("aten::reshape", {x, shape}).getTensor()->getShape(),
            Shape({3, 2}));
}

TEST_F(Overloads, AnUnknownArgumentGivesAnUnknownResultWithoutAReason) {
  EXPECT_TRUE(call("aten::relu", {Value::unknown()}).isUnknown());
  EXPECT_EQ(reasons(), "");
}

//===-- what is refused --------------------------------------------------===//

TEST_F(Overloads, AnOperatorThatIsMissingIsNamed) {
  EXPECT_TRUE(call("aten::istft", {x}).isUnknown());
  EXPECT_EQ(reasons(), "aten::istft is not supported; compute it before the "
                       "data is given\n");
}

TEST_F(Overloads, AnOperatorThatPyTorchDecomposesHasThatWayOut) {
  call("aten::sinc", {x});
  EXPECT_EQ(reasons(), "aten::sinc is not supported\n");
  operators.mayDecompose = true;
  call("aten::rot90", {x});
  call("aten::linalg_qr", {x});
  EXPECT_NE(reasons().find("aten::rot90 is not supported; PyTorch writes it "
                           "with others: export the model by tools/export.py "
                           "--decompose"),
            std::string::npos);
  EXPECT_NE(reasons().find("aten::linalg_qr is not supported\n"),
            std::string::npos);
}

TEST_F(Overloads, WhatTheTableHasIsNotSaidToNeedDecomposing) {
  for (const aten::OperatorEntry &entry : aten::listOperators())
    EXPECT_FALSE(aten::isDecomposed(entry.name)) << entry.name;
}

TEST_F(Overloads, AnOverloadThatIsMissingIsNamedWithThoseThereAre) {
  EXPECT_TRUE(
      call("aten::argmax", {x}, {}, llvm::StringRef("out")).isUnknown());
  EXPECT_EQ(reasons(), "aten::argmax: its overload `out` is not supported; "
                       "there are `default`\n");
}

TEST_F(Overloads, AnArgumentThatTheSchemaLacksIsNamed) {
  EXPECT_TRUE(call("aten::relu", {x}, {{"slope", Value(1)}}).isUnknown());
  EXPECT_NE(reasons().find("it has no argument `slope`"), std::string::npos);
}

TEST_F(Overloads, AnArgumentOfAnotherTypeIsShown) {
  EXPECT_TRUE(call("aten::relu", {Value(std::string("x"))}).isUnknown());
  EXPECT_NE(reasons().find("its argument `self` is the text 'x'"),
            std::string::npos);
}

TEST_F(Overloads, AnArgumentThatIsGivenTwiceIsNamed) {
  EXPECT_TRUE(call("aten::relu", {x}, {{"self", x}}).isUnknown());
  EXPECT_NE(reasons().find("its argument `self` is given twice"),
            std::string::npos);
}

TEST_F(Overloads, TooManyArgumentsAreCounted) {
  EXPECT_TRUE(call("aten::relu", {x, x}).isUnknown());
  EXPECT_NE(reasons().find("2 arguments without a name, of which it takes 1"),
            std::string::npos);
}

TEST_F(Overloads, AMissingArgumentIsNamed) {
  EXPECT_TRUE(call("aten::linear", {x}).isUnknown());
  EXPECT_NE(reasons().find("its argument `weight` is missing"),
            std::string::npos);
}

TEST_F(Overloads, WhereNoOverloadFitsTheArgumentsAreShown) {
  EXPECT_TRUE(call("aten::eq", {x, Value(std::string("x"))}).isUnknown());
  EXPECT_NE(reasons().find("no overload takes a tensor of float32[2, 3], the "
                           "text 'x'"),
            std::string::npos);
}

TEST_F(Overloads, ANumberThatDependsOnAnInputIsRefused) {
  Value sum = call("aten::sum", {x});
  EXPECT_TRUE(call("aten::item", {sum}).isUnknown());
  EXPECT_NE(reasons().find("depends on the values of inputs or parameters"),
            std::string::npos);
}

TEST_F(Overloads, AMaskThatDependsOnAnInputTakesAsManyAsTheFileSays) {
  Value mask = call("aten::gt", {x, Value(0)});
  operators.wayOut = "; say how many";
  call("aten::index", {x, Value::list({mask})});
  EXPECT_NE(reasons().find("the number of elements depends on the values of "
                           "inputs or parameters, and all shapes are known "
                           "when a model is compiled; say how many"),
            std::string::npos);
  operators.resultShape = Shape({4});
  EXPECT_EQ(
      call("aten::index", {x, Value::list({mask})}).getTensor()->getShape(),
      Shape({4}));
  operators.resultShape = Shape({7});
  EXPECT_TRUE(call("aten::masked_select", {x, mask}).isUnknown());
  EXPECT_NE(reasons().find("it is said to take 7 elements by a mask of 6"),
            std::string::npos);
}

TEST_F(Overloads, WhatPicksElementsIsOfIntegers) {
  Value floats = call("aten::ones", {Value::list({Value(3)})}), dim(1);
  auto refuses = [&](llvm::StringRef name, llvm::StringRef argument,
                     llvm::ArrayRef<Value> arguments) {
    EXPECT_TRUE(call(name, arguments).isUnknown()) << name.str();
    std::string reason = (name + ": its " + argument).str();
    EXPECT_NE(reasons().find(reason), std::string::npos) << reason;
    EXPECT_NE(reasons().find("not of integers"), std::string::npos);
  };
  Value rows = call("aten::ones_like", {x});
  refuses("aten::repeat_interleave", "repeats", {x, floats, dim});
  refuses("aten::index_select", "index", {x, dim, floats});
  refuses("aten::index_add", "index", {x, dim, floats, x});
  refuses("aten::gather", "index", {x, dim, rows});
  refuses("aten::scatter", "index", {x, dim, rows, x});
  refuses("aten::scatter_add", "index", {x, dim, rows, x});
  refuses("aten::take_along_dim", "indices", {x, rows, dim});
  refuses("aten::one_hot", "self", {floats, Value(3)});
  refuses("aten::embedding", "indices", {x, floats});
  refuses("aten::embedding_bag", "indices", {x, floats, known({0})});
  refuses("aten::embedding_bag", "offsets", {x, known({0, 1, 1}), floats});
  // And no booleans.
  refuses("aten::index_select", "index",
          {x, dim, call("aten::gt", {floats, Value(0)})});
}

TEST_F(Overloads, ADivisionByZeroIsRefused) {
  call("aten::floordiv", {Value(1), Value(0)});
  EXPECT_EQ(reasons(), "aten::floordiv: a division by 0\n");
}

TEST_F(Overloads, ATypeThatIsNotSupportedIsRefused) {
  call("aten::to", {x}, {{"dtype", Value(9)}});
  EXPECT_NE(reasons().find("its dtype is number 9"), std::string::npos);
}

TEST_F(Overloads, ADimOutsideOfTheTensorIsRefused) {
  call("aten::softmax", {x, Value(2)});
  EXPECT_EQ(reasons(), "aten::softmax: dim 2 of a tensor of 2 dims\n");
}

TEST_F(Overloads, FloatsDoNotGoIntoIntegersInPlace) {
  call("aten::add_", {i, x});
  EXPECT_EQ(reasons(), "aten::add_: its result of float32 cannot be put into a "
                       "tensor of int64\n");
}

TEST_F(Overloads, ALargerResultDoesNotGoIntoItsFirstArgument) {
  Value row = call("aten::select", {x, Value(0), Value(0)});
  call("aten::add_", {row, x});
  EXPECT_EQ(reasons(), "aten::add_: its result of [2, 3] does not go into a "
                       "tensor of [3]\n");
}

//===-- promotion --------------------------------------------------------===//

using Promotion = OperatorTest;

TEST_F(Promotion, NumbersTakeTheTensorsTypeWithinTheirKind) {
  Value half = call("aten::to", {x}, {{"dtype", Value(5)}});
  EXPECT_EQ(typeOf(call("aten::add", {half, Value(1.5)})), ElementType::F16);
  EXPECT_EQ(typeOf(call("aten::add", {i, Value(1)})), ElementType::I64);
  EXPECT_EQ(typeOf(call("aten::add", {i, Value(1.5)})), ElementType::F32);
}

TEST_F(Promotion, ATensorWithoutDimsIsBelowOneWithDims) {
  Value wide = call("aten::scalar_tensor", {Value(2.0)}, {{"dtype", Value(7)}});
  EXPECT_EQ(typeOf(call("aten::mul", {x, wide})), ElementType::F32);
  EXPECT_EQ(typeOf(call("aten::mul", {wide, wide})), ElementType::F64);
}

TEST_F(Promotion, OfOneKindTheWiderTypeIsTaken) {
  auto of = [&](int64_t a, int64_t b) {
    Value left = call("aten::to", {x}, {{"dtype", Value(a)}}),
          right = call("aten::to", {x}, {{"dtype", Value(b)}});
    return typeOf(call("aten::add", {left, right}));
  };
  EXPECT_EQ(of(3, 4), ElementType::I64);
  EXPECT_EQ(of(0, 1), ElementType::I16);  // uint8 and int8
  EXPECT_EQ(of(5, 15), ElementType::F32); // float16 and bfloat16
  EXPECT_EQ(of(11, 0), ElementType::U8);  // bool and uint8
  EXPECT_EQ(of(6, 7), ElementType::F64);
}

TEST_F(Promotion, TrueDivisionOfIntegersIsAFloat) {
  EXPECT_EQ(typeOf(call("aten::div", {i, Value(2)})), ElementType::F32);
  EXPECT_EQ(typeOf(call("aten::div", {i, Value(2)},
                        {{"rounding_mode", Value(std::string("floor"))}})),
            ElementType::I64);
}

TEST_F(Promotion, SumsOfIntegersAndBooleansAreInt64) {
  Value mask = call("aten::gt", {x, Value(0)});
  EXPECT_EQ(typeOf(mask), ElementType::BOOL);
  EXPECT_EQ(typeOf(call("aten::sum", {mask})), ElementType::I64);
  EXPECT_EQ(typeOf(call("aten::add", {mask, mask})), ElementType::BOOL);
}

TEST_F(Promotion, NarrowIntegersComeRound) {
  Value bytes = call("aten::to", {known({200, 100})}, {{"dtype", Value(0)}});
  EXPECT_EQ(integers(call("aten::add", {bytes, Value(100)})),
            (std::vector<int64_t>{44, 200}));
}

//===-- sizes ------------------------------------------------------------===//

using Sizes = OperatorTest;

TEST_F(Sizes, AreKnownAndSoIsWhatIsComputedFromThem) {
  Value rows = call("aten::size", {x, Value(0)});
  EXPECT_EQ(rows.getInt(), 2);
  Value tensor = call("prim::NumToTensor", {rows});
  Value half = call("aten::floor_divide", {tensor, Value(2)});
  EXPECT_EQ(call("aten::Int", {half}).getInt(), 1);
}
