// Rows of bf16 and f16, converted to f32 and back. The same source is compiled
// for several sets of vector instructions, all of which give the bits of
// support/Float16.h.

#pragma once

#include "support/ElementType.h"

namespace polyrank::runtime {

/// Conversions of `count` consecutive elements. Rounding is to nearest even.
struct NarrowRows {
  void (*widenBFloat16)(const uint16_t *from, float *to, int64_t count);
  void (*widenFloat16)(const uint16_t *from, float *to, int64_t count);
  void (*roundBFloat16)(const float *from, uint16_t *to, int64_t count);
  void (*roundFloat16)(const float *from, uint16_t *to, int64_t count);

  /// Require bf16 or f16.
  /// @{
  void widen(ElementType type, const void *from, float *to,
             int64_t count) const {
    auto *elements = static_cast<const uint16_t *>(from);
    (type == ElementType::BF16 ? widenBFloat16 : widenFloat16)(elements, to,
                                                               count);
  }
  void round(ElementType type, const float *from, void *to,
             int64_t count) const {
    auto *elements = static_cast<uint16_t *>(to);
    (type == ElementType::BF16 ? roundBFloat16 : roundFloat16)(from, elements,
                                                               count);
  }
  /// @}
};

extern const NarrowRows narrowRowsBase, narrowRowsAvx2, narrowRowsAvx512;

/// Returns those for the best vectors of this machine.
const NarrowRows &narrowRows();

} // namespace polyrank::runtime
