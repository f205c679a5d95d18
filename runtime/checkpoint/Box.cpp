// Intersection, difference, and the proof that boxes tile a tensor.

#include "runtime/checkpoint/Box.h"

#include <algorithm>
#include <random>

namespace polyrank::runtime {

Box wholeBox(std::span<const int64_t> shape) {
  return {std::vector<int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
}

std::optional<Box> intersect(const Box &a, const Box &b) {
  Box both = a;
  for (size_t d = 0; d < a.offsets.size(); ++d) {
    int64_t end =
        std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    both.offsets[d] = std::max(a.offsets[d], b.offsets[d]);
    both.sizes[d] = end - both.offsets[d];
    if (both.sizes[d] <= 0)
      return std::nullopt;
  }
  return both;
}

std::vector<Box> subtract(const Box &whole, std::span<const Box> parts) {
  std::vector<Box> left{whole};
  for (const Box &part : parts) {
    std::vector<Box> next;
    for (Box &box : left) {
      std::optional<Box> both = intersect(box, part);
      if (!both) {
        next.push_back(std::move(box));
        continue;
      }
      // The parts of the box before and after the intersection, dim by dim.
      for (size_t d = 0; d < box.sizes.size(); ++d) {
        int64_t begin = both->offsets[d], end = begin + both->sizes[d],
                boxEnd = box.offsets[d] + box.sizes[d];
        if (box.offsets[d] < begin) {
          Box before = box;
          before.sizes[d] = begin - box.offsets[d];
          next.push_back(std::move(before));
        }
        if (end < boxEnd) {
          Box behind = box;
          behind.offsets[d] = end;
          behind.sizes[d] = boxEnd - end;
          next.push_back(std::move(behind));
        }
        box.offsets[d] = begin;
        box.sizes[d] = both->sizes[d];
      }
    }
    left = std::move(next);
  }
  return left;
}

namespace {

/// Arithmetic modulo the prime 2^61 - 1.
/// @{
constexpr uint64_t prime = (uint64_t(1) << 61) - 1;

uint64_t multiply(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % prime);
}
uint64_t subtractModulo(uint64_t a, uint64_t b) {
  return (a + prime - b) % prime;
}
/// @}

std::mt19937_64 newGenerator() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  return std::mt19937_64(seed);
}

} // namespace

Result<void> checkTiling(std::span<const int64_t> shape,
                         std::span<const Box> boxes) {
  int64_t all = 1, sum = 0;
  for (int64_t size : shape)
    all *= size;
  for (const Box &box : boxes) {
    // The sum may overflow: overlapping boxes may have any number of elements.
    if (__builtin_add_overflow(sum, box.elements(), &sum) || sum > all)
      return Error{"some elements are there more than once"};
  }
  if (sum < all)
    return Error{"elements are missing"};
  // The number of boxes that cover each element is a function over the tensor,
  // which is one everywhere if and only if its mixed differences are those of
  // the whole tensor: a box contributes +1 or -1 at each of its corners, and
  // these cancel where boxes meet. With a variable for each coordinate of each
  // dim, a corner is a product of variables, and the sum over the corners of a
  // box is the product over the dims of (variable of its begin - variable of
  // its end). The sum of these products over the boxes, minus that of the whole
  // tensor, is the zero polynomial if and only if the boxes tile the tensor.
  // Its degree is the rank, at most 32, so at random values of the variables a
  // nonzero polynomial evaluates to zero with a probability of at most 32 /
  // 2^61 (Schwartz 1980, Zippel 1979). The values are drawn anew for each call,
  // so that the author of a manifest cannot know them.
  std::mt19937_64 generator = newGenerator();
  std::vector<uint64_t> products(boxes.size(), 1);
  uint64_t whole = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> ends{0, shape[d]};
    for (const Box &box : boxes) {
      ends.push_back(box.offsets[d]);
      ends.push_back(box.offsets[d] + box.sizes[d]);
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    std::vector<uint64_t> values(ends.size());
    std::uniform_int_distribution<uint64_t> anyValue(0, prime - 1);
    for (uint64_t &value : values)
      value = anyValue(generator);
    auto valueOf = [&](int64_t end) {
      return values[std::lower_bound(ends.begin(), ends.end(), end) -
                    ends.begin()];
    };
    auto difference = [&](int64_t begin, int64_t end) {
      return subtractModulo(valueOf(begin), valueOf(end));
    };
    for (size_t b = 0; b < boxes.size(); ++b)
      products[b] = multiply(
          products[b], difference(boxes[b].offsets[d],
                                  boxes[b].offsets[d] + boxes[b].sizes[d]));
    whole = multiply(whole, difference(0, shape[d]));
  }
  uint64_t rest = whole;
  for (uint64_t product : products)
    rest = subtractModulo(rest, product);
  if (rest != 0)
    return Error{
        "some elements are there more than once, and others not at all"};
  return {};
}

std::vector<int64_t> stridesOf(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

} // namespace polyrank::runtime
