// Attention and its gradient against the definition in doubles.

#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/NarrowRows.h"
#include "runtime/device/cpu/OneDnn.h"
#include "support/Philox.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string_view>

namespace polyrank::runtime::test {
namespace {

/// The value of outputs before the call, and between rows; exact in all types.
constexpr float untouched = 776;

/// Which dims of bias or mask are those of the scores; the others are 1.
struct ScoreDims {
  bool batch = true, head = true, query = true, key = true;
};

/// A call, and its inputs. Rows of all heads are interleaved, with a gap, as in
/// the result of one projection to queries, keys and values.
struct Problem {
  AttentionGradShape whole;
  std::vector<float> query, keysAndValues, resultGradient, bias;
  std::vector<uint8_t> mask;
  int64_t seed = 7, step = 3, microbatch = 1;
  std::array<int64_t, 4> offsets{};

  AttentionShape &shape() { return whole.forward; }
};

struct Sizes {
  int64_t batch = 2, heads = 2, groups = 2, queries = 40, keys = 40, width = 8,
          valueWidth = 8;
};

/// Multiples of 1/8 in [-1, 1], whose products have no rounding error, so that
/// scores are the same in floats and in doubles. They are exact in bf16 and
/// f16.
std::vector<float> numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> result(count);
  for (float &value : result)
    value = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
  return result;
}

ScoreStrides stridesOf(const Problem &problem, ScoreDims dims) {
  const AttentionShape &shape = problem.whole.forward;
  ScoreStrides strides{};
  int64_t next = 1;
  auto add = [&](int dim, bool has, int64_t size) {
    strides[dim] = has && size > 1 ? next : 0;
    next *= has ? size : 1;
  };
  add(3, dims.key, shape.keys);
  add(2, dims.query, shape.queries);
  add(1, dims.head, shape.heads);
  add(0, dims.batch, shape.batch);
  return strides;
}
int64_t offset(const ScoreStrides &strides, int64_t b, int64_t h, int64_t q,
               int64_t k) {
  return b * strides[0] + h * strides[1] + q * strides[2] + k * strides[3];
}
int64_t elementsOf(const Problem &problem, const ScoreStrides &strides) {
  const AttentionShape &shape = problem.whole.forward;
  return offset(strides, shape.batch - 1, shape.heads - 1, shape.queries - 1,
                shape.keys - 1) +
         1;
}

Problem problemOf(const Sizes &sizes) {
  Problem problem;
  AttentionShape &shape = problem.shape();
  shape.batch = sizes.batch, shape.heads = sizes.heads;
  shape.groups = sizes.groups, shape.queries = sizes.queries;
  shape.keys = sizes.keys, shape.width = sizes.width;
  shape.valueWidth = sizes.valueWidth;
  shape.scale = 0.25;
  shape.blockQueries = 16, shape.blockKeys = 32;
  constexpr int64_t gap = 5;
  int64_t queryRow = sizes.heads * sizes.width + gap;
  int64_t keyRow = sizes.groups * (sizes.width + sizes.valueWidth) + gap;
  int64_t resultRow = sizes.heads * sizes.valueWidth + gap;
  shape.query = {sizes.queries * queryRow, sizes.width, queryRow};
  shape.key = {sizes.keys * keyRow, sizes.width, keyRow};
  shape.value = {sizes.keys * keyRow, sizes.valueWidth, keyRow};
  shape.result = {sizes.queries * resultRow, sizes.valueWidth, resultRow};
  problem.whole.resultGradient = shape.result;
  problem.whole.queryGradient = shape.query;
  problem.whole.keyGradient = shape.key;
  problem.whole.valueGradient = shape.value;
  problem.query = numbers(sizes.batch * shape.query.batch, 1);
  problem.keysAndValues = numbers(sizes.batch * shape.key.batch, 2);
  problem.resultGradient = numbers(sizes.batch * shape.result.batch, 3);
  return problem;
}

void addBias(Problem &problem, ScoreDims dims, bool hasGradient = true) {
  ScoreStrides strides = stridesOf(problem, dims);
  problem.shape().bias = strides;
  problem.bias = numbers(elementsOf(problem, strides), 4);
  if (hasGradient)
    problem.whole.biasGradient = strides;
}

void addMask(Problem &problem, ScoreDims dims,
             const std::function<bool(int64_t b, int64_t q, int64_t k)> &sees) {
  ScoreStrides strides = stridesOf(problem, dims);
  const AttentionShape &shape = problem.shape();
  problem.shape().mask = strides;
  problem.mask.resize(elementsOf(problem, strides));
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t q = 0; q < shape.queries; ++q)
        for (int64_t k = 0; k < shape.keys; ++k)
          problem.mask[offset(strides, b, h, q, k)] = sees(b, q, k);
}

