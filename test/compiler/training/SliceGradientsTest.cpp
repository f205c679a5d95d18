// Gradients of values that many slices split: their values, and the number of
// elements that are written to join them.

#include <random>

#include "compiler/training/Autodiff.h"
#include "dialects/graph/SliceGradients.h"
#include "mlir/IR/Verifier.h"
#include "test/compiler/training/TestModule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::training;
using graph::Tensor;

namespace {

using Numbers = std::vector<int64_t>;

/// x[start:limit:stride, ..].
struct Part {
  Numbers starts, limits, strides;
};

std::string textOf(const Numbers &numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

std::string typeOf(const Numbers &shape) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + "f64>";
}

class SliceGradientsTest : public TrainingTest {
protected:
  /// The sum over the parts of (1 + the part's number) times the sum of its
  /// elements, and of those of x itself where `isRead`.
  OwningOpRef<ModuleOp> build(const Numbers &shape,
                              const std::vector<Part> &parts, bool isRead) {
    std::string type = typeOf(shape), body, total;
    auto addSum = [&](const std::string &value, const std::string &of,
                      size_t rank, const std::string &factor) {
      Numbers dims;
      for (size_t d = 0; d < rank; ++d)
        dims.push_back(static_cast<int64_t>(d));
      std::string name = value + "s";
      body += name + " = graph.reduce sum " + value + " over [" + textOf(dims) +
              "] : (" + of + ") -> tensor<f64>\n" + name +
              "f = graph.constant dense<" + factor + "> : tensor<f64>\n" +
              name + "p = graph.mul " + name + ", " + name +
              "f : tensor<f64>\n";
      std::string sum = name + "t";
      if (!total.empty())
        body +=
            sum + " = graph.add " + total + ", " + name + "p : tensor<f64>\n";
      total = total.empty() ? name + "p" : sum;
    };
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part &part = parts[i];
      Numbers sizes;
      for (size_t d = 0; d < shape.size(); ++d)
        sizes.push_back(
            (part.limits[d] - part.starts[d] + part.strides[d] - 1) /
            part.strides[d]);
      std::string name = "%y" + std::to_string(i);
      body += name +
              " = graph.slice %x {starts = array<i64: " + textOf(part.starts) +
              ">, limits = array<i64: " + textOf(part.limits) +
              ">, strides = array<i64: " + textOf(part.strides) + ">} : (" +
              type + ") -> " + typeOf(sizes) + "\n";
      addSum(name, typeOf(sizes), shape.size(), std::to_string(i + 1) + ".0");
      if (isRead && i == parts.size() / 2)
        addSum("%x", type, shape.size(), "1000.0");
    }
    auto module =
        parse("func.func @forward(%x: " + type + ") -> tensor<f64> {\n" + body +
              "return " + total + " : tensor<f64>\n}");
    return module;
  }

  /// Makes @forward return the gradient of x.
  static void differentiate(func::FuncOp forward) {
    Operation *terminator = forward.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    Value root = terminator->getOperand(0);
    for (Operation &op : forward.getBody().front())
      op.setAttr("forward", builder.getUnitAttr());
    Value seed =
        graph::SeedOp::create(builder, builder.getUnknownLoc(), root.getType(),
                              builder.getF64FloatAttr(1));
    auto gradients =
        buildGradients(builder, root, seed, forward.getArguments());
    ASSERT_TRUE(succeeded(gradients) && (*gradients)[0]);
    terminator->setOperands(*gradients);
    forward.setType(FunctionType::get(forward.getContext(),
                                      forward.getArgumentTypes(),
                                      TypeRange(ValueRange(*gradients))));
    ASSERT_TRUE(succeeded(verify(forward)));
  }

  /// Expects the gradient that the parts imply, element by element.
  void expectRight(const Numbers &shape, const std::vector<Part> &parts,
                   bool isRead) {
    auto module = build(shape, parts, isRead);
    ASSERT_TRUE(module);
    func::FuncOp forward = function(*module);
    auto type = cast<RankedTensorType>(forward.getArgumentTypes()[0]);
    Tensor expected = Tensor::splat(type, isRead ? 1000 : 0);
    SmallVector<int64_t> strides = graph::getStrides(type.getShape());
    for (size_t i = 0; i < parts.size(); ++i)
      graph::forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
        int64_t at = 0;
        bool isIn = true;
        for (size_t d = 0; d < index.size(); ++d) {
          at += index[d] * strides[d];
          isIn &= index[d] >= parts[i].starts[d] &&
                  index[d] < parts[i].limits[d] &&
                  (index[d] - parts[i].starts[d]) % parts[i].strides[d] == 0;
        }
        expected.floats[at] += isIn ? static_cast<double>(i + 1) : 0;
      });
    differentiate(forward);
    SmallVector<Tensor> arguments = evaluate::randomArguments(forward, 1);
    expectEqual(evaluate(forward, arguments), expected);
  }

  /// Returns the number of elements that ops of this kind in @forward produce.
  template <typename Op>
  static int64_t countElements(func::FuncOp forward) {
    int64_t count = 0;
    forward.walk([&](Op op) {
      if (!op->hasAttr("forward"))
        count +=
            cast<RankedTensorType>(op->getResult(0).getType()).getNumElements();
    });
    return count;
  }

  /// Each of `steps` steps of x[3, steps, 4]; `width` of them at a time.
  static std::vector<Part> stepsOf(int64_t steps, int64_t width = 1) {
    std::vector<Part> parts;
    for (int64_t t = 0; t + width <= steps; ++t)
      parts.push_back({{0, t, 0}, {3, t + width, 4}, {1, 1, 1}});
    return parts;
  }
};

} // namespace

