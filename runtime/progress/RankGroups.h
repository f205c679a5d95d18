// Meshes, and groups of ranks as functions of a rank's coordinates.
//
// Free of MLIR: this holds for any programs that communicate.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::progress {

/// `size` consecutive coordinates of mesh axis number `axis`, after the `pre`
/// most major ones (dialects/sharding/Axis.h). The whole axis is {axis, 1, n}.
struct SubAxis {
  int32_t axis = 0;
  int64_t pre = 1;
  int64_t size = 1;

  friend bool operator==(const SubAxis &, const SubAxis &) = default;
};

/// A group of communicating ranks, as seen by one rank: the ranks that differ
/// from it in `axes` only, ordered by their index over them, major to minor.
/// With `members`, only the ranks with these indices, in this order: {pipe: 0,
/// 1} is the first two stages, and {pipe: 1, 0} has the same ranks in the other
/// order, which makes another group. Groups of different channels are
/// independent, even if their ranks are the same: transfers of different
/// values, each through memory of its own, may come in any order.
struct Group {
  std::vector<SubAxis> axes;
  std::vector<int64_t> members = {};
  int64_t channel = 0;

  friend bool operator==(const Group &, const Group &) = default;
};

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

/// A mesh of ranks. The coordinates of rank r are the mixed-radix digits of r
/// over the axes, the first axis the most major.
class Mesh {
public:
  explicit Mesh(std::vector<MeshAxis> axes = {});

  int64_t getNumRanks() const { return numRanks; }
  const std::vector<MeshAxis> &getAxes() const { return axes; }

  int64_t getCoordinate(int64_t rank, int32_t axis) const {
    return rank / strides[axis] % axes[axis].size;
  }
  /// The rank whose coordinate along `axis` is replaced.
  int64_t replaceCoordinate(int64_t rank, int32_t axis,
                            int64_t coordinate) const {
    return rank + (coordinate - getCoordinate(rank, axis)) * strides[axis];
  }

  /// The rank of the group that has index 0 over its axes. It is the same for
  /// all ranks of a group, and differs between groups over the same axes.
  int64_t getBase(int64_t rank, const Group &group) const;
  /// The group's ranks in its order; -1 for each index in `members` that the
  /// axes do not have.
  std::vector<int64_t> getRanks(int64_t rank, const Group &group) const;

  /// `rank 3 (data=1,tensor=1)`.
  std::string describeRank(int64_t rank) const;

private:
  int64_t getWeight(const SubAxis &part) const {
    return strides[part.axis] * (axes[part.axis].size / (part.pre * part.size));
  }

  std::vector<MeshAxis> axes;
  std::vector<int64_t> strides; // of the rank number, by axis
  int64_t numRanks = 1;
};

} // namespace polyrank::progress