void setMasked(Problem &problem, MaskedScores masked, float fill) {
  problem.shape().rules.masked = masked;
  problem.shape().rules.fill = fill;
}

void addDropout(Problem &problem, double rate) {
  const AttentionShape &shape = problem.shape();
  problem.shape().dropout = {rate,
                             42,
                             {shape.heads * shape.queries * shape.keys,
                              shape.queries * shape.keys, shape.keys, 1}};
}

template <typename T>
struct Outputs {
  std::vector<T> result, lse, query, keysAndValues, bias;
  /// By element of the bias: the squares of the terms of its gradient.
  std::vector<T> biasSquares;
};

/// Floats as elements of a type, with guards behind them.
class Elements {
public:
  Elements(ElementType type, const std::vector<float> &values)
      : type(type), count(values.size()),
        bytes(values.size() * bytesOf(type) + guard, std::byte(guardByte)) {
    if (type == ElementType::F32)
      std::memcpy(bytes.data(), values.data(), values.size() * sizeof(float));
    else
      narrowRows().round(type, values.data(), bytes.data(), values.size());
  }
  void *at(int64_t element) { return &bytes[element * bytesOf(type)]; }
  std::vector<float> values() const {
    for (int64_t i = 0; i < guard; ++i)
      EXPECT_EQ(int(bytes[bytes.size() - 1 - i]), guardByte)
          << "behind the elements";
    std::vector<float> result(count);
    if (type == ElementType::F32)
      std::memcpy(result.data(), bytes.data(), count * sizeof(float));
    else
      narrowRows().widen(type, bytes.data(), result.data(), count);
    return result;
  }

private:
  static constexpr int64_t guard = 64;
  static constexpr int guardByte = 98;
  ElementType type;
  size_t count;
  std::vector<std::byte> bytes;
};

Outputs<float> run(Problem &problem, int threads) {
  AttentionShape &shape = problem.shape();
  EXPECT_TRUE(loadOneDnn());
  auto untouchedLike = [&](const std::vector<float> &values) {
    return Elements(shape.type, std::vector<float>(values.size(), untouched));
  };
  Elements query(shape.type, problem.query),
      keysAndValues(shape.type, problem.keysAndValues),
      resultGradient(shape.type, problem.resultGradient),
      result = untouchedLike(problem.resultGradient),
      queryGradient = untouchedLike(problem.query),
      keyGradient = untouchedLike(problem.keysAndValues);
  Outputs<float> outputs;
  outputs.lse.assign(shape.batch * shape.heads * shape.queries, untouched);
  outputs.bias.assign(problem.bias.size(), untouched);
  uint64_t scratchBytes =
      std::max(attentionScratchBytes(shape, threads),
               attentionScratchBytes(problem.whole, threads));
  std::unique_ptr<void, decltype(&std::free)> scratch(
      std::aligned_alloc(64, scratchBytes + 64), std::free);
  // The contents of scratch before the call do not matter.
  std::memset(scratch.get(), 0xff, scratchBytes);
  auto *end = static_cast<std::byte *>(scratch.get()) + scratchBytes;
  std::memset(end, 99, 64);
  int64_t value = shape.groups * shape.width;
  AttentionCounters counters{&problem.seed,
                             &problem.step,
                             &problem.microbatch,
                             {&problem.offsets[0], &problem.offsets[1],
                              &problem.offsets[2], &problem.offsets[3]}};
  EXPECT_TRUE(
      runAttention(shape,
                   {query.at(0), keysAndValues.at(0), keysAndValues.at(value),
                    problem.bias.data(), problem.mask.data(), counters,
                    result.at(0), outputs.lse.data(), scratch.get()},
                   threads));
  EXPECT_TRUE(runAttentionGrad(
      problem.whole,
      {resultGradient.at(0), query.at(0), keysAndValues.at(0),
       keysAndValues.at(value), result.at(0), outputs.lse.data(),
       problem.bias.data(), problem.mask.data(), counters, queryGradient.at(0),
       keyGradient.at(0), keyGradient.at(value),
       problem.whole.biasGradient ? outputs.bias.data() : nullptr,
       scratch.get()},
      threads));
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(int(end[i]), 99) << "behind the scratch";
  outputs.result = result.values(), outputs.query = queryGradient.values();
  outputs.keysAndValues = keyGradient.values();
  return outputs;
}

