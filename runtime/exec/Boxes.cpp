// Splits placements along the dims of their tensors.

#include "runtime/exec/Boxes.h"

#include <algorithm>

namespace polyrank::runtime {
namespace {

constexpr size_t mostBoxes = 1 << 20;

class Decomposer {
public:
  Decomposer(std::span<const int64_t> shape)
      : shape(shape), strides(stridesOf(shape)) {}

  /// Returns false if there would be too many boxes.
  bool add(int64_t stored, int64_t local,
           std::vector<Placement::Extent> extents) {
    std::vector<int64_t> index = indexOf(stored), reach = index;
    std::vector<std::vector<size_t>> along(shape.size());
    for (size_t e = 0; e < extents.size(); ++e) {
      const Placement::Extent extent = extents[e];
      if (extent.count == 1 || extent.stored == 0)
        continue;
      size_t d = 0;
      while (d + 1 < shape.size() &&
             (shape[d] == 1 || strides[d] > extent.stored))
        ++d;
      int64_t step = extent.stored / strides[d];
      if (extent.stored % strides[d] != 0)
        return addEach(stored, local, extents, e, 1);
      if (reach[d] + (extent.count - 1) * step < shape[d]) {
        reach[d] += (extent.count - 1) * step;
        along[d].push_back(e);
        continue;
      }
      // The extent crosses into the next index of the previous dim.
      if (!along[d].empty())
        return addEach(stored, local, extents, along[d].front(), 1);
      int64_t row =
          (shape[d] - 1 - index[d]) / step + 1; // steps in the first row
      bool isWhole = index[d] == 0 && shape[d] % step == 0;
      if (isWhole && extent.count % row == 0) {
        extents[e] = {row, extent.stored, extent.local};
        extents.insert(
            extents.begin() + static_cast<ptrdiff_t>(e),
            {extent.count / row, row * extent.stored, row * extent.local});
        return add(stored, local, std::move(extents));
      }
      int64_t first = isWhole ? extent.count / row * row : row;
      return addPart(stored, local, extents, e, 0, first) &&
             addPart(stored, local, extents, e, first, extent.count - first);
    }
    return finish(stored, local, extents, index, along);
  }

  std::vector<LocalBox> boxes;

private:
  std::vector<int64_t> indexOf(int64_t stored) const {
    std::vector<int64_t> index(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      index[d] = stored / strides[d] % shape[d];
    }
    return index;
  }

  bool addPart(int64_t stored, int64_t local,
               std::vector<Placement::Extent> extents, size_t e, int64_t from,
               int64_t count) {
    stored += from * extents[e].stored;
    local += from * extents[e].local;
    extents[e].count = count;
    return add(stored, local, std::move(extents));
  }

  bool addEach(int64_t stored, int64_t local,
               const std::vector<Placement::Extent> &extents, size_t e,
               int64_t count) {
    for (int64_t i = 0; i < extents[e].count; i += count)
      if (!addPart(stored, local, extents, e, i, count))
        return false;
    return true;
  }

  /// All extents stay within a dim. One extent of each dim may become a side of
  /// a box, if it steps from element to element.
  bool finish(int64_t stored, int64_t local,
              const std::vector<Placement::Extent> &extents,
              const std::vector<int64_t> &index,
              const std::vector<std::vector<size_t>> &along) {
    LocalBox box{{index, std::vector<int64_t>(shape.size(), 1)},
                 local,
                 std::vector<int64_t>(shape.size(), 0)};
    for (size_t d = 0; d < shape.size(); ++d)
      for (size_t e : along[d]) {
        if (extents[e].stored != strides[d])
          return addEach(stored, local, extents, e, 1);
        box.box.sizes[d] = extents[e].count;
        box.localStrides[d] = extents[e].local;
      }
    boxes.push_back(std::move(box));
    return boxes.size() < mostBoxes;
  }

  std::span<const int64_t> shape;
  std::vector<int64_t> strides;
};

} // namespace

Result<std::vector<LocalBox>> boxesOf(const Placement &placement,
                                      std::span<const int64_t> shape) {
  if (placement.empty)
    return std::vector<LocalBox>();
  Decomposer decomposer(shape);
  if (!decomposer.add(placement.storedBase, placement.localBase,
                      placement.extents))
    return Error{"a shard lies in a million pieces or more of its tensor"};
  return std::move(decomposer.boxes);
}

Placement placementWithin(const Box &box, const LocalBox &local,
                          const Box &common) {
  Placement placement;
  std::vector<int64_t> strides = stridesOf(box.sizes);
  placement.localBase = local.localBase;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    placement.storedBase += (common.offsets[d] - box.offsets[d]) * strides[d];
    placement.localBase +=
        (common.offsets[d] - local.box.offsets[d]) * local.localStrides[d];
    placement.extents.push_back(
        {common.sizes[d], strides[d], local.localStrides[d]});
  }
  simplify(placement);
  return placement;
}

} // namespace polyrank::runtime
