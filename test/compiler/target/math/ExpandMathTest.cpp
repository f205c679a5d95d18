// The functions of kernels against libm in double precision.

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "test/compiler/codegen/KernelRunner.h"

using namespace mlir;
using namespace polyrank;
using namespace polyrank::codegen;

static constexpr int64_t count = 4096;

/// |computed - exact| in units of the last place of `exact` as a float. Values
/// below the normal numbers are as good as zero: kernels run with them flushed.
static double unitsInLastPlace(float computed, double exact) {
  float rounded = static_cast<float>(exact);
  if (computed == rounded || (std::isnan(computed) && std::isnan(rounded)))
    return 0;
  if (std::abs(exact) < std::numeric_limits<float>::min() &&
      std::abs(computed) <= std::numeric_limits<float>::min())
    return 0;
  if (!std::isfinite(computed) || !std::isfinite(rounded))
    return std::numeric_limits<double>::infinity();
  int exponent;
  std::frexp(exact, &exponent);
  return std::abs(computed - exact) / std::ldexp(1.0, exponent - 24);
}

/// Evenly spaced numbers of [low, high], and some that are special.
static std::vector<float> samples(double low, double high) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(low + (high - low) * i / (count - 1)));
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f,
                           -1.0f,
                           1e-30f,
                           -1e-30f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  std::copy(std::begin(special), std::end(special), values.begin());
  return values;
}

static Bytes bytesOf(const std::vector<float> &values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// The largest error of a unary op over [low, high].
static void expectWithin(const char *op, double (*exact)(double), double low,
                         double high, double units) {
  std::string type = "tensor<" + std::to_string(count) + "xf32>";
  KernelRunner runner("func.func @main(%x: " + type + ") -> " + type +
                      " {\n %0 = graph." + op + " %x : (" + type + ") -> " +
                      type + "\n return %0 : " + type + "\n}");
  std::vector<float> x = samples(low, high);
  std::vector<Bytes> results = runner.run({bytesOf(x)});
  ASSERT_EQ(results.size(), 1u);
  double worst = 0;
  float where = 0;
  for (int64_t i = 0; i < count; ++i) {
    float y;
    std::memcpy(&y, results[0].data() + i * sizeof(float), sizeof(float));
    double error = unitsInLastPlace(y, exact(x[i]));
    if (error > worst) {
      worst = error;
      where = x[i];
    }
  }
  EXPECT_LE(worst, units) << op << " at " << where;
}

TEST(Functions, ExpAndLogAreWithinOneAndAHalfUnits) {
  expectWithin("exp", std::exp, -110, 95, 1.5);
  expectWithin("exp", std::exp, -1, 1, 1.5);
  expectWithin("log", std::log, 1e-6, 3, 1.5);
  expectWithin("log", std::log, -10, 1e30, 1.5);
}

TEST(Functions, HyperbolicTangentErrorFunctionAndSigmoidAreWithinThreeUnits) {
  expectWithin("tanh", std::tanh, -10, 10, 3);
  expectWithin("tanh", std::tanh, -0.7, 0.7, 3);
  expectWithin("erf", std::erf, -5, 5, 1.5);
  expectWithin("erf", std::erf, -1, 1, 1.5);
  expectWithin(
      "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 3);
}

TEST(Functions, SineAndCosineAreWithinOneUnitForLargeArguments) {
  expectWithin("sin", std::sin, -10, 10, 1);
  expectWithin("cos", std::cos, -10, 10, 1);
  expectWithin("sin", std::sin, 0, 1e6, 1);
  expectWithin("cos", std::cos, 0, 1e6, 1);
}

TEST(Functions, InverseFunctionsAreWithinOneUnit) {
  expectWithin("atan", std::atan, -5, 5, 1);
  expectWithin("atan", std::atan, 0, 1e30, 1);
  expectWithin("asin", std::asin, -1, 1, 1);
  expectWithin("acos", std::acos, -1, 1, 1);
  expectWithin("asinh", std::asinh, -10, 10, 1);
  expectWithin("asinh", std::asinh, -0.05, 0.05, 1);
  expectWithin("asinh", std::asinh, 0, 1e30, 1);
  expectWithin("acosh", std::acosh, 1, 1.01, 1);
  expectWithin("acosh", std::acosh, 1, 1e30, 1);
  expectWithin("atanh", std::atanh, -1, 1, 1);
  expectWithin("atanh", std::atanh, -0.05, 0.05, 1);
}

TEST(Functions, RootsRoundAsIeeeDoes) {
  expectWithin("sqrt", std::sqrt, 0, 1e10, 0.5);
  expectWithin(
      "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1e-6, 100, 1.5);
}

TEST(Functions, PowersFollowC) {
  std::string type = "tensor<" + std::to_string(count) + "xf32>";
  KernelRunner runner("func.func @main(%x: " + type + ", %y: " + type +
                      ") -> " + type + " {\n %0 = graph.pow %x, %y : (" + type +
                      ", " + type + ") -> " + type + "\n return %0 : " + type +
                      "\n}");
  std::vector<float> x = samples(-3, 9), y = samples(-9, 11);
  std::rotate(y.begin(), y.begin() + 4, y.end());
  for (int64_t i = 1; i < count; i += 2)
    y[i] = std::round(y[i]);
  std::vector<Bytes> results = runner.run({bytesOf(x), bytesOf(y)});
  ASSERT_EQ(results.size(), 1u);
  for (int64_t i = 0; i < count; ++i) {
    float z;
    std::memcpy(&z, results[0].data() + i * sizeof(float), sizeof(float));
    EXPECT_LE(unitsInLastPlace(z, std::pow(double(x[i]), double(y[i]))), 0.51)
        << x[i] << " to the power of " << y[i] << " is " << z;
  }
}