/// One row of softmax and its gradient, in doubles.
class Row {
public:
  Row(const Problem &problem, int64_t b, int64_t h, int64_t q)
      : p(problem), shape(p.whole.forward), b(b), h(h), q(q),
        g(h / (shape.heads / shape.groups)) {
    double largest = -INFINITY;
    for (int64_t k = 0; k < shape.keys; ++k)
      addScore(k), largest = std::max(largest, scores[k]);
    double total = 0;
    for (int64_t k = 0; k < shape.keys; ++k)
      if (weighs(k))
        total += std::exp(scores[k] - largest);
    lse = largest + std::log(total);
    for (int64_t k = 0; k < shape.keys; ++k)
      weights.push_back(weighs(k) ? std::exp(scores[k] - largest) / total : 0);
  }

  double at(const std::vector<float> &data, const RowStrides &strides,
            int64_t head, int64_t row, int64_t i) const {
    return data[b * strides.batch + head * strides.head + row * strides.row +
                i];
  }
  double query(int64_t i) const { return at(p.query, shape.query, h, q, i); }
  double key(int64_t k, int64_t i) const {
    return at(p.keysAndValues, shape.key, g, k, i);
  }
  double value(int64_t k, int64_t i) const {
    return at(p.keysAndValues, shape.value, g, k,
              shape.groups * shape.width + i);
  }
  double gradient(int64_t i) const {
    return at(p.resultGradient, shape.result, h, q, i);
  }
  bool weighs(int64_t k) const {
    return !hidden[k] || shape.rules.masked != MaskedScores::Zero;
  }
  bool isFixed(int64_t k) const {
    return hidden[k] && shape.rules.masked != MaskedScores::Add;
  }

  std::vector<double> scores, weights, kept, slopeOfCap;
  std::vector<bool> hidden;
  double lse;

private:
  void addScore(int64_t k) {
    double score = 0;
    for (int64_t i = 0; i < shape.width; ++i)
      score += query(i) * key(k, i);
    score *= shape.scale;
    double slope = 1;
    if (double cap = shape.rules.softcap; cap != 0) {
      double t = std::tanh(score / cap);
      score = cap * t, slope = 1 - t * t;
    }
    if (shape.bias)
      score += p.bias[offset(*shape.bias, b, h, q, k)];
    int64_t distance = q + shape.keys - shape.queries - k;
    bool isHidden =
        (shape.mask && !p.mask[offset(*shape.mask, b, h, q, k)]) ||
        (shape.causal &&
         (distance < 0 || (shape.window && distance >= shape.window)));
    // These are sums of floats.
    if (isHidden && shape.rules.masked == MaskedScores::Add)
      score = static_cast<float>(score) + shape.rules.fill;
    else if (isHidden)
      score = shape.rules.masked == MaskedScores::Zero ? -INFINITY
                                                       : shape.rules.fill;
    double factor = 1;
    if (shape.dropout) {
      std::array<int64_t, 4> index{b, h, q, k};
      uint64_t element = 0;
      for (int dim = 0; dim < 4; ++dim)
        element += (index[dim] + p.offsets[dim]) * shape.dropout->strides[dim];
      uint32_t word =
          randomWord(shape.dropout->id, element, p.seed, p.step, p.microbatch);
      double rate = shape.dropout->rate;
      factor = word >= rate * 0x1p32 ? 1 / (1 - rate) : 0;
    }
    scores.push_back(score), slopeOfCap.push_back(slope);
    hidden.push_back(isHidden), kept.push_back(factor);
  }

