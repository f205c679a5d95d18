// Elementwise reductions: plain loops that the compiler vectorises. They are
// memory-bound, so each element is read once from each source and written once
// to each result.

#include "runtime/comm/Reduce.h"

#include "support/Float16.h"

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

/// Reduces elements [first, first + count) of all sources into all results; Acc
/// is the accumulator type.
template <typename Op, typename T, typename Acc, Acc (*load)(T),
          T (*store)(Acc)>
void reducePiece(std::span<const std::byte *const> sources,
                 std::span<std::byte *const> results, int64_t first,
                 int64_t count) {
  constexpr int64_t most = pieceBytes / sizeof(T);
  Acc sums[most];
  T values[most];
  for (size_t s = 0; s < sources.size(); ++s) {
    std::memcpy(values, sources[s] + first * sizeof(T), count * sizeof(T));
    for (int64_t e = 0; e < count; ++e)
      sums[e] = s == 0 ? load(values[e]) : Op::apply(sums[e], load(values[e]));
  }
  for (int64_t e = 0; e < count; ++e)
    values[e] = store(sums[e]);
  for (std::byte *result : results)
    std::memcpy(result + first * sizeof(T), values, count * sizeof(T));
}

template <typename Op, typename T, typename Acc, Acc (*load)(T),
          T (*store)(Acc)>
void reduceAs(std::span<const std::byte *const> sources, int64_t elements,
              std::span<std::byte *const> results) {
  constexpr int64_t most = pieceBytes / sizeof(T);
  int64_t first = 0;
  for (; first + most <= elements; first += most) {
    for (const std::byte *source : sources)
      __builtin_prefetch(source + first * sizeof(T) + prefetchBytes);
    reducePiece<Op, T, Acc, load, store>(sources, results, first, most);
  }
  if (first < elements)
    reducePiece<Op, T, Acc, load, store>(sources, results, first,
                                         elements - first);
}

template <typename T>
T same(T value) {
  return value;
}

template <typename T, typename Op>
void reduceExact(std::span<const std::byte *const> sources, int64_t elements,
                 std::span<std::byte *const> results) {
  reduceAs<Op, T, T, same<T>, same<T>>(sources, elements, results);
}

template <typename Op>
void reduceWith(DType dtype, std::span<const std::byte *const> sources,
                int64_t elements, std::span<std::byte *const> results) {
  switch (dtype) {
  case DType::F32:
    return reduceExact<float, Op>(sources, elements, results);
  case DType::F64:
    return reduceExact<double, Op>(sources, elements, results);
  case DType::BF16:
    return reduceAs<Op, uint16_t, float, floatFromBFloat16, bfloat16FromFloat>(
        sources, elements, results);
  case DType::F16:
    return reduceAs<Op, uint16_t, float, floatFromFloat16, float16FromFloat>(
        sources, elements, results);
  case DType::I8:
    return reduceExact<int8_t, Op>(sources, elements, results);
  case DType::U8:
  case DType::BOOL:
    return reduceExact<uint8_t, Op>(sources, elements, results);
  case DType::I32:
    return reduceExact<int32_t, Op>(sources, elements, results);
  case DType::I64:
    return reduceExact<int64_t, Op>(sources, elements, results);
  }
}

} // namespace

void reduceElements(DType dtype, Reduction reduction,
                    std::span<const std::byte *const> sources, int64_t elements,
                    std::span<std::byte *const> results) {
  // A sum of booleans has at most one true summand, such as the parts of a
  // gather from a split table, so it is a maximum.
  if (dtype == DType::BOOL && reduction == Reduction::Sum)
    reduction = Reduction::Max;
  switch (reduction) {
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
