// Parts of a tensor that are ranges in each of its dims.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// The elements whose index in dim d is in [offsets[d], offsets[d] + sizes[d]).
/// Of a scalar both are empty.
struct Box {
  std::vector<int64_t> offsets, sizes;

  int64_t elements() const {
    int64_t product = 1;
    for (int64_t size : sizes)
      product *= size;
    return product;
  }
  bool operator==(const Box &) const = default;
};

/// All of a tensor.
Box wholeBox(std::span<const int64_t> shape);

/// What both have, of boxes of one tensor; nothing where that is empty.
std::optional<Box> intersect(const Box &a, const Box &b);

/// Disjoint boxes of what is in `whole` and in none of `parts`.
std::vector<Box> subtract(const Box &whole, std::span<const Box> parts);

/// Fails unless each element of a tensor of this shape is in exactly one of the
/// boxes, which lie within it and are not empty. The message says what is
/// wrong: "elements are missing". Takes time of n log n and memory of n for n
/// boxes of any rank. An overlap beside a hole of the same size, which only the
/// random part of the check sees, is missed with a probability of at most 32 /
/// 2^61.
Result<void> checkTiling(std::span<const int64_t> shape,
                         std::span<const Box> boxes);

/// Row-major strides, in elements.
std::vector<int64_t> stridesOf(std::span<const int64_t> shape);

} // namespace polyrank::runtime