  const Problem &p;
  const AttentionShape &shape;
  int64_t b, h, q, g;
};

Outputs<double> define(const Problem &p) {
  const AttentionShape &shape = p.whole.forward;
  Outputs<double> outputs;
  outputs.result.assign(p.resultGradient.size(), 0);
  outputs.query.assign(p.query.size(), 0);
  outputs.keysAndValues.assign(p.keysAndValues.size(), 0);
  outputs.bias.assign(p.bias.size(), 0);
  outputs.biasSquares.assign(p.bias.size(), 0);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t q = 0; q < shape.queries; ++q) {
        Row row(p, b, h, q);
        outputs.lse.push_back(row.lse);
        int64_t g = h / (shape.heads / shape.groups);
        double *result =
            &outputs.result[b * shape.result.batch + h * shape.result.head +
                            q * shape.result.row];
        double *dq = &outputs.query[b * shape.query.batch +
                                    h * shape.query.head + q * shape.query.row];
        std::vector<double> slopes(shape.keys);
        double delta = 0;
        for (int64_t k = 0; k < shape.keys; ++k) {
          if (!row.weighs(k))
            continue;
          double *dv =
              &outputs
                   .keysAndValues[b * shape.value.batch + g * shape.value.head +
                                  k * shape.value.row +
                                  shape.groups * shape.width];
          for (int64_t i = 0; i < shape.valueWidth; ++i) {
            result[i] += row.kept[k] * row.weights[k] * row.value(k, i);
            dv[i] += row.kept[k] * row.weights[k] * row.gradient(i);
            slopes[k] += row.kept[k] * row.gradient(i) * row.value(k, i);
          }
          delta += row.weights[k] * slopes[k];
        }
        for (int64_t k = 0; k < shape.keys; ++k) {
          if (!row.weighs(k) || row.isFixed(k))
            continue;
          double slope = row.weights[k] * (slopes[k] - delta);
          if (p.whole.biasGradient) {
            int64_t at = offset(*p.whole.biasGradient, b, h, q, k);
            outputs.bias[at] += slope;
            outputs.biasSquares[at] += slope * slope;
          }
          slope *= row.slopeOfCap[k] * shape.scale;
          double *dk =
              &outputs.keysAndValues[b * shape.key.batch + g * shape.key.head +
                                     k * shape.key.row];
          for (int64_t i = 0; i < shape.width; ++i) {
            dq[i] += slope * row.key(k, i);
            dk[i] += slope * row.query(i);
          }
        }
      }
  return outputs;
}

/// How far numbers may be from the definition, as a part of the largest one.
struct Tolerances {
  double ofResults = 3e-6, ofSums = 3e-6;
};

