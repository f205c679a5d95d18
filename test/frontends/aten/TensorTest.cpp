// A write in place is visible in every view of the same storage.

#include "test/frontends/aten/Program.h"

using namespace polyrank;
using namespace polyrank::test;

using Aliasing = OperatorTest;

TEST_F(Aliasing, AWriteThroughASliceUpdatesItsBase) {
  Value base = known({0, 1, 2, 3, 4, 5});
  Value part =
      call("aten::slice", {base, Value(0), Value(1), Value(5), Value(2)});
  call("aten::add_", {part, Value(10)});
  EXPECT_EQ(integers(base), (std::vector<int64_t>{0, 11, 2, 13, 4, 5}));
}

TEST_F(Aliasing, AViewSeesWhatIsWrittenToItsBaseLater) {
  Value base = known({1, 2, 3, 4});
  Value matrix = call("aten::view", {base, Value::ints({2, 2})});
  Value column = call("aten::select", {matrix, Value(1), Value(0)});
  call("aten::mul_", {base, Value(2)});
  EXPECT_EQ(integers(column), (std::vector<int64_t>{2, 6}));
}

TEST_F(Aliasing, AWriteThroughATransposeAndAReshapeGoesToItsPlace) {
  Value matrix =
      call("aten::view", {known({0, 1, 2, 3, 4, 5}), Value::ints({2, 3})});
  Value row =
      call("aten::select", {call("aten::t", {matrix}), Value(0), Value(2)});
  call("aten::fill_", {row, Value(9)});
  EXPECT_EQ(integers(matrix), (std::vector<int64_t>{0, 1, 9, 3, 4, 9}));
}

TEST_F(Aliasing, AReshapeThatCopiesIsNotSeen) {
  Value matrix =
      call("aten::view", {known({0, 1, 2, 3, 4, 5}), Value::ints({2, 3})});
  Value flat =
      call("aten::reshape", {call("aten::t", {matrix}), Value::ints({6})});
  call("aten::fill_", {flat, Value(9)});
  EXPECT_EQ(integers(matrix), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(Aliasing, ACopyIsNoAlias) {
  Value base = known({1, 2});
  Value copy = call("aten::clone", {base});
  call("aten::zero_", {copy});
  EXPECT_EQ(integers(base), (std::vector<int64_t>{1, 2}));
}

TEST_F(Aliasing, ContiguousIsTheTensorItselfOrACopy) {
  Value matrix = call("aten::view", {known({0, 1, 2, 3}), Value::ints({2, 2})});
  EXPECT_TRUE(call("aten::contiguous", {matrix}).isSame(matrix));
  EXPECT_FALSE(call("aten::contiguous", {call("aten::t", {matrix})})
                   .getTensor()
                   ->isSameAs(*matrix.getTensor()));
}

TEST_F(Aliasing, AnExpandedTensorCannotBeWritten) {
  Value row = call("aten::expand", {known({1}), Value::ints({3})});
  EXPECT_TRUE(call("aten::add_", {row, Value(1)}).isUnknown());
  EXPECT_NE(reasons().find("writes into a tensor that was expanded"),
            std::string::npos);
}

TEST_F(Aliasing, ABufferTakesItsNewValueInAStep) {
  auto buffer =
      aten::Tensor::ofParameter(builder.getInput(0), ElementType::F32);
  call("aten::mul_", {Value(buffer), Value(0.5)});
  EXPECT_TRUE(builder.getEmitter().getUpdates().contains(builder.getInput(0)));
}

TEST_F(Aliasing, AnIntegerBufferIsKnownUntilItIsWritten) {
  Imported elements = builder.getEmitter().integers({1, 2, 3, 4, 5, 6});
  auto counter =
      aten::Tensor::ofParameter(builder.getInput(1), ElementType::I64,
                                builder.getEmitter().reshape(elements, {2, 3}));
  call("aten::add_", {Value(counter), Value(1)});
  EXPECT_EQ(reasons(), "");
  EXPECT_FALSE(counter->read(builder.getEmitter()).isConstant());
}

TEST_F(Aliasing, AnIntegerBufferThatWasReadCannotBeWritten) {
  Imported elements = builder.getEmitter().integers({1, 2, 3, 4, 5, 6});
  auto counter =
      aten::Tensor::ofParameter(builder.getInput(1), ElementType::I64,
                                builder.getEmitter().reshape(elements, {2, 3}));
  call("aten::sum", {Value(counter)});
  call("aten::add_", {Value(counter), Value(1)});
  EXPECT_NE(reasons().find("changes an integer buffer that was read before"),
            std::string::npos);
}

TEST_F(Aliasing, AListIsSharedByAllThatHoldIt) {
  Value list = Value::ints({1});
  Value other = list;
  call("aten::append", {list, Value(2)});
  EXPECT_EQ(other.getList().size(), 2u);
}