TEST_F(SliceGradientsTest, PartsOfAnyPlacesAddUp) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto draw = [&](int64_t low, int64_t high) { // [low, high]
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    Numbers shape;
    for (int64_t rank = draw(1, 3); rank > 0; --rank)
      shape.push_back(draw(1, 6));
    std::vector<Part> parts;
    for (int64_t count = draw(6, 20); count > 0; --count) {
      Part part;
      for (int64_t size : shape) {
        bool isWhole = draw(0, 2) == 0;
        int64_t start = isWhole ? 0 : draw(0, size - 1);
        part.starts.push_back(start);
        part.limits.push_back(isWhole          ? size
                              : draw(0, 9) > 0 ? draw(start + 1, size)
                                               : start);
        part.strides.push_back(draw(0, 9) == 0 ? 2 : 1);
      }
      parts.push_back(part);
      if (draw(0, 4) == 0)
        parts.push_back(part);
    }
    SCOPED_TRACE(seed);
    expectRight(shape, parts, draw(0, 1) == 0);
    if (HasFailure())
      return;
  }
}

TEST_F(SliceGradientsTest, StepsOfASequenceAreJoinedOnce) {
  auto module = build({3, 64, 4}, stepsOf(64), false);
  func::FuncOp forward = function(*module);
  differentiate(forward);
  EXPECT_EQ(countElements<graph::ConcatOp>(forward), 3 * 64 * 4);
  EXPECT_EQ(countElements<graph::PadOp>(forward), 0);
  EXPECT_EQ(countElements<graph::AddOp>(forward), 0);
}

TEST_F(SliceGradientsTest, StepsThatAreLeftOutBecomeZerosAtTheNextOne) {
  std::vector<Part> all = stepsOf(64), parts;
  for (size_t t = 2; t < 60; t += 3)
    parts.push_back(all[t]);
  auto module = build({3, 64, 4}, parts, false);
  func::FuncOp forward = function(*module);
  differentiate(forward);
  EXPECT_EQ(countElements<graph::ConcatOp>(forward), 3 * 64 * 4);
  EXPECT_EQ(countElements<graph::PadOp>(forward), 3 * 64 * 4);
  EXPECT_EQ(countElements<graph::AddOp>(forward), 0);
  expectRight({3, 64, 4}, parts, false);
}

TEST_F(SliceGradientsTest, WindowsAreAddedInAsManyWholesAsLieOverEachOther) {
  auto module = build({3, 64, 4}, stepsOf(64, 3), false);
  func::FuncOp forward = function(*module);
  differentiate(forward);
  EXPECT_EQ(countElements<graph::ConcatOp>(forward), 3 * (3 * 64 * 4));
  EXPECT_EQ(countElements<graph::AddOp>(forward), 2 * (3 * 64 * 4));
}

TEST_F(SliceGradientsTest, TilesOfTwoDimsAreJoinedAlongBoth) {
  std::vector<Part> parts;
  for (int64_t t = 0; t < 16; ++t)
    for (int64_t half : {0, 2})
      parts.push_back({{0, t, half}, {3, t + 1, half + 2}, {1, 1, 1}});
  auto module = build({3, 16, 4}, parts, false);
  func::FuncOp forward = function(*module);
  differentiate(forward);
  EXPECT_EQ(countElements<graph::ConcatOp>(forward), 2 * (3 * 16 * 4));
  EXPECT_EQ(countElements<graph::PadOp>(forward), 0);
  expectRight({3, 16, 4}, parts, true);
}

TEST_F(SliceGradientsTest, FewPartsAreAddedAsTheyAre) {
  constexpr int64_t few = graph::SliceGradients::manySlices - 1;
  auto module = build({3, few, 4}, stepsOf(few), false);
  func::FuncOp forward = function(*module);
  differentiate(forward);
  EXPECT_EQ(countElements<graph::ConcatOp>(forward), 0);
  EXPECT_EQ(countElements<graph::PadOp>(forward), few * (3 * few * 4));
}

TEST_F(SliceGradientsTest, WhatJoinsPartsHasTheNameOfTheFirstSlice) {
  auto module = build({3, 8, 4}, stepsOf(8), false);
  func::FuncOp forward = function(*module);
  for (auto [i, slice] :
       llvm::enumerate(llvm::to_vector(forward.getOps<graph::SliceOp>())))
    slice->setLoc(
        NameLoc::get(StringAttr::get(&context, "step " + std::to_string(i))));
  differentiate(forward);
  auto concat = *forward.getOps<graph::ConcatOp>().begin();
  auto origin = concat->getAttrOfType<StringAttr>("graph.origin");
  ASSERT_TRUE(origin);
  EXPECT_EQ(origin.getValue(), "step 0");
}
