// Meshes, and groups of ranks as functions of a rank's coordinates.
//
// Without MLIR: what is said here holds of any programs that communicate.

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

/// Those who communicate, as seen by a rank: the ranks that differ from it in
/// `axes` only, by their index over them, major to minor. With `members`, of
/// these the ones with such an index, in this order: {pipe: 0, 1} is the first
/// two stages, and {pipe: 1, 0} the same ranks in the other order, which is
/// another group. Groups of other channels have nothing to do with each other,
/// also those of the same ranks: transfers of different values, each through
/// memory of its own, may come in any order.
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

/// Rank r has the mixed-radix digits of r over the axes, the first axis the
/// most major.
class Mesh {
public:
  explicit Mesh(std::vector<MeshAxis> axes = {});

  int64_t getNumRanks() const { return numRanks; }
  const std::vector<MeshAxis> &getAxes() const { return axes; }

  int64_t getCoordinate(int64_t rank, int32_t axis) const {
    return rank / strides[axis] % axes[axis].size;
  }
  /// The rank with another coordinate along one axis.
  int64_t replaceCoordinate(int64_t rank, int32_t axis,
                            int64_t coordinate) const {
    return rank + (coordinate - getCoordinate(rank, axis)) * strides[axis];
  }

  /// The rank of the group that has index 0 over its axes. All ranks of a group
  /// have the same, and those of other groups over these axes another.
  int64_t getBase(int64_t rank, const Group &group) const;
  /// The group's ranks in its order. An index in `members` that the axes do not
  /// have is -1.
  std::vector<int64_t> getRanks(int64_t rank, const Group &group) const;

  /// `rank 3 (data=1,tensor=1)`.
  std::string describeRank(int64_t rank) const;

private:
  int64_t getWeight(const SubAxis &part) const {
    return strides[part.axis] * (axes[part.axis].size / (part.pre * part.size));
  }

  std::vector<MeshAxis> axes;
  std::vector<int64_t> strides; // of a rank's number
  int64_t numRanks = 1;
};

} // namespace polyrank::progress
