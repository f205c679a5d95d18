// Rows of attention in vectors of 16 floats, which the compiler maps to the
// registers that POLYRANK_ROWS's instructions have. Every function is local to
// this file: an inline function of a header would be one function for all
// builds of this file, and might be linked with instructions that the machine
// lacks.

#include "runtime/device/cpu/AttentionRows.h"

#include "support/Philox.h"

namespace {

using namespace polyrank::runtime;

typedef float V __attribute__((vector_size(64)));
typedef int32_t I __attribute__((vector_size(64)));
typedef uint32_t U __attribute__((vector_size(64)));
typedef uint64_t U64 __attribute__((vector_size(128)));
typedef uint8_t Bytes __attribute__((vector_size(16)));
constexpr int64_t lanes = 16;
constexpr float infinity = __builtin_inff();

#define INLINE [[gnu::always_inline]] inline

INLINE V all(float x) { return V{} + x; }
INLINE I allOf(int32_t x) { return I{} + x; }
INLINE V bits(I x) { return (V)x; }
INLINE I bits(V x) { return (I)x; }
INLINE I laneNumbers() {
  return I{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

INLINE V fma(V x, V y, V z) {
#if defined(__clang__)
  return __builtin_elementwise_fma(x, y, z);
#else
  V result;
  for (int64_t i = 0; i < lanes; ++i)
    result[i] = __builtin_fmaf(x[i], y[i], z[i]);
  return result;
#endif
}

INLINE V load(const float *from) {
  V result;
  __builtin_memcpy(&result, from, sizeof(V));
  return result;
}
INLINE void store(float *to, V x) { __builtin_memcpy(to, &x, sizeof(V)); }
/// Loads at most 16 elements; the others are zero.
INLINE V load(const float *from, int64_t count) {
  if (count >= lanes)
    return load(from);
  float values[lanes] = {};
  for (int64_t i = 0; i < count; ++i)
    values[i] = from[i];
  return load(values);
}

/// The sum of all lanes, in pairs.
INLINE float sumOf(V x) {
  float values[lanes];
  store(values, x);
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      values[i] += values[i + half];
  return values[0];
}
/// NaN counts as nothing.
INLINE float largestOf(V x) {
  float result = -infinity;
  for (int64_t i = 0; i < lanes; ++i)
    result = x[i] > result ? x[i] : result;
  return result;
}

/// The formula of the kernels (compiler/target/math/ExpandMath.cpp). exp of
/// -104 and less is 0.
INLINE V exp(V x) {
  x = x < all(-104) ? all(-104) : x;
  x = all(89) < x ? all(89) : x;
  V shifted = fma(x, all(1.44269504088896341f), all(0x1.8p23f));
  I n = bits(shifted) - bits(all(0x1.8p23f));
  V whole = shifted - all(0x1.8p23f);
  V r = fma(whole, all(-0.693359375f), x);
  r = fma(whole, all(2.12194440e-4f), r);
  V p = all(1.9875691500e-4f);
  p = fma(p, r, all(1.3981999507e-3f));
  p = fma(p, r, all(8.3334519073e-3f));
  p = fma(p, r, all(4.1665795894e-2f));
  p = fma(p, r, all(1.6666665459e-1f));
  p = fma(p, r, all(5.0000001201e-1f));
  p = fma(p, r * r, r) + all(1);
  I half = n >> 1;
  return p * bits((half + 127) << 23) * bits((n - half + 127) << 23);
}

/// The formula of the kernels.
INLINE V tanh(V x) {
  V magnitude = bits(bits(x) & 0x7fffffff);
  V large = all(1) - all(2) / (exp(magnitude + magnitude) + all(1));
  large = bits(bits(large) | (bits(x) & allOf(INT32_MIN)));
  V z = x * x;
  V p = all(-5.70498872745e-3f);
  p = fma(p, z, all(2.06390887954e-2f));
  p = fma(p, z, all(-5.37397155531e-2f));
  p = fma(p, z, all(1.33314422036e-1f));
  p = fma(p, z, all(-3.33332819422e-1f));
  V small = fma(p * z, x, x);
  return magnitude < all(0.625f) ? small : (x == x ? large : x);
}

/// The factors by which dropout multiplies weights [first, first + 16) of a
/// row.
INLINE V keptOf(const RowDropout &dropout, int64_t first) {
  U64 element = U64{} + (dropout.element + static_cast<uint64_t>(first));
  element += __builtin_convertvector(laneNumbers(), U64);
  U word = polyrank::philox(dropout.key, __builtin_convertvector(element, U),
                            __builtin_convertvector(element >> 32, U),
                            U{} + dropout.step, U{} + dropout.microbatch,
                            [](uint32_t constant, U word, U &high,
                               U &low) __attribute__((always_inline)) {
                              U64 product = __builtin_convertvector(word, U64) *
                                            uint64_t(constant);
                              high = __builtin_convertvector(product >> 32, U);
                              low = __builtin_convertvector(product, U);
                            });
  // The limit may be 2^32.
  if (dropout.limit > UINT32_MAX)
    return all(0);
  U limit = U{} + static_cast<uint32_t>(dropout.limit);
  return word >= limit ? all(1) / all(dropout.kept) : all(0);
}

/// 16 keys of a row.
struct Piece {
  V score;
  V slope;  // of the score by the scaled product
  I hidden; // all ones where the query does not see the key
};

INLINE I hiddenOf(const RowKeys &keys, int64_t i) {
  I number = laneNumbers() + static_cast<int32_t>(i);
  I hidden = (number < static_cast<int32_t>(keys.begin)) |
             (number >= static_cast<int32_t>(keys.end));
  if (!keys.mask)
    return hidden;
  if (keys.hasOneMask)
    return *keys.mask ? hidden : allOf(-1);
  Bytes bytes = {};
  if (keys.count - i >= lanes)
    __builtin_memcpy(&bytes, keys.mask + i, lanes);
  else
    for (int64_t lane = 0; lane < keys.count - i; ++lane)
      bytes[lane] = keys.mask[i + lane];
  return hidden | (__builtin_convertvector(bytes, I) == 0);
}

/// `needsSlope` is a constant in each call.
INLINE Piece scoresOf(const float *row, const RowKeys &keys,
                      const ScoreRules &rules, int64_t i, bool needsSlope) {
  Piece piece{load(row + i), all(1), hiddenOf(keys, i)};
  if (rules.softcap != 0) {
    V t = tanh(piece.score / all(rules.softcap));
    piece.score = all(rules.softcap) * t;
    if (needsSlope)
      piece.slope = fma(-t, t, all(1));
  }
  if (keys.bias)
    piece.score +=
        keys.hasOneBias ? all(*keys.bias) : load(keys.bias + i, keys.count - i);
  switch (rules.masked) {
  case MaskedScores::Zero:
    piece.score = piece.hidden ? all(-infinity) : piece.score;
    break;
  case MaskedScores::Add:
    piece.score = piece.hidden ? piece.score + all(rules.fill) : piece.score;
    break;
  case MaskedScores::Replace:
    piece.score = piece.hidden ? all(rules.fill) : piece.score;
    break;
  }
  if (i + lanes > keys.count) { // behind the row
    I number = laneNumbers() + static_cast<int32_t>(i);
    piece.score = number < static_cast<int32_t>(keys.count) ? piece.score
                                                            : all(-infinity);
  }
  return piece;
}

/// The keys of a row that may have a weight, in whole vectors.
struct Span {
  int64_t begin, end;
};
INLINE Span weighted(const RowKeys &keys, const ScoreRules &rules) {
  if (rules.masked != MaskedScores::Zero)
    return {0, (keys.count + lanes - 1) / lanes * lanes};
  if (keys.begin >= keys.end)
    return {0, 0};
  return {keys.begin / lanes * lanes, (keys.end + lanes - 1) / lanes * lanes};
}

INLINE void clearOutside(float *row, const RowKeys &keys, Span span) {
  for (int64_t i = 0; i < span.begin; i += lanes)
    store(row + i, all(0));
  for (int64_t i = span.end; i < keys.count; i += lanes)
    store(row + i, all(0));
}

float toScores(float *row, const RowKeys &keys, const ScoreRules &rules) {
  V largest = all(-infinity);
  Span span = weighted(keys, rules);
  bool isPlain = rules.softcap == 0 && !keys.bias && !keys.mask;
  for (int64_t i = span.begin; i < span.end; i += lanes) {
    V score;
    if (isPlain && i >= keys.begin && i + lanes <= keys.end) {
      score = load(row + i);
    } else {
      score = scoresOf(row, keys, rules, i, false).score;
      store(row + i, score);
    }
    largest = score > largest ? score : largest;
  }
  return largestOf(largest);
}

float toWeights(float *row, const RowKeys &keys, const ScoreRules &rules,
                float shift, const RowDropout *dropout) {
  V sum = all(0);
  Span span = weighted(keys, rules);
  for (int64_t i = span.begin; i < span.end; i += lanes) {
    V weight = exp(load(row + i) - all(shift));
    sum += weight;
    store(row + i, dropout ? weight * keptOf(*dropout, i) : weight);
  }
  clearOutside(row, keys, span);
  return sumOf(sum);
}

void toSlopes(float *row, float *gradients, const RowKeys &keys,
              const ScoreRules &rules, const RowGradient &gradient,
              const RowDropout *dropout) {
  Span span = weighted(keys, rules);
  V biasSum = all(0);
  bool isPlain = rules.softcap == 0 && !keys.bias && !keys.mask && !dropout &&
                 !gradient.bias;
  V lse = all(gradient.lse), norm = all(gradient.norm);
  V delta = all(gradient.delta);
  for (int64_t i = span.begin; i < span.end; i += lanes) {
    V ofWeight = load(gradients + i);
    if (isPlain && i >= keys.begin && i + lanes <= keys.end) {
      V weight = exp(load(row + i) - lse) * norm;
      store(row + i, weight);
      store(gradients + i, weight * (ofWeight - delta));
      continue;
    }
    Piece piece = scoresOf(row, keys, rules, i, true);
    V weight = exp(piece.score - lse) * norm;
    V dropped = weight;
    if (dropout) {
      V kept = keptOf(*dropout, i);
      dropped = weight * kept;
      ofWeight *= kept;
    }
    V slope = weight * (ofWeight - delta);
    I isFixed = rules.masked == MaskedScores::Add ? allOf(0) : piece.hidden;
    if (i + lanes > keys.count) {
      I number = laneNumbers() + static_cast<int32_t>(i);
      isFixed |= number >= static_cast<int32_t>(keys.count);
    }
    slope = isFixed ? all(0) : slope;
    if (gradient.bias) {
      if (gradient.hasOneBias)
        biasSum += slope;
      else if (keys.count - i >= lanes)
        store(gradient.bias + i, load(gradient.bias + i) + slope);
      else
        for (int64_t lane = 0; lane < keys.count - i; ++lane)
          gradient.bias[i + lane] += slope[lane];
    }
    store(row + i, dropped);
    store(gradients + i, slope * piece.slope);
  }
  clearOutside(row, keys, span);
  clearOutside(gradients, keys, span);
  if (gradient.bias && gradient.hasOneBias)
    *gradient.bias += sumOf(biasSum);
}

void scale(float *values, int64_t count, float factor) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store(values + i, load(values + i) * all(factor));
  for (; i < count; ++i)
    values[i] *= factor;
}

float dot(const float *x, const float *y, int64_t count) {
  V sum = all(0);
  for (int64_t i = 0; i < count; i += lanes)
    sum = fma(load(x + i, count - i), load(y + i, count - i), sum);
  return sumOf(sum);
}

float largest(const float *values, int64_t count) {
  float result = -infinity;
  for (int64_t i = 0; i < count; ++i)
    result = values[i] > result || values[i] != values[i] ? values[i] : result;
  return result;
}

} // namespace

namespace polyrank::runtime {

const AttentionRows POLYRANK_ROWS{toScores, toWeights, toSlopes,
                                  scale,    dot,       largest};

} // namespace polyrank::runtime
