// A literal transcription of the formulas at plan::Transfer.

#include "test/runtime/comm/ReferenceCollective.h"

#include "support/Float16.h"

#include <algorithm>
#include <cstdlib>

namespace polyrank::runtime::test {
namespace {

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15;
  return value ^ (value >> 29);
}

template <typename T>
void store(Bytes &bytes, int64_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}
template <typename T>
T load(const Bytes &bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
T combine(Reduction reduction, T a, T b) {
  if (reduction == Reduction::Sum)
    return static_cast<T>(a + b);
  if (reduction == Reduction::Max)
    return std::max(a, b);
  return std::min(a, b);
}

template <typename T>
void reduceElement(Reduction reduction, const std::vector<Bytes> &inputs,
                   int64_t from, Bytes &output, int64_t to) {
  T result = load<T>(inputs[0], from);
  for (size_t p = 1; p < inputs.size(); ++p)
    result = combine(reduction, result, load<T>(inputs[p], from));
  store(output, to, result);
}

void reduceElement(ElementType dtype, Reduction reduction,
                   const std::vector<Bytes> &inputs, int64_t from,
                   Bytes &output, int64_t to) {
  switch (dtype) {
  case ElementType::F32:
    return reduceElement<float>(reduction, inputs, from, output, to);
  case ElementType::F64:
    return reduceElement<double>(reduction, inputs, from, output, to);
  case ElementType::I8:
    return reduceElement<int8_t>(reduction, inputs, from, output, to);
  case ElementType::U8:
    return reduceElement<uint8_t>(reduction, inputs, from, output, to);
  case ElementType::BOOL: // a sum of booleans is their disjunction
    return reduceElement<uint8_t>(reduction == Reduction::Sum ? Reduction::Max
                                                              : reduction,
                                  inputs, from, output, to);
  case ElementType::I32:
    return reduceElement<int32_t>(reduction, inputs, from, output, to);
  case ElementType::I64:
    return reduceElement<int64_t>(reduction, inputs, from, output, to);
  case ElementType::BF16:
  case ElementType::F16: {
    bool brain = dtype == ElementType::BF16;
    float result = 0;
    for (size_t p = 0; p < inputs.size(); ++p) {
      uint16_t bits = load<uint16_t>(inputs[p], from);
      float value = brain ? floatFromBFloat16(bits) : floatFromFloat16(bits);
      result = p == 0 ? value : combine(reduction, result, value);
    }
    store(output, to,
          brain ? bfloat16FromFloat(result) : float16FromFloat(result));
    return;
  }
  default:
    std::abort(); // no collective has such elements
  }
}

} // namespace

Bytes makeInput(ElementType dtype, int64_t elements, int rank, uint64_t salt) {
  Bytes bytes(elements * bytesOf(dtype));
  for (int64_t e = 0; e < elements; ++e) {
    uint64_t random = mix(e * 1000003 + rank * 7919 + salt * 104729 + 1);
    double fraction = static_cast<double>(random >> 11) * 0x1p-52 - 1;
    int64_t integer = static_cast<int64_t>(random % 21) - 10;
    switch (dtype) {
    case ElementType::F32:
      store(bytes, e, static_cast<float>(fraction));
      break;
    case ElementType::F64:
      store(bytes, e, fraction);
      break;
    case ElementType::BF16:
      store(bytes, e, bfloat16FromFloat(static_cast<float>(fraction)));
      break;
    case ElementType::F16:
      store(bytes, e, float16FromFloat(static_cast<float>(fraction)));
      break;
    case ElementType::I8:
      store(bytes, e, static_cast<int8_t>(integer));
      break;
    case ElementType::U8:
      store(bytes, e, static_cast<uint8_t>(integer + 10));
      break;
    case ElementType::BOOL:
      store(bytes, e, static_cast<uint8_t>(integer & 1));
      break;
    case ElementType::I32:
      store(bytes, e, static_cast<int32_t>(integer * 1000001));
      break;
    case ElementType::I64:
      store(bytes, e, integer * 1000000000001);
      break;
    default:
      std::abort(); // no collective has such elements
    }
  }
  return bytes;
}

int64_t inputElements(const Collective &collective, const Transfer &t,
                      int members) {
  int64_t all = t.outer * t.x * t.middle * t.y * t.inner;
  if (collective.kind == CollectiveKind::HaloAdd)
    return t.outer * (t.low + t.inner + t.high);
  return collective.kind == CollectiveKind::ReduceScatter ? all * members : all;
}

int64_t outputElements(const Collective &collective, const Transfer &t,
                       int members) {
  int64_t all = t.outer * t.x * t.middle * t.y * t.inner;
  if (collective.kind == CollectiveKind::Halo)
    return t.outer * (t.low + t.inner + t.high);
  return collective.kind == CollectiveKind::AllGather ? all * members : all;
}

Bytes referenceOutput(const Collective &c, const Transfer &t,
                      const std::vector<Bytes> &in, int me) {
  int64_t g = static_cast<int64_t>(in.size());
  int64_t element = bytesOf(c.dtype);
  Bytes out(outputElements(c, t, static_cast<int>(g)) * element);
  auto copy = [&](int64_t to, int64_t p, int64_t from) {
    std::memcpy(out.data() + to * element, in[p].data() + from * element,
                element);
  };
  switch (c.kind) {
  case CollectiveKind::AllReduce:
    for (int64_t e = 0; e < t.inner; ++e)
      reduceElement(c.dtype, c.reduction, in, e, out, e);
    break;
  case CollectiveKind::ReduceScatter:
    for (int64_t o = 0; o < t.outer; ++o)
      for (int64_t i = 0; i < t.inner; ++i)
        reduceElement(c.dtype, c.reduction, in, (o * g + me) * t.inner + i, out,
                      o * t.inner + i);
    break;
  case CollectiveKind::AllGather:
    for (int64_t o = 0; o < t.outer; ++o)
      for (int64_t p = 0; p < g; ++p)
        for (int64_t i = 0; i < t.inner; ++i)
          copy((o * g + p) * t.inner + i, p, o * t.inner + i);
    break;
  case CollectiveKind::Permute:
    for (int64_t i = 0; i < t.inner; ++i)
      copy(i, c.permutation[me], i);
    break;
  case CollectiveKind::Broadcast:
    for (int64_t i = 0; i < t.inner; ++i)
      copy(i, 0, i);
    break;
  case CollectiveKind::Halo:
    // Elements that are not written keep their values.
    std::fill(out.begin(), out.end(), std::byte(0xcd));
    for (int64_t o = 0; o < t.outer; ++o)
      for (int64_t i = 0; i < t.low + t.inner + t.high; ++i) {
        int64_t at = me * t.inner + i - t.low;
        if (at >= 0 && at < g * t.inner)
          copy(o * (t.low + t.inner + t.high) + i, at / t.inner,
               o * t.inner + at % t.inner);
      }
    break;
  case CollectiveKind::HaloAdd:
    for (int64_t o = 0; o < t.outer; ++o)
      for (int64_t i = 0; i < t.inner; ++i) {
        std::vector<Bytes> terms;
        int64_t wide = t.low + t.inner + t.high;
        for (int64_t p = 0; p < g; ++p)
          if (int64_t at = (me - p) * t.inner + i + t.low; at >= 0 && at < wide)
            terms.emplace_back(in[p].begin() + (o * wide + at) * element,
                               in[p].begin() + (o * wide + at + 1) * element);
        reduceElement(c.dtype, c.reduction, terms, 0, out, o * t.inner + i);
      }
    break;
  case CollectiveKind::AllToAll: {
    // out[o, a, m, b, i], of outX x outY
    int64_t outX = t.splitFirst ? t.x / g : t.x * g;
    int64_t outY = t.splitFirst ? t.y * g : t.y / g;
    for (int64_t o = 0; o < t.outer; ++o)
      for (int64_t a = 0; a < outX; ++a)
        for (int64_t m = 0; m < t.middle; ++m)
          for (int64_t b = 0; b < outY; ++b)
            for (int64_t i = 0; i < t.inner; ++i) {
              int64_t p = t.splitFirst ? b / t.y : a / t.x;
              int64_t x = t.splitFirst ? me * outX + a : a % t.x;
              int64_t y = t.splitFirst ? b % t.y : me * outY + b;
              copy((((o * outX + a) * t.middle + m) * outY + b) * t.inner + i,
                   p, (((o * t.x + x) * t.middle + m) * t.y + y) * t.inner + i);
            }
    break;
  }
  }
  return out;
}

} // namespace polyrank::runtime::test
