// Boxes: the parts of a tensor that are a range in each dim.

#pragma once

#include "support/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace polyrank::runtime {

/// The elements whose index in dim d is in [offsets[d], offsets[d] + sizes[d]).
/// For a scalar both vectors are empty.
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

/// Returns the box that covers the whole tensor.
Box wholeBox(std::span<const int64_t> shape);

/// Returns the intersection of two boxes of one tensor, or nothing if it is
/// empty.
std::optional<Box> intersect(const Box &a, const Box &b);

/// Returns disjoint boxes that cover the elements of `whole` outside all
/// `parts`.
std::vector<Box> subtract(const Box &whole, std::span<const Box> parts);

/// Fails unless each element of a tensor of this shape is in exactly one of the
/// boxes, which must lie within it and not be empty. The message says what is
/// wrong: "elements are missing". For n boxes of any rank it takes O(n log n)
/// time and O(n) memory. An overlap together with a hole of the same size is
/// seen only by the randomized part of the check, which misses it with a
/// probability of at most 32 / 2^61.
Result<void> checkTiling(std::span<const int64_t> shape,
                         std::span<const Box> boxes);

/// Row-major strides, in elements.
std::vector<int64_t> stridesOf(std::span<const int64_t> shape);

} // namespace polyrank::runtime