/// With `least` for the largest number, if all are smaller.
void expectNear(const char *what, const std::vector<float> &actual,
                const std::vector<double> &expected, double tolerance,
                double least = 0.5) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = least;
  for (double value : expected)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  int faults = 0;
  for (size_t i = 0; i < actual.size() && faults < 3; ++i) {
    if (actual[i] == untouched && expected[i] == 0)
      continue; // between rows
    bool isRight =
        std::isfinite(expected[i])
            ? std::abs(actual[i] - expected[i]) <= tolerance * largest
        : std::isnan(expected[i]) ? std::isnan(actual[i])
                                  : actual[i] == expected[i];
    if (!isRight)
      ADD_FAILURE() << what << "[" << i << "] is " << actual[i]
                    << " instead of " << expected[i],
          ++faults;
  }
}

/// Rows are written as a whole, and nothing between them.
void expectGaps(const char *what, const std::vector<float> &values,
                int64_t row) {
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i] == untouched, static_cast<int64_t>(i) % row >= row - 5)
        << what << "[" << i << "]";
}

/// The largest distances that roundings alone explain.
///
/// Results are rounded once, to half a unit u of the largest element. Products
/// of bf16 also round each weight by a part of at most u, so that the weighted
/// sum of values, of which the weights add up to 1, is wrong by at most u times
/// the largest value, which here is at most a few times the largest result. In
/// the backward the rounded result is read again: delta is wrong by u times the
/// sum of |result gradient| |result|, which is at most the width in elements of
/// 1; slopes, gradients and their sums are wrong likewise. Errors of sums add
/// up as their elements do, and in the cases here to less than 16 u of the
/// largest.
Tolerances tolerancesOf(const AttentionShape &shape) {
  if (shape.type == ElementType::F32)
    return {};
  double unit = shape.type == ElementType::BF16 ? 0x1p-8 : 0x1p-11;
  return {shape.products == TileProducts::BFloat16 ? 4 * unit : 1.01 * unit,
          16 * unit};
}

/// Compares with the definition, and two threads with one.
void expectRightAs(Problem &problem, const Outputs<double> &expected) {
  Tolerances tolerances = tolerancesOf(problem.shape());
  Outputs<float> actual = run(problem, 1);
  expectNear("result", actual.result, expected.result, tolerances.ofResults);
  // Sums of weights are f32 whatever the elements are.
  expectNear("lse", actual.lse, expected.lse, 3e-6);
  expectNear("query's gradient", actual.query, expected.query,
             tolerances.ofSums);
  expectNear("keys' and values' gradient", actual.keysAndValues,
             expected.keysAndValues, tolerances.ofSums);
  // Thousands of terms may cancel to nothing. Each is rounded by itself, so the
  // sum is as wrong as the terms' norm is large.
  if (problem.whole.biasGradient)
    expectNear("bias's gradient", actual.bias, expected.bias, tolerances.ofSums,
               std::sqrt(std::max(
                   0.25, *std::max_element(expected.biasSquares.begin(),
                                           expected.biasSquares.end()))));
  expectGaps("result", actual.result, problem.shape().result.row);
  expectGaps("query", actual.query, problem.shape().query.row);
  expectGaps("key", actual.keysAndValues, problem.shape().key.row);
  Outputs<float> again = run(problem, 2);
  auto bitsOf = [](const std::vector<float> &values) {
    return std::string_view(reinterpret_cast<const char *>(values.data()),
                            values.size() * sizeof(float));
  };
  for (auto member :
       {&Outputs<float>::result, &Outputs<float>::lse, &Outputs<float>::query,
        &Outputs<float>::keysAndValues, &Outputs<float>::bias})
    EXPECT_TRUE(bitsOf(actual.*member) == bitsOf(again.*member))
        << "other bits with two threads";
}

/// The elements and products that this machine has.
std::vector<std::pair<ElementType, TileProducts>> kinds() {
  std::vector<std::pair<ElementType, TileProducts>> result{
      {ElementType::F32, TileProducts::Float32},
      {ElementType::BF16, TileProducts::Widened},
      {ElementType::F16, TileProducts::Widened}};
  if (hasTileProducts(TileProducts::BFloat16))
    result.emplace_back(ElementType::BF16, TileProducts::BFloat16);
  return result;
}

