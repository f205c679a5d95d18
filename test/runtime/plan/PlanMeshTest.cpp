// The coordinates of ranks in a mesh and their blocks, with axes that are split
// into sub-axes: against the definitions, rank by rank.

#include "runtime/plan/PlanMesh.h"
#include "test/runtime/plan/Lies.h"

#include <map>
#include <set>

namespace polyrank::runtime::test {
namespace {

/// A verified plan on data=2, tensor=12, whose first group is `refs` and whose
/// first argument has one dim, of `size` elements, split over them.
class LaidOut {
public:
  LaidOut(const std::vector<AxisRef> &refs, int64_t size = 100) {
    int64_t blocks = 1;
    for (const AxisRef &ref : refs)
      blocks *= ref.size();
    PlanT plan = goodPlan();
    plan.mesh[1]->size = 12;
    programOf(plan).groups[0]->axes = refs;
    programOf(plan).private_size = 4096;
    ArgumentT &argument = argumentOf(plan, 0);
    argument.role = Role::State;
    argument.view.reset();
    argument.dims.resize(1);
    argument.dims[0]->axes = refs;
    argument.dims[0]->size = size;
    argument.dims[0]->padded = (size + blocks - 1) / blocks * blocks;
    *argument.buffer = bufferAt(1024, 4 * argument.dims[0]->padded / blocks);
    bytes = serialise(plan);
    expectAccepted(plan);
    root = GetPlan(bytes.data());
  }
  const AxisRefs *refs() const {
    return root->programs()->Get(0)->groups()->Get(0)->axes();
  }
  const Dims *dims() const {
    return root->programs()->Get(0)->arguments()->Get(0)->dims();
  }
  Mesh mesh() const { return Mesh(*root); }

private:
  std::vector<uint8_t> bytes;
  const Plan *root;
};

// Coordinates of rank 12 d + t, where t is 6 a + 2 b + c, are d and t; t's
// digits over (1)2, (2)3 and (6)2 are a, b and c.
TEST(Mesh, DigitsOfSubAxesAreTakenFromTheMostMajorOn) {
  LaidOut laid({{1, 2, 3}, {0, 1, 2}, {1, 6, 2}});
  Mesh mesh = laid.mesh();
  ASSERT_EQ(mesh.ranks(), 24);
  for (int64_t d = 0; d < 2; ++d)
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 3; ++b)
        for (int64_t c = 0; c < 2; ++c) {
          int64_t rank = 12 * d + 6 * a + 2 * b + c;
          EXPECT_EQ(mesh.coordinate(rank, 0), d);
          EXPECT_EQ(mesh.coordinate(rank, 1), 6 * a + 2 * b + c);
          EXPECT_EQ(mesh.digit(rank, AxisRef(1, 1, 2)), a);
          EXPECT_EQ(mesh.digit(rank, AxisRef(1, 2, 3)), b);
          EXPECT_EQ(mesh.digit(rank, AxisRef(1, 6, 2)), c);
          EXPECT_EQ(mesh.linearIndex(rank, laid.refs()), (b * 2 + d) * 2 + c);
        }
  EXPECT_EQ(Mesh::groupSize(laid.refs()), 12);
  EXPECT_EQ(mesh.describe(laid.refs()), "tensor:(2)3,data,tensor:(6)2");
  EXPECT_EQ(mesh.describeRank(17), "rank 17 (data=1,tensor=5)");
}

TEST(Mesh, AGroupIsTheRanksThatDifferOnlyOverItsAxesByTheirIndex) {
  for (std::vector<AxisRef> refs : {std::vector<AxisRef>{},
                                    {{1, 1, 12}},
                                    {{1, 2, 3}},
                                    {{1, 6, 2}, {1, 1, 2}},
                                    {{1, 2, 3}, {0, 1, 2}, {1, 6, 2}}}) {
    LaidOut laid(refs);
    Mesh mesh = laid.mesh();
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      std::vector<uint32_t> group = mesh.group(rank, laid.refs());
      ASSERT_EQ(int64_t(group.size()), Mesh::groupSize(laid.refs()));
      EXPECT_EQ(group[mesh.linearIndex(rank, laid.refs())], rank);
      for (size_t i = 0; i < group.size(); ++i) {
        EXPECT_EQ(mesh.linearIndex(group[i], laid.refs()), int64_t(i));
        EXPECT_EQ(mesh.group(group[i], laid.refs()), group);
      }
      EXPECT_EQ(std::set<uint32_t>(group.begin(), group.end()).size(),
                group.size());
    }
  }
}

TEST(Layout, EveryBlockHasOneOwnerAndBlocksTileTheDim) {
  for (std::vector<AxisRef> refs : {std::vector<AxisRef>{},
                                    {{0, 1, 2}},
                                    {{1, 1, 2}},
                                    {{1, 6, 2}},
                                    {{1, 2, 3}},
                                    {{1, 6, 2}, {1, 1, 2}},
                                    {{1, 2, 3}, {0, 1, 2}}})
    for (int64_t size : {1, 12, 100}) {
      LaidOut laid(refs, size);
      Mesh mesh = laid.mesh();
      std::map<int64_t, int> owners; // by the block's start
      int64_t valid = 0, blocks = Mesh::groupSize(laid.refs());
      for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
        BlockDim block = blockOf(mesh, rank, laid.dims())[0];
        EXPECT_EQ(block.size, size);
        EXPECT_EQ(block.block, (size + blocks - 1) / blocks);
        EXPECT_EQ(block.start,
                  mesh.linearIndex(rank, laid.refs()) * block.block);
        if (ownsBlock(mesh, rank, laid.dims())) {
          ++owners[block.start];
          valid += block.valid;
        }
      }
      EXPECT_EQ(valid, size);
      EXPECT_EQ(int64_t(owners.size()), blocks);
      for (auto [start, count] : owners)
        EXPECT_EQ(count, 1) << "block at " << start;
    }
}

TEST(Layout, IsDescribedWithItsPaddingAndAxes) {
  LaidOut split({{1, 2, 3}, {0, 1, 2}}), whole({});
  EXPECT_EQ(describeLayout(split.mesh(), split.dims()),
            "[100 pad 102 {tensor:(2)3,data}]");
  EXPECT_EQ(describeLayout(whole.mesh(), whole.dims()), "[100]");
  EXPECT_EQ(describeLayout(whole.mesh(), nullptr), "[]");
}

} // namespace
} // namespace polyrank::runtime::test
