// What schedules mean, on examples that are computed by hand.

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "compiler/target/cpu/Cpu.h"
#include "dialects/Register.h"
#include "mlir/Parser/Parser.h"
#include "test/compiler/target/schedule/EvaluateSchedule.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::target;
using kernel::LoopsOp;

namespace {

template <typename T>
Bytes bytesOf(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <typename T>
std::vector<T> valuesOf(const Bytes &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Schedules : public testing::Test {
protected:
  Schedules() {
    DialectRegistry registry;
    registerDialects(registry);
    registry.insert<cpu::CpuDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream(message)
          << diagnostic.getLocation() << ": " << diagnostic.str();
      return success();
    });
  }

  /// The loops of `text`, an op that reads %x and %i.
  LoopsOp parse(const std::string &text, const std::string &type,
                const std::string &indices = "tensor<1xi64>") {
    module = parseSourceString<ModuleOp>("func.func @f(%x: " + type +
                                             ", %i: " + indices + ") {\n" +
                                             text + "\nreturn\n}",
                                         &context);
    LoopsOp loops;
    if (module)
      module->walk([&](LoopsOp op) { loops = op; });
    EXPECT_TRUE(loops) << message;
    return loops;
  }
  /// The sum of n floats by `schedule`, an attribute or empty.
  LoopsOp parseSum(int64_t n, const std::string &schedule = "") {
    std::string size = std::to_string(n);
    return parse("%0 = kernel.loops [reduce " + size + "] (%x : tensor<" +
                     size + "xf32>) -> tensor<f32> " +
                     (schedule.empty() ? "" : "schedule(" + schedule + ") ") +
                     "{\n%1 = kernel.load %x[d0] : tensor<" + size +
                     "xf32>\n%2 = kernel.reduce sum %1 : f32\n"
                     "kernel.store %2 to 0[0] : f32\n}",
                 "tensor<" + size + "xf32>");
  }
  /// The one result of loops; empty if there is no meaning.
  Bytes evaluate(LoopsOp loops, const ReductionOrder &order,
                 ArrayRef<Bytes> arguments, size_t size,
                 bool flushesDenormals = false) {
    message.clear();
    std::vector<Bytes> results{Bytes(size, 0xFF)};
    return succeeded(evaluateSchedule(loops, order, flushesDenormals, arguments,
                                      results))
               ? results[0]
               : Bytes();
  }
  float sum(LoopsOp loops, const ReductionOrder &order,
            const std::vector<float> &values) {
    Bytes result = evaluate(loops, order, {bytesOf(values)}, 4);
    return result.empty() ? NAN : valuesOf<float>(result)[0];
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  std::string message;
};

/// Numbers of which each order of sums makes others.
std::vector<float> numbers(size_t n) {
  std::vector<float> values;
  for (size_t i = 0; i < n; ++i)
    values.push_back(std::sin(static_cast<float>(i)) *
                     std::exp2(static_cast<float>(i * 7 % 23)));
  return values;
}

TEST_F(Schedules, AddPartialResultsOverDistances) {
  std::vector<float> v = numbers(7);
  LoopsOp loops = parseSum(7);
  float one = (((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + v[3]));
  EXPECT_EQ(sum(loops, {{0}, 0, 4, {2, 1}, 0}, v), one);
  float other = (((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + v[3]));
  EXPECT_EQ(sum(loops, {{0}, 0, 4, {1, 2}, 0}, v), other);
  EXPECT_NE(one, other);
}

TEST_F(Schedules, DealValuesAgainAfterARun) {
  std::vector<float> v = numbers(6);
  // Runs of three: the fourth value belongs to the first partial result.
  EXPECT_EQ(sum(parseSum(6), {{0}, 3, 2, {1}, 0}, v),
            ((((v[0] + v[2]) + v[3]) + v[5]) + (v[1] + v[4])));
}

TEST_F(Schedules, AddPartsOneAfterAnother) {
  std::vector<float> v = numbers(8);
  EXPECT_EQ(sum(parseSum(8), {{0}, 0, 1, {}, 3}, v),
            (((v[0] + v[1]) + v[2]) + ((v[3] + v[4]) + v[5])) + (v[6] + v[7]));
}

TEST_F(Schedules, CutEachPartialResultIntoParts) {
  std::vector<float> v = numbers(9);
  // Partial result 0 has values 0, 2, 4, 6, 8, and parts of two of them.
  EXPECT_EQ(sum(parseSum(9), {{0}, 0, 2, {1}, 2}, v),
            (((v[0] + v[2]) + (v[4] + v[6])) + v[8]) +
                ((v[1] + v[3]) + (v[5] + v[7])));
}

/// Six warps fold over distances of four, two and one.
TEST_F(Schedules, AddNothingForPartialResultsThatDoNotExist) {
  std::vector<float> v = numbers(6);
  EXPECT_EQ(sum(parseSum(6), {{0}, 0, 6, {4, 2, 1}, 0}, v),
            ((v[0] + v[4]) + v[2]) + ((v[1] + v[5]) + v[3]));
}

/// A sum begins with zero, so that it is never -0.
TEST_F(Schedules, BeginWithTheIdentity) {
  EXPECT_FALSE(std::signbit(sum(parseSum(2), {{0}}, {-0.0f, -0.0f})));
}

TEST_F(Schedules, OfACpuHaveLanesOrParts) {
  FailureOr<ReductionOrder> row =
      getCpuOrder(parseSum(37, "#cpu.schedule<row, vector = 0, lanes = 8>"));
  ASSERT_TRUE(succeeded(row)) << message;
  EXPECT_EQ(row->slots, 8);
  EXPECT_EQ(row->run, 37);
  EXPECT_EQ(row->distances, (SmallVector<int64_t>{4, 2, 1}));
  FailureOr<ReductionOrder> column = getCpuOrder(parseSum(
      37, "#cpu.schedule<column, lanes = 16, reductions = [0], part = 5>"));
  ASSERT_TRUE(succeeded(column)) << message;
  EXPECT_EQ(column->slots, 1);
  EXPECT_EQ(column->part, 5);
  EXPECT_TRUE(failed(getCpuOrder(parseSum(37))));
  EXPECT_NE(message.find("has no schedule for a cpu"), std::string::npos);
}

TEST_F(Schedules, HaveAnOrderOfAllReducedVariables) {
  LoopsOp loops = parseSum(4);
  auto refuses = [&](const ReductionOrder &order, const char *number) {
    message.clear();
    EXPECT_TRUE(failed(order.verify(loops)));
    EXPECT_NE(message.find(number), std::string::npos) << message;
  };
  refuses({{}}, "[1]");
  refuses({{0, 0}}, "[1]");
  refuses({{1}}, "[1]");
  refuses({{0}, 0, 4, {2}, 0}, "[2]");
  refuses({{0}, 0, 4, {2, 2}, 0}, "[2]");
  refuses({{0}, 0, 4, {4, 2, 1}, 0}, "[2]");
  refuses({{0}, 0, 5, {2, 1}, 0}, "[2]");
  refuses({{0}, 0, 4, {3}, 0}, "[2]");
  refuses({{0}, 0, 0, {}, 0}, "[2]");
  refuses({{0}, -1, 1, {}, 0}, "[3]");
  refuses({{0}, 0, 1, {}, -1}, "[3]");
  EXPECT_TRUE(succeeded(ReductionOrder{{0}}.verify(loops)));
}

/// 1 + 2^-24 is 1 in f32; x * x + y has two roundings.
TEST_F(Schedules, RoundEachOperationInItsType) {
  LoopsOp loops = parse(R"mlir(
%0 = kernel.loops [2] (%x : tensor<2xf32>) -> tensor<2xf32> {
  %1 = kernel.load %x[d0] : tensor<2xf32>
  %2 = arith.mulf %1, %1 : f32
  %3 = arith.constant -1.0 : f32
  %4 = arith.addf %2, %3 : f32
  kernel.store %4 to 0[d0] : f32
})mlir",
                        "tensor<2xf32>");
  Bytes result =
      evaluate(loops, {}, {bytesOf<float>({1 + 0x1p-12f, 1 + 0x1p-20f})}, 8);
  EXPECT_EQ(valuesOf<float>(result),
            (std::vector<float>{0x1p-11f, 0x1p-19f})); // not + 2^-24
}

/// A GPU flushes f32 alone.
TEST_F(Schedules, FlushDenormalsOfSinglePrecision) {
  for (bool isDouble : {false, true}) {
    std::string type = isDouble ? "f64" : "f32",
                tensor = "tensor<1x" + type + ">";
    LoopsOp loops =
        parse("%0 = kernel.loops [1] (%x : " + tensor + ") -> " + tensor +
                  " {\n%1 = kernel.load %x[d0] : " + tensor +
                  "\n%2 = arith.constant 0.5 : " + type +
                  "\n%3 = arith.mulf %1, %2 : " + type +
                  "\nkernel.store %3 to 0[d0] : " + type + "\n}",
              tensor);
    for (bool flushes : {false, true})
      if (isDouble)
        EXPECT_EQ(
            evaluate(loops, {}, {bytesOf<double>({0x1p-1022})}, 8, flushes),
            bytesOf<double>({0x1p-1023}));
      else
        EXPECT_EQ(
            evaluate(loops, {}, {bytesOf<float>({0x1p-126f})}, 4, flushes),
            bytesOf<float>({flushes ? 0.0f : 0x1p-127f}));
  }
}

TEST_F(Schedules, ComputeFunctionsAsTheyAreExpanded) {
  LoopsOp loops = parse(R"mlir(
%0 = kernel.loops [3] (%x : tensor<3xf32>) -> tensor<3xf32> {
  %1 = kernel.load %x[d0] : tensor<3xf32>
  %2 = math.tanh %1 : f32
  kernel.store %2 to 0[d0] : f32
})mlir",
                        "tensor<3xf32>");
  Bytes argument = bytesOf<float>({-1, 0.25f, 30});
  EXPECT_TRUE(evaluate(loops, {}, {argument}, 12).empty());
  EXPECT_NE(message.find("has no meaning"), std::string::npos) << message;
  expandFunctions(loops);
  std::vector<float> found =
      valuesOf<float>(evaluate(loops, {}, {argument}, 12));
  ASSERT_EQ(found.size(), 3u) << message;
  EXPECT_NEAR(found[0], std::tanh(-1.0f), 2e-7f);
  EXPECT_NEAR(found[1], std::tanh(0.25f), 2e-7f);
  EXPECT_EQ(found[2], 1.0f);
}

TEST_F(Schedules, ScatterInTheOrderOfTheUpdates) {
  LoopsOp loops = parse(R"mlir(
%0 = kernel.loops [reduce 4] (%x, %i : tensor<4xf32>, tensor<4xi64>) -> tensor<2xf32> {
  %1 = kernel.load %x[d0] : tensor<4xf32>
  %2 = kernel.load %i[d0] : tensor<4xi64>
  kernel.scatter_add %1 at %2 to [0] stride 1 limit 2 : i64, f32
})mlir",
                        "tensor<4xf32>", "tensor<4xi64>");
  std::vector<float> v = numbers(4);
  Bytes result =
      evaluate(loops, {{0}}, {bytesOf(v), bytesOf<int64_t>({1, -1, 1, 2})}, 8);
  EXPECT_EQ(valuesOf<float>(result), (std::vector<float>{0, v[0] + v[2]}))
      << message;
}

TEST_F(Schedules, ReadNoElementOutsideOfATensor) {
  LoopsOp loops = parse(R"mlir(
%0 = kernel.loops [2] (%x, %i : tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32> {
  %1 = kernel.load %i[d0] : tensor<2xi64>
  %2 = kernel.load %x[0] + [%1 * 1] : tensor<2xf32>
  kernel.store %2 to 0[d0] : f32
})mlir",
                        "tensor<2xf32>", "tensor<2xi64>");
  Bytes values = bytesOf<float>({5, 7});
  EXPECT_EQ(valuesOf<float>(
                evaluate(loops, {}, {values, bytesOf<int64_t>({1, 0})}, 8)),
            (std::vector<float>{7, 5}))
      << message;
  for (int64_t outside : {-1, 2}) {
    EXPECT_TRUE(evaluate(loops, {}, {values, bytesOf<int64_t>({0, outside})}, 8)
                    .empty());
    EXPECT_NE(
        message.find("is of element " + std::to_string(outside) + " of 2"),
        std::string::npos)
        << message;
  }
}

TEST_F(Schedules, AreComparedBitByBitButForNan) {
  Type single = Float32Type::get(&context);
  auto differ = [&](float x, float y) {
    return !findDifference(single, bytesOf<float>({1, x}),
                           bytesOf<float>({1, y}))
                .empty();
  };
  EXPECT_FALSE(differ(2, 2));
  EXPECT_TRUE(differ(2, std::nextafter(2.0f, 3.0f)));
  EXPECT_TRUE(differ(0.0f, -0.0f));
  EXPECT_FALSE(differ(NAN, -NAN));
  EXPECT_TRUE(differ(NAN, 1));
  EXPECT_FALSE(findDifference(single, Bytes(4), Bytes(8)).empty());
}

} // namespace