/// Expects the definition of all kinds of elements and products.
void expectRight(Problem &problem) {
  Outputs<double> expected = define(problem);
  for (auto [type, products] : kinds()) {
    problem.shape().type = type, problem.shape().products = products;
    SCOPED_TRACE(std::string(nameOf(type)) + ", " + nameOf(products));
    expectRightAs(problem, expected);
  }
}

std::string text(const AttentionShape &shape) {
  return describe(shape) + ", causal " + std::to_string(shape.causal) +
         ", window " + std::to_string(shape.window) + ", masked " +
         std::to_string(int(shape.rules.masked)) + " " +
         std::to_string(shape.rules.fill);
}

/// Queries and keys: as many, fewer and more.
const std::pair<int64_t, int64_t> lengths[] = {{40, 40}, {25, 70}, {70, 25}};

TEST(Attention, IsTheDefinitionForAllLengths) {
  for (int64_t length : {1, 2, 16, 17, 63, 127, 129})
    for (bool causal : {false, true}) {
      Problem problem = problemOf({1, 2, 2, length, length, 64, 64});
      problem.shape().causal = causal;
      problem.shape().blockQueries = 32, problem.shape().blockKeys = 48;
      SCOPED_TRACE(text(problem.shape()));
      expectRight(problem);
    }
  Problem problem = problemOf({1, 1, 1, 1000, 1000, 64, 64});
  problem.shape().causal = true;
  problem.shape().blockQueries = 128, problem.shape().blockKeys = 512;
  expectRight(problem);
}

TEST(Attention, IsTheDefinitionForAllWidths) {
  for (int64_t width : {1, 8, 64, 80, 128, 256})
    for (int64_t valueWidth : {width, int64_t(24)}) {
      Problem problem = problemOf({1, 2, 1, 33, 50, width, valueWidth});
      problem.shape().causal = true;
      SCOPED_TRACE(text(problem.shape()));
      expectRight(problem);
    }
}

TEST(Attention, SeesTheKeysOfItsWindow) {
  for (auto [queries, keys] : lengths)
    for (int64_t window : {0, 1, 2, 15, 16, 17, 31, 33, 1000}) {
      Problem problem = problemOf({1, 2, 2, queries, keys});
      problem.shape().causal = true;
      problem.shape().window = window;
      SCOPED_TRACE(text(problem.shape()));
      expectRight(problem);
    }
}

TEST(Attention, SumsTheGradientsOfHeadsThatShareKeys) {
  for (int64_t groups : {1, 2, 4, 8}) {
    Problem problem = problemOf({2, 8, groups, 40, 40});
    problem.shape().causal = true;
    SCOPED_TRACE(text(problem.shape()));
    expectRight(problem);
  }
}

const ScoreDims manyDims[] = {
    {true, true, true, true},    {true, false, false, true},
    {true, false, true, true},   {false, true, true, true},
    {false, false, true, true},  {false, true, false, true},
    {false, false, false, true}, {true, true, true, false},
    {false, true, true, false},  {false, false, true, false},
    {true, true, false, false},  {false, true, false, false},
    {false, false, false, false}};

TEST(Attention, AddsABiasAndSumsItsGradientOverTheDimsThatItLacks) {
  for (auto [queries, keys] : lengths)
    for (ScoreDims dims : manyDims)
      for (bool causal : {false, true}) {
        Problem problem = problemOf({2, 4, 2, queries, keys});
        problem.shape().causal = causal;
        problem.shape().rules.softcap = causal ? 2 : 0;
        addBias(problem, dims);
        SCOPED_TRACE(text(problem.shape()));
        SCOPED_TRACE(std::to_string(dims.batch) + std::to_string(dims.head) +
                     std::to_string(dims.query) + std::to_string(dims.key));
        expectRight(problem);
      }
}

TEST(Attention, HasTheSameBiasGradientInTwoPasses) {
  // With one head there are fewer tasks than threads.
  for (ScoreDims dims : manyDims) {
    Problem problem = problemOf({1, 1, 1, 70, 90});
    addBias(problem, dims);
    expectRight(problem);
  }
}

