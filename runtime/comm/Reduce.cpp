// Elementwise reductions: plain loops that the compiler vectorises.

#include "runtime/comm/Reduce.h"

#include "runtime/Float16.h"

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
// A NaN on either side is the result.
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

template <typename T, typename Op>
void reduceExact(std::span<const std::byte *const> sources, int64_t elements,
                 std::byte *result) {
  T *__restrict accumulator = reinterpret_cast<T *>(result);
  std::memcpy(accumulator, sources[0], elements * sizeof(T));
  for (size_t s = 1; s < sources.size(); ++s) {
    const T *__restrict source = reinterpret_cast<const T *>(sources[s]);
    for (int64_t e = 0; e < elements; ++e)
      accumulator[e] = Op::apply(accumulator[e], source[e]);
  }
}

template <float (*toFloat)(uint16_t), uint16_t (*fromFloat)(float), typename Op>
void reduceHalf(std::span<const std::byte *const> sources, int64_t elements,
                std::byte *result) {
  float accumulator[reduceBlockElements];
  for (size_t s = 0; s < sources.size(); ++s) {
    const uint16_t *source = reinterpret_cast<const uint16_t *>(sources[s]);
    for (int64_t e = 0; e < elements; ++e) {
      float value = toFloat(source[e]);
      accumulator[e] = s == 0 ? value : Op::apply(accumulator[e], value);
    }
  }
  for (int64_t e = 0; e < elements; ++e)
    reinterpret_cast<uint16_t *>(result)[e] = fromFloat(accumulator[e]);
}

template <typename Op>
void reduceWith(DType dtype, std::span<const std::byte *const> sources,
                int64_t elements, std::byte *result) {
  switch (dtype) {
  case DType::F32:
    return reduceExact<float, Op>(sources, elements, result);
  case DType::F64:
    return reduceExact<double, Op>(sources, elements, result);
  case DType::BF16:
    return reduceHalf<floatFromBFloat16, bfloat16FromFloat, Op>(
        sources, elements, result);
  case DType::F16:
    return reduceHalf<floatFromFloat16, float16FromFloat, Op>(sources, elements,
                                                              result);
  case DType::I8:
    return reduceExact<int8_t, Op>(sources, elements, result);
  case DType::U8:
  case DType::BOOL:
    return reduceExact<uint8_t, Op>(sources, elements, result);
  case DType::I32:
    return reduceExact<int32_t, Op>(sources, elements, result);
  case DType::I64:
    return reduceExact<int64_t, Op>(sources, elements, result);
  }
}

} // namespace

bool canReduce(DType dtype, Reduction reduction) {
  return reduction != Reduction::None;
}

void reduceBlock(DType dtype, Reduction reduction,
                 std::span<const std::byte *const> sources, int64_t elements,
                 std::byte *result) {
  // Parts of booleans of which at most one is true: a gather's, say, of a table
  // that is split.
  if (dtype == DType::BOOL && reduction == Reduction::Sum)
    reduction = Reduction::Max;
  switch (reduction) {
  case Reduction::Sum:
    return reduceWith<SumOf>(dtype, sources, elements, result);
  case Reduction::Max:
    return reduceWith<MaxOf>(dtype, sources, elements, result);
  case Reduction::Min:
    return reduceWith<MinOf>(dtype, sources, elements, result);
  case Reduction::None:
    return;
  }
}

} // namespace polyrank::runtime
