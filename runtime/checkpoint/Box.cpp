// Intersection, difference, and the proof that boxes tile a tensor.

#include "runtime/checkpoint/Box.h"

#include <algorithm>
#include <map>

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
      // What is before and behind it, dim by dim.
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

Result<void> checkTiling(std::span<const int64_t> shape,
                         std::span<const Box> boxes) {
  int64_t all = 1, sum = 0;
  for (int64_t size : shape)
    all *= size;
  std::vector<size_t> split; // dims that some box has a part of
  for (size_t d = 0; d < shape.size(); ++d)
    if (std::any_of(boxes.begin(), boxes.end(), [&](const Box &box) {
          return box.sizes[d] != shape[d];
        }))
      split.push_back(d);
  // A box has two to the power of this many corners.
  constexpr size_t mostSplit = 10;
  if (split.size() > mostSplit)
    return Error{"more than 10 of its dims are split"};
  for (const Box &box : boxes) {
    // Saturates: boxes that lie on each other may have any number of elements.
    if (__builtin_add_overflow(sum, box.elements(), &sum) || sum > all)
      return Error{"some elements are there more than once"};
  }
  if (sum < all)
    return Error{"elements are missing"};
  // How often each element is there is a function over the tensor, and equals
  // one everywhere if and only if its mixed differences do: a box contributes
  // +1 or -1 at each of its corners, and where boxes meet these cancel.
  std::map<std::vector<int64_t>, int64_t> corners;
  auto add = [&](const Box &box, int64_t sign) {
    for (uint64_t corner = 0; corner < uint64_t(1) << split.size(); ++corner) {
      std::vector<int64_t> at;
      int64_t each = sign;
      for (size_t s = 0; s < split.size(); ++s) {
        bool end = corner >> s & 1;
        at.push_back(box.offsets[split[s]] + (end ? box.sizes[split[s]] : 0));
        each = end ? -each : each;
      }
      auto place = corners.try_emplace(std::move(at), 0).first;
      if ((place->second += each) == 0)
        corners.erase(place);
    }
  };
  for (const Box &box : boxes)
    add(box, 1);
  if (all > 0)
    add(wholeBox(shape), -1);
  if (!corners.empty())
    return Error{"some elements are there more than once, and others not at all"};
  return {};
}

std::vector<int64_t> stridesOf(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

} // namespace polyrank::runtime