TEST(Attention, TakesTwoPassesWhereSumsOfOneWouldNotFitInScratch) {
  // Floats for the gradients of all queries of a head would take 2.2 MB.
  Problem problem = problemOf({1, 2, 1, 2150, 40, 256, 256});
  expectRight(problem);
}

TEST(Attention, ABiasMayHaveNoGradient) {
  Problem problem = problemOf({});
  addBias(problem, {}, /*hasGradient=*/false);
  expectRight(problem);
}

TEST(Attention, HidesWhatTheMaskHides) {
  std::function<bool(int64_t, int64_t, int64_t)> masks[] = {
      [](int64_t b, int64_t q, int64_t k) { return (q * 7 + k * 3 + b) % 4; },
      [](int64_t, int64_t q, int64_t k) { return q > 2 && (q + k) % 3; },
      [](int64_t, int64_t q, int64_t k) { return q < 23 && (q + k) % 3; },
      [](int64_t, int64_t, int64_t) { return false; },
      [](int64_t b, int64_t, int64_t) { return b == 1; },
      [](int64_t b, int64_t, int64_t k) { return k >= 9 + b; }};
  for (auto [queries, keys] : lengths)
    for (auto &sees : masks)
      for (ScoreDims dims : {ScoreDims{}, ScoreDims{true, false, true, true},
                             ScoreDims{true, false, false, true},
                             ScoreDims{true, false, false, false}})
        for (bool causal : {false, true}) {
          Problem problem = problemOf({2, 2, 1, queries, keys});
          problem.shape().causal = causal;
          addMask(problem, dims, sees);
          SCOPED_TRACE(text(problem.shape()));
          expectRight(problem);
        }
}

TEST(Attention, HiddenKeysCountWhatTheFillSays) {
  for (auto [queries, keys] : lengths)
    for (float fill : {-3.4028234e38f, -65504.f, -INFINITY, -4.f})
      for (MaskedScores masked : {MaskedScores::Add, MaskedScores::Replace})
        for (int64_t window : {-1, 0, 3})
          for (int kind : {0, 1, 2}) {
            Problem problem = problemOf({2, 2, 1, queries, keys});
            problem.shape().causal = window >= 0;
            problem.shape().window = std::max<int64_t>(window, 0);
            setMasked(problem, masked, fill);
            if (kind == 1) // with queries that see no key
              addMask(problem, {true, false, true, true},
                      [](int64_t b, int64_t q, int64_t k) {
                        return k >= 5 * b && q != 20;
                      });
            if (kind == 2)
              addBias(problem, {false, true, true, true});
            SCOPED_TRACE(text(problem.shape()) + ", kind " +
                         std::to_string(kind));
            expectRight(problem);
          }
}

TEST(Attention, HiddenKeysCountWhereScoresAreAsLowAsTheFill) {
  for (MaskedScores masked : {MaskedScores::Add, MaskedScores::Replace})
    for (bool hasBias : {false, true}) {
      Problem problem = problemOf({1, 1, 1, 64, 64});
      problem.shape().causal = true;
      setMasked(problem, masked, -8);
      // Either all scores are near -16, or the bias lifts hidden keys.
      if (hasBias) {
        addBias(problem, {});
        for (int64_t q = 0; q < 64; ++q)
          for (int64_t k = 0; k < 64; ++k)
            problem.bias[q * 64 + k] = k > q ? 8 : 0;
      } else {
        for (float &value : problem.query)
          value = -4 + value;
        for (float &value : problem.keysAndValues)
          value = 2 + value / 8;
      }
      SCOPED_TRACE(text(problem.shape()));
      expectRight(problem);
    }
}

