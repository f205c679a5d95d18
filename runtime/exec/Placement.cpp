// Placements of shards in stored tensors and in their transposes.

#include "runtime/exec/Placement.h"

#include <algorithm>
#include <tuple>

namespace polyrank::runtime {

void simplify(Placement &placement) {
  std::vector<Placement::Extent> kept;
  for (Placement::Extent extent : placement.extents) {
    if (extent.count == 1)
      continue;
    if (extent.stored < 0) {
      placement.storedBase += (extent.count - 1) * extent.stored;
      placement.localBase += (extent.count - 1) * extent.local;
      extent.stored = -extent.stored, extent.local = -extent.local;
    }
    kept.push_back(extent);
  }
  std::sort(kept.begin(), kept.end(), [](const auto &a, const auto &b) {
    return std::tie(a.stored, a.local) > std::tie(b.stored, b.local);
  });
  placement.extents.clear();
  for (const Placement::Extent &extent : kept) {
    if (!placement.extents.empty()) {
      Placement::Extent &outer = placement.extents.back();
      if (outer.stored == extent.count * extent.stored &&
          outer.local == extent.count * extent.local) {
        outer = {outer.count * extent.count, extent.stored, extent.local};
        continue;
      }
    }
    placement.extents.push_back(extent);
  }
}

int64_t Placement::elements() const {
  int64_t product = empty ? 0 : 1;
  for (const Extent &extent : extents)
    product *= extent.count;
  return product;
}

Placement placementOf(const Mesh &mesh, int64_t rank,
                      const plan::Argument &argument) {
  return placementOf(blockOf(mesh, rank, argument.dims()), *argument.view());
}

Placement placementOf(const std::vector<BlockDim> &blocks,
                      const plan::View &view) {
  Placement placement;
  placement.storedBase = view.base();
  int64_t local = 1;
  for (size_t d = blocks.size(); d-- > 0;) {
    int64_t stored = view.strides()->Get(d);
    placement.storedBase += blocks[d].start * stored;
    placement.empty |= blocks[d].valid == 0;
    placement.extents.insert(placement.extents.begin(),
                             {blocks[d].valid, stored, local});
    local *= blocks[d].block;
  }
  simplify(placement);
  return placement;
}

std::vector<ShardPiece> piecesOf(const std::vector<BlockDim> &blocks,
                                 int64_t elementBytes, uint64_t mostBytes) {
  size_t outer = 0;
  while (outer < blocks.size() && blocks[outer].block == 1)
    ++outer;
  auto rowBytes = static_cast<uint64_t>(elementBytes);
  for (size_t d = outer + 1; d < blocks.size(); ++d)
    rowBytes *= static_cast<uint64_t>(blocks[d].block);
  if (outer == blocks.size())
    return {{blocks, 0, rowBytes}};
  int64_t rows = blocks[outer].block,
          most = std::max<int64_t>(
              1, static_cast<int64_t>(mostBytes /
                                      std::max<uint64_t>(rowBytes, 1)));
  std::vector<ShardPiece> pieces;
  for (int64_t first = 0; first < rows; first += most) {
    int64_t count = std::min(most, rows - first);
    ShardPiece &piece = pieces.emplace_back(
        ShardPiece{blocks, static_cast<uint64_t>(first) * rowBytes,
                   static_cast<uint64_t>(count) * rowBytes});
    BlockDim &dim = piece.blocks[outer];
    dim.start += first;
    dim.block = count;
    dim.valid = std::clamp<int64_t>(dim.valid - first, 0, count);
  }
  return pieces;
}

Placement placementIn(const std::vector<BlockDim> &blocks, size_t firstDim) {
  Placement placement;
  int64_t local = 1, stored = 1;
  for (size_t d = blocks.size(); d-- > firstDim;) {
    placement.storedBase += blocks[d].start * stored;
    placement.empty |= blocks[d].valid == 0;
    placement.extents.insert(placement.extents.begin(),
                             {blocks[d].valid, stored, local});
    stored *= blocks[d].size;
    local *= blocks[d].block;
  }
  simplify(placement);
  return placement;
}

namespace {

constexpr size_t maxTransposedParts = 1 << 20;

/// Appends to `parts`. Returns false if they become too many.
bool transpose(const Placement &placement, int64_t rows, int64_t columns,
               std::vector<Placement> &parts) {
  // Each extent steps over rows or over columns; together the latter stay
  // within the row in which they begin.
  Placement result;
  result.empty = placement.empty;
  result.localBase = placement.localBase;
  int64_t column = placement.storedBase % columns;
  result.storedBase = column * rows + placement.storedBase / columns;
  for (size_t e = 0; e < placement.extents.size(); ++e) {
    const Placement::Extent &extent = placement.extents[e];
    if (extent.stored % columns == 0) {
      result.extents.push_back(
          {extent.count, extent.stored / columns, extent.local});
      continue;
    }
    int64_t reach = column - placement.storedBase % columns;
    column += (extent.count - 1) * extent.stored;
    if (column < columns) {
      result.extents.push_back(
          {extent.count, extent.stored * rows, extent.local});
      continue;
    }
    // The extent leaves the row: whole rows become an extent of their own,
    // everything else is split by rows.
    Placement part = placement;
    int64_t perRow = columns / extent.stored;
    if (placement.storedBase % columns == 0 && columns % extent.stored == 0 &&
        extent.count % perRow == 0) {
      part.extents[e] = {perRow, extent.stored, extent.local};
      part.extents.insert(
          part.extents.begin() + static_cast<ptrdiff_t>(e),
          {extent.count / perRow, columns, perRow * extent.local});
      return transpose(part, rows, columns, parts);
    }
    for (int64_t i = 0; i < extent.count; i += part.extents[e].count) {
      part.storedBase = placement.storedBase + i * extent.stored;
      part.localBase = placement.localBase + i * extent.local;
      int64_t left = columns - 1 - part.storedBase % columns - reach;
      part.extents[e].count =
          std::min(extent.count - i, left < 0 ? 1 : left / extent.stored + 1);
      if (!transpose(part, rows, columns, parts))
        return false;
    }
    return true;
  }
  simplify(result);
  parts.push_back(std::move(result));
  return parts.size() < maxTransposedParts;
}

} // namespace

Result<std::vector<Placement>> transposed(const Placement &placement,
                                          int64_t rows, int64_t columns) {
  std::vector<Placement> parts;
  if (!transpose(placement, rows, columns, parts))
    return Error{"a shard of a matrix of " + std::to_string(rows) + " x " +
                 std::to_string(columns) +
                 " elements, which its file holds the other way round, lies "
                 "there in a million pieces or more"};
  return parts;
}

} // namespace polyrank::runtime
