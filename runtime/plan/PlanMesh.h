// The coordinates of a rank in the mesh, and the block of a tensor that it
// holds.

#pragma once

#include "runtime/plan/plan_generated.h"
#include "support/ElementType.h"

#include <cstdint>
#include <string>
#include <vector>

namespace polyrank::runtime {

using AxisRefs = flatbuffers::Vector<const plan::AxisRef *>;

/// The bytes of one element.
inline uint32_t elementSize(plan::ElementType type) {
  return static_cast<uint32_t>(bytesOf(static_cast<ElementType>(type)));
}

/// The mesh of a verified plan: rank r has the mixed-radix digits of r over the
/// axes, the first axis the most major.
class Mesh {
public:
  explicit Mesh(const plan::Plan &plan);

  int64_t ranks() const { return total; }
  int64_t axes() const { return sizes.size(); }
  const std::string &name(int64_t axis) const { return names[axis]; }
  int64_t size(int64_t axis) const { return sizes[axis]; }
  /// The difference of the numbers of ranks whose coordinates differ by 1 on
  /// this axis.
  int64_t stride(int64_t axis) const { return strides[axis]; }
  int64_t coordinate(int64_t rank, int64_t axis) const;

  /// The rank's digit over one (sub-)axis.
  int64_t digit(int64_t rank, const plan::AxisRef &ref) const;
  /// The rank's mixed-radix index over a list of axes; null is the empty list.
  int64_t linearIndex(int64_t rank, const AxisRefs *refs) const;
  /// The number of indices of a list of axes.
  static int64_t groupSize(const AxisRefs *refs);
  /// The ranks that differ from `rank` only over `refs`, by linear index.
  std::vector<uint32_t> group(int64_t rank, const AxisRefs *refs) const;

  /// Returns `data=2,tensor=(1)2`, for messages and reports.
  std::string describe(const AxisRefs *refs) const;
  /// `rank 3 (data=1,tensor=1)`.
  std::string describeRank(int64_t rank) const;

private:
  std::vector<std::string> names;
  std::vector<int64_t> sizes, strides; // stride: of a rank's number
  int64_t total = 1;
};

/// One dim of a shard: this rank holds `block` elements from `start` on, of
/// which the first `valid` exist and the rest is padding.
struct BlockDim {
  int64_t size, block, start, valid;
};

using Dims = flatbuffers::Vector<flatbuffers::Offset<plan::Dim>>;

/// Returns the rank's block of a tensor with the layout `dims`; null is a
/// scalar.
std::vector<BlockDim> blockOf(const Mesh &mesh, int64_t rank, const Dims *dims);

/// The mesh coordinates of a program's ranks; null means all ranks.
using Places = flatbuffers::Vector<const plan::Place *>;
/// Returns true if the rank has these coordinates.
bool isAt(const Mesh &mesh, int64_t rank, const Places *at);
/// Returns `pipe=1`; empty for all ranks.
std::string describePlaces(const Mesh &mesh, const Places *at);

/// The number of the program that a rank of a verified plan runs.
uint32_t programOf(const plan::Plan &plan, const Mesh &mesh, int64_t rank);
/// The first rank of a program: its coordinates are zero on all axes that `at`
/// does not fix.
int64_t firstRankOf(const Mesh &mesh, const Places *at);
/// The number of ranks that run a program.
int64_t ranksOf(const Mesh &mesh, const Places *at);

/// Returns true if the rank owns its block. Among all ranks of a program that
/// hold the same block, exactly one owns it: the one whose coordinates are zero
/// on all axes that neither the layout uses nor `at` fixes.
bool ownsBlock(const Mesh &mesh, int64_t rank, const Dims *dims,
               const Places *at = nullptr);

/// The index of a rank among those of its program that hold the same block,
/// where the owner is the first, and their count.
struct Replica {
  int64_t index, count;
};
Replica replicaOf(const Mesh &mesh, int64_t rank, const Dims *dims,
                  const Places *at = nullptr);

/// `[50257 pad 50260 {tensor}, 768]`.
std::string describeLayout(const Mesh &mesh, const Dims *dims);

} // namespace polyrank::runtime