TEST(Attention, HiddenKeysCountWhereTheirScoreOrBiasMakesUpForTheFill) {
  // Keys below 8 are before every query's window.
  for (bool byBias : {false, true}) {
    Problem problem = problemOf({1, 1, 1, 16, 64});
    AttentionShape &shape = problem.shape();
    shape.causal = true, shape.window = 4;
    setMasked(problem, MaskedScores::Add, -110);
    if (byBias)
      addBias(problem, {});
    for (int64_t key = 0; key < 8; ++key) {
      for (int64_t query = 0; query < 16 && byBias; ++query)
        problem.bias[query * 64 + key] = 104;
      for (int64_t i = 0; i < 8 && !byBias; ++i)
        problem.keysAndValues[key * shape.key.row + i] = 52;
    }
    for (int64_t query = 0; query < 16 && !byBias; ++query)
      for (int64_t i = 0; i < 8; ++i)
        problem.query[query * shape.query.row + i] = 1;
    SCOPED_TRACE(byBias);
    expectRight(problem);
  }
}

TEST(Attention, TakesTheTanhOfLargeAndSmallScores) {
  for (float softcap : {0.5f, 30.f}) {
    Problem problem = problemOf({1, 2, 2, 40, 40});
    problem.shape().rules.softcap = softcap;
    problem.shape().causal = true;
    expectRight(problem);
    setMasked(problem, MaskedScores::Add, -1000);
    expectRight(problem);
  }
}

TEST(Attention, DropsTheElementsThatDropoutDrops) {
  for (double rate : {0.1, 0.5})
    for (auto [queries, keys] : lengths) {
      Problem problem = problemOf({2, 4, 2, queries, keys});
      problem.shape().causal = true;
      addDropout(problem, rate);
      expectRight(problem);
      // A block of a larger tensor.
      problem.shape().dropout->strides = {int64_t(1) << 33, 1 << 20, 1 << 10,
                                          1};
      problem.offsets = {3, 5, 100, 200};
      addBias(problem, {false, true, true, true});
      expectRight(problem);
    }
}

TEST(Attention, HasFiniteWeightsForScoresOf10000) {
  for (bool causal : {false, true}) {
    Problem problem = problemOf({1, 2, 2, 60, 60});
    problem.shape().causal = causal;
    for (float &value : problem.query)
      value *= 8192;
    expectRight(problem);
  }
}

TEST(Attention, NeedsAtMost2MiBOfScratchForEachThread) {
  Problem problem = problemOf({1, 12, 12, 1, 1, 256, 256});
  problem.shape().queries = problem.shape().keys = 1 << 16;
  problem.shape().blockQueries = 128, problem.shape().blockKeys = 512;
  EXPECT_LE(attentionScratchBytes(problem.shape(), 1), 2u << 20);
  EXPECT_LE(attentionScratchBytes(problem.whole, 1), 2u << 20);
  EXPECT_EQ(attentionScratchBytes(problem.whole, 4),
            4 * attentionScratchBytes(problem.whole, 1));
  // Copies and sums of narrow elements leave room for fewer keys.
  problem.shape().blockKeys = 128;
  for (auto [type, products] : kinds()) {
    problem.shape().type = type, problem.shape().products = products;
    SCOPED_TRACE(nameOf(products));
    EXPECT_LE(attentionScratchBytes(problem.shape(), 1), 2u << 20);
    EXPECT_LE(attentionScratchBytes(problem.whole, 1), 2u << 20);
    // One pass would sum up the gradients of all keys that heads share.
    for (int64_t groups : {12, 4, 1}) {
      problem.shape().groups = groups;
      EXPECT_LE(attentionScratchBytes(problem.whole, 1), 2u << 20);
    }
    problem.shape().groups = 12;
  }
}

TEST(Attention, IsDescribedByItsSizes) {
  EXPECT_EQ(describe(problemOf({2, 8, 2, 5, 6, 64, 32}).shape()),
            "2x8 heads, 5 queries, 6 keys of width 64, values of width 32, 2 "
            "heads of keys");
}

} // namespace
} // namespace polyrank::runtime::test
