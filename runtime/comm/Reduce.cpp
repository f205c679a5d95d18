// Elementwise reductions: plain loops that the compiler vectorises. They are
// memory-bound, so each element is read once from each source and written once
// to each result.

#include "runtime/comm/Reduce.h"

#include "support/ElementValues.h"

#include <cstring>
#include <type_traits>

namespace polyrank::runtime {
namespace {

struct SumOf {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) // wraps: signed overflow is undefined
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                            static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};
// A NaN in either operand is the result.
struct MaxOf {
  template <typename T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct MinOf {
  template <typename T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

/// The bytes that are reduced at once, in registers, and the prefetch distance:
/// the sources are in other cores' caches or in no cache.
constexpr int64_t pieceBytes = 64, prefetchBytes = 2048;

/// Reduces elements [first, first + count) of all sources into all results, in
/// the accumulator of T.
template <typename Op, typename T>
void reducePiece(std::span<const std::byte *const> sources,
                 std::span<std::byte *const> results, int64_t first,
                 int64_t count) {
  using Accumulator = Arithmetic<T>;
  constexpr int64_t most = pieceBytes / sizeof(T);
  Accumulator sums[most];
  T values[most];
  for (size_t s = 0; s < sources.size(); ++s) {
    std::memcpy(values, sources[s] + first * sizeof(T), count * sizeof(T));
    for (int64_t e = 0; e < count; ++e)
      sums[e] = s == 0 ? Accumulator(values[e])
                       : Op::apply(sums[e], Accumulator(values[e]));
  }
  for (int64_t e = 0; e < count; ++e)
    values[e] = T(sums[e]);
  for (std::byte *result : results)
    std::memcpy(result + first * sizeof(T), values, count * sizeof(T));
}

template <typename Op, typename T>
void reduceAs(std::span<const std::byte *const> sources, int64_t elements,
              std::span<std::byte *const> results) {
  constexpr int64_t most = pieceBytes / sizeof(T);
  int64_t first = 0;
  for (; first + most <= elements; first += most) {
    for (const std::byte *source : sources)
      __builtin_prefetch(source + first * sizeof(T) + prefetchBytes);
    reducePiece<Op, T>(sources, results, first, most);
  }
  if (first < elements)
    reducePiece<Op, T>(sources, results, first, elements - first);
}

/// Elements [0, count) of one step; see addElements.
template <typename Op, typename T>
void addPiece(const std::byte *before,
              std::span<const std::byte *const> sources, int64_t first,
              int64_t count, std::byte *result, bool isLast) {
  using Accumulator = Arithmetic<T>;
  constexpr int64_t most = pieceBytes / sizeof(T);
  Accumulator sums[most];
  T values[most];
  if (before)
    std::memcpy(sums, before + first * sizeof(Accumulator),
                count * sizeof(Accumulator));
  for (size_t s = 0; s < sources.size(); ++s) {
    std::memcpy(values, sources[s] + first * sizeof(T), count * sizeof(T));
    for (int64_t e = 0; e < count; ++e)
      sums[e] = s == 0 && !before ? Accumulator(values[e])
                                  : Op::apply(sums[e], Accumulator(values[e]));
  }
  if (!isLast) {
    std::memcpy(result + first * sizeof(Accumulator), sums,
                count * sizeof(Accumulator));
    return;
  }
  for (int64_t e = 0; e < count; ++e)
    values[e] = T(sums[e]);
  std::memcpy(result + first * sizeof(T), values, count * sizeof(T));
}

template <typename Op, typename T>
void addAs(const std::byte *before, std::span<const std::byte *const> sources,
           int64_t elements, std::byte *result, bool isLast) {
  constexpr int64_t most = pieceBytes / sizeof(T);
  int64_t first = 0;
  for (; first + most <= elements; first += most)
    addPiece<Op, T>(before, sources, first, most, result, isLast);
  if (first < elements)
    addPiece<Op, T>(before, sources, first, elements - first, result, isLast);
}

template <typename Op>
void reduceWith(ElementType dtype, std::span<const std::byte *const> sources,
                int64_t elements, std::span<std::byte *const> results) {
  visitElements(dtype, [&]<typename T>(T) {
    reduceAs<Op, T>(sources, elements, results);
  });
}

/// A sum of booleans has at most one true summand, such as the parts of a
/// gather from a split table, so it is a maximum.
Reduction operationOf(ElementType dtype, Reduction reduction) {
  return dtype == ElementType::BOOL && reduction == Reduction::Sum
             ? Reduction::Max
             : reduction;
}

} // namespace

int64_t accumulatorBytes(ElementType dtype) {
  return visitElements(dtype, []<typename T>(T) {
    return static_cast<int64_t>(sizeof(Arithmetic<T>));
  });
}

void addElements(ElementType dtype, Reduction reduction,
                 const std::byte *before,
                 std::span<const std::byte *const> sources, int64_t elements,
                 std::byte *result, bool isLast) {
  visitElements(dtype, [&]<typename T>(T) {
    switch (operationOf(dtype, reduction)) {
    case Reduction::Sum:
      return addAs<SumOf, T>(before, sources, elements, result, isLast);
    case Reduction::Max:
      return addAs<MaxOf, T>(before, sources, elements, result, isLast);
    case Reduction::Min:
      return addAs<MinOf, T>(before, sources, elements, result, isLast);
    case Reduction::None:
      return;
    }
  });
}

void reduceElements(ElementType dtype, Reduction reduction,
                    std::span<const std::byte *const> sources, int64_t elements,
                    std::span<std::byte *const> results) {
  switch (operationOf(dtype, reduction)) {
  case Reduction::Sum:
    return reduceWith<SumOf>(dtype, sources, elements, results);
  case Reduction::Max:
    return reduceWith<MaxOf>(dtype, sources, elements, results);
  case Reduction::Min:
    return reduceWith<MinOf>(dtype, sources, elements, results);
  case Reduction::None:
    return;
  }
}

} // namespace polyrank::runtime
