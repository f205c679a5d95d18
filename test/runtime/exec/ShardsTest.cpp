// Shards: every element of a stored tensor reaches its place in the layout, and
// comes back from its owner.

#include "runtime/exec/Shards.h"
#include "test/runtime/PlanBuilder.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

namespace polyrank::runtime::test {
namespace {

ReadBytes readerOf(const std::vector<float> &values) {
  return
      [&values](uint64_t offset, void *into, uint64_t length) -> Result<void> {
        EXPECT_LE(offset + length, 4 * values.size());
        std::memcpy(into,
                    reinterpret_cast<const std::byte *>(values.data()) + offset,
                    length);
        return {};
      };
}

/// The argument of the linear plan with other dims and another view.
struct Case {
  std::vector<int64_t> sizes;             // global
  std::vector<std::vector<int32_t>> axes; // per dim, whole axes
  std::vector<int64_t> strides;
  int64_t base = 0, stored = 0; // elements of the stored tensor
};

void checkRoundTrip(const Case &test) {
  LinearModel model;
  model.data = 2, model.tensor = 3;
  plan::PlanT plan = linearPlan(model);
  plan::ArgumentT &argument = *plan.programs[0]->arguments[0];
  argument.dims.clear();
  for (size_t d = 0; d < test.sizes.size(); ++d) {
    auto dim = std::make_unique<plan::DimT>();
    int64_t blocks = 1;
    for (int32_t axis : test.axes[d]) {
      int64_t size = axis == 0 ? 2 : 3;
      dim->axes.emplace_back(axis, 1, size);
      blocks *= size;
    }
    dim->size = test.sizes[d];
    dim->padded = (test.sizes[d] + blocks - 1) / blocks * blocks;
    argument.dims.push_back(std::move(dim));
  }
  argument.view->strides = test.strides;
  argument.view->base = test.base;
  std::vector<uint8_t> bytes = serialise(plan);
  const plan::Plan &packed = *plan::GetPlan(bytes.data());
  const plan::Argument &layout =
      *packed.programs()->Get(0)->arguments()->Get(0);
  Mesh mesh(packed);

  std::vector<float> tensor(test.stored), saved(test.stored, -1);
  std::iota(tensor.begin(), tensor.end(), 1.0f);
  std::vector<int> writes(test.stored), held(test.stored);
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<BlockDim> blocks = blockOf(mesh, rank, layout.dims());
    int64_t size = 1;
    for (const BlockDim &block : blocks)
      size *= block.block;
    std::vector<float> shard(size, 0);
    Placement placement = placementOf(mesh, rank, layout);
    auto loaded = loadShard(placement, ElementType::F32, readerOf(tensor),
                            ElementType::F32,
                            reinterpret_cast<std::byte *>(shard.data()));
    ASSERT_TRUE(loaded) << loaded.error().message;
    for (int64_t local = 0; local < size; ++local) {
      int64_t rest = local, stored = test.base;
      bool padding = false;
      for (size_t d = blocks.size(); d-- > 0;) {
        int64_t index = rest % blocks[d].block;
        rest /= blocks[d].block;
        padding |= index >= blocks[d].valid;
        stored += (blocks[d].start + index) * test.strides[d];
      }
      if (!padding)
        held[stored] = 1;
      ASSERT_EQ(shard[local], padding ? 0 : tensor[stored])
          << "rank " << rank << " element " << local;
    }
    if (!ownsBlock(mesh, rank, layout.dims()))
      continue;
    // The windows cut rows anywhere; elements of other ranks are unchanged.
    int64_t window = std::max<int64_t>(1, test.stored / 7);
    for (int64_t begin = 0; begin < test.stored; begin += window) {
      int64_t end = std::min(begin + window, test.stored);
      std::vector<float> part(end - begin, -1);
      storeShardWithin(placement, 4,
                       reinterpret_cast<const std::byte *>(shard.data()), begin,
                       end, reinterpret_cast<std::byte *>(part.data()));
      for (int64_t i = begin; i < end; ++i)
        if (part[i - begin] != -1)
          saved[i] = part[i - begin], ++writes[i];
    }
  }
  for (int64_t i = 0; i < test.stored; ++i) {
    ASSERT_EQ(writes[i], held[i]) << "element " << i << ", of its one owner";
    EXPECT_EQ(saved[i], held[i] ? tensor[i] : -1);
  }
}

TEST(Shards, ReachTheirPlacesAndComeBack) {
  checkRoundTrip({{12}, {{}}, {1}, 0, 12});
  checkRoundTrip({{4, 6}, {{0}, {1}}, {6, 1}, 0, 24});
  checkRoundTrip({{4, 6}, {{1, 0}, {}}, {6, 1}, 0, 24});          // padded
  checkRoundTrip({{5, 7}, {{0}, {1}}, {7, 1}, 0, 35});            // both padded
  checkRoundTrip({{6, 4}, {{1}, {0}}, {1, 6}, 0, 24});            // transposed
  checkRoundTrip({{2, 3, 4}, {{}, {1}, {0}}, {12, 4, 1}, 0, 24}); // fused qkv
  checkRoundTrip({{3, 4}, {{1}, {0}}, {8, 1}, 4, 24});            // a slice
  checkRoundTrip({{6}, {{0}}, {-1}, 5, 6});                       // reversed
  checkRoundTrip({{2, 3}, {{0, 1}, {}}, {3, 1}, 0, 6}); // ranks with nothing
}

TEST(Shards, OfLargeTensorsAreReadInWindows) {
  // Larger than one window, transposed, split: 3000 x 2000 floats.
  checkRoundTrip({{3000, 2000}, {{1}, {0}}, {1, 3000}, 0, 6000000});
  checkRoundTrip({{3000, 2000}, {{}, {0}}, {2000, 1}, 0, 6000000});
}

TEST(Shards, OfTransposedMatricesAreTheSame) {
  // 6 x 4 as the model knows it: element i of the file's 4 x 6 is (i % 6, i /
  // 6).
  std::vector<float> file(24);
  for (int i = 0; i < 24; ++i)
    file[i] = static_cast<float>(i % 6 * 4 + i / 6);
  StoredSource source{ElementType::F32, readerOf(file), 6, 4};
  auto check = [&](Placement placement, size_t parts) {
    EXPECT_EQ(transposed(placement, 6, 4)->size(), parts);
    std::vector<float> shard(24, -1), expected(24, -1), tensor(24);
    std::iota(tensor.begin(), tensor.end(), 0.0f);
    auto loaded = loadShard(placement, source, ElementType::F32,
                            reinterpret_cast<std::byte *>(shard.data()));
    ASSERT_TRUE(loaded) << loaded.error().message;
    fetchShard(placement, 4, reinterpret_cast<const std::byte *>(tensor.data()),
               reinterpret_cast<std::byte *>(expected.data()));
    EXPECT_EQ(shard, expected);
  };
  using Extents = std::vector<Placement::Extent>;
  check({0, 0, Extents{{24, 1, 1}}}, 1);                      // all of it
  check({8, 0, Extents{{12, 1, 1}}}, 1);                      // rows 2 to 4
  check({2, 0, Extents{{6, 4, 2}, {2, 1, 1}}}, 1);            // columns 2, 3
  check({0, 3, Extents{{3, 8, 4}, {2, 4, 2}, {2, 2, 1}}}, 1); // every other
  check({1, 0, Extents{{11, 2, 1}}}, 6);                      // across rows
  check({3, 0, Extents{{10, 1, 1}}}, 4);
  check({2, 0, Extents{{2, 12, 6}, {3, 3, 2}, {2, 1, 1}}}, 3); // two dims
}

// A plan of a few bytes must not make a list of a billion entries.
TEST(Shards, OfTransposedMatricesInTooManyPiecesAreRefused) {
  Placement placement;
  placement.extents = {{int64_t(1) << 40, 3, 1}};
  auto parts = transposed(placement, int64_t(1) << 42, 2);
  ASSERT_FALSE(parts);
  EXPECT_NE(parts.error().message.find("a million pieces"), std::string::npos);
}

TEST(Shards, ConvertStoredTypes) {
  Placement placement;
  placement.extents = {{3, 1, 1}};
  const uint16_t half[] = {0x3c00, 0xc000, 0x0001}; // 1, -2, 2^-24
  float values[3];
  auto loaded = loadShard(
      placement, ElementType::F16,
      [&](uint64_t offset, void *into, uint64_t length) -> Result<void> {
        std::memcpy(into, reinterpret_cast<const std::byte *>(half) + offset,
                    length);
        return {};
      },
      ElementType::F32, reinterpret_cast<std::byte *>(values));
  ASSERT_TRUE(loaded);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  EXPECT_EQ(values[2], 0x1p-24f);
  EXPECT_FALSE(canLoad(ElementType::I64, ElementType::F32));
  EXPECT_TRUE(canLoad(ElementType::I64, ElementType::I32));
}

TEST(Shards, AreWithinTheRangeOfATypeUpToWhereNumbersRoundToInfinity) {
  std::vector<BlockDim> blocks(1);
  blocks[0].size = blocks[0].block = 2, blocks[0].valid = 2;
  auto fits = [&](ElementType to, float value) {
    float shard[2] = {1, value};
    return isWithinShard(to, blocks, ElementType::F32,
                         reinterpret_cast<const std::byte *>(shard));
  };
  EXPECT_TRUE(fits(ElementType::F16, 65504.0f));
  EXPECT_TRUE(fits(ElementType::F16, -65519.0f)); // rounds to 65504
  EXPECT_FALSE(fits(ElementType::F16, 65520.0f));
  EXPECT_FALSE(fits(ElementType::F16, -1e30f));
  EXPECT_TRUE(fits(ElementType::BF16, 0x1.fep127f));
  EXPECT_FALSE(fits(ElementType::BF16, 0x1.ffp127f));
  // What is infinite, or no number, stays so in every type.
  EXPECT_TRUE(fits(ElementType::F16, INFINITY));
  EXPECT_TRUE(fits(ElementType::F16, NAN));
  // The last one is padding.
  blocks[0].valid = 1;
  EXPECT_TRUE(fits(ElementType::F16, 1e30f));
}

TEST(Shards, AreRoundedToNearestEven) {
  const float values[] = {1 + 0x1p-8f, 1 + 0x3p-8f, -0x1p-133f, 1e30f};
  uint16_t brain[4], half[4];
  auto *from = reinterpret_cast<const std::byte *>(values);
  convertElements(ElementType::F32, from, 4, ElementType::BF16,
                  reinterpret_cast<std::byte *>(brain));
  EXPECT_EQ(brain[0], 0x3f80);
  EXPECT_EQ(brain[1], 0x3f82);
  EXPECT_EQ(brain[2], 0x8001);
  convertElements(ElementType::F32, from, 4, ElementType::F16,
                  reinterpret_cast<std::byte *>(half));
  EXPECT_EQ(half[0], 0x3c04);
  EXPECT_EQ(half[3], 0x7c00);
}

// A shard of 5 rows of which 3 exist, of rows 5 to 9 of a matrix of 9 x 4.
TEST(Shards, ArePiecesOfWholeRowsWithTheirPartOfThePadding) {
  std::vector<BlockDim> blocks = {
      {.size = 1, .block = 1, .start = 0, .valid = 1},
      {.size = 8, .block = 5, .start = 5, .valid = 3},
      {.size = 4, .block = 4, .start = 0, .valid = 4}};
  std::vector<float> tensor(32);
  std::iota(tensor.begin(), tensor.end(), 1.0f);
  auto bytesOfTensor = reinterpret_cast<const std::byte *>(tensor.data());
  std::vector<float> whole(20), cut(20, -1);
  fetchShard(placementIn(blocks, 0), 4, bytesOfTensor,
             reinterpret_cast<std::byte *>(whole.data()));
  // A row has 16 bytes: pieces of two rows, and the least one is a row.
  for (uint64_t most : {1, 16, 40, 80, 1000}) {
    std::fill(cut.begin(), cut.end(), 0.0f);
    uint64_t end = 0;
    for (const ShardPiece &piece : piecesOf(blocks, 4, most)) {
      EXPECT_EQ(piece.offset, end);
      EXPECT_LE(piece.bytes, std::max<uint64_t>(most, 16));
      fetchShard(placementIn(piece.blocks, 0), 4, bytesOfTensor,
                 reinterpret_cast<std::byte *>(cut.data()) + piece.offset);
      end += piece.bytes;
    }
    EXPECT_EQ(end, 80u);
    EXPECT_EQ(cut, whole) << most;
  }
  EXPECT_EQ(piecesOf(blocks, 4, 40).size(), 3u);
  EXPECT_EQ(piecesOf({}, 8, 1).size(), 1u); // a scalar
}

} // namespace
} // namespace polyrank::runtime::test
