// The layout of a plan's checkpoint: the boxes of a shard, the distribution of
// parts over ranks, and what no rank holds.

#include "runtime/exec/CheckpointLayout.h"
#include "runtime/exec/Shards.h"
#include "test/runtime/PlanBuilder.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace polyrank::runtime::test {
namespace {

using Elements = std::map<int64_t, int64_t>; // stored element -> local one

/// Returns the placement's elements; empty if one occurs twice or is outside.
Elements elementsOf(const Placement &placement, int64_t size) {
  Elements elements;
  bool valid = true;
  forEachRun(placement.extents, 0, placement.storedBase, placement.localBase,
             [&](int64_t stored, int64_t local, Placement::Extent run) {
               for (int64_t i = 0; i < run.count; ++i) {
                 int64_t at = stored + i * run.stored;
                 valid &= at < size &&
                          elements.emplace(at, local + i * run.local).second;
               }
             });
  return valid ? elements : Elements();
}

Elements elementsOf(const LocalBox &box, std::span<const int64_t> shape) {
  Placement placement;
  placement.localBase = box.localBase;
  std::vector<int64_t> strides = stridesOf(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    placement.storedBase += box.box.offsets[d] * strides[d];
    placement.extents.push_back(
        {box.box.sizes[d], strides[d], box.localStrides[d]});
  }
  return elementsOf(placement, wholeBox(shape).elements());
}

/// A placement with up to three extents in a tensor of `size` elements.
Placement draw(std::mt19937 &random, int64_t size) {
  auto upTo = [&](int64_t most) {
    return int64_t(random() % uint64_t(most)) + 1;
  };
  Placement placement;
  placement.storedBase = upTo(size) - 1;
  placement.localBase = upTo(5);
  int64_t local = 1;
  for (int64_t extents = upTo(3); extents > 0; --extents) {
    int64_t count = upTo(7);
    placement.extents.push_back({count, upTo(size / 2), local});
    local *= count;
  }
  simplify(placement);
  return placement;
}

TEST(Boxes, AreTheElementsOfTheShardWhateverTheViewIs) {
  std::mt19937 random(1);
  const std::vector<std::vector<int64_t>> shapes{
      {24}, {6, 4}, {4, 6}, {2, 3, 4}, {1, 24}, {24, 1}, {3, 1, 8}, {5, 5}};
  size_t drawn = 0, several = 0;
  for (int number = 0; number < 200000; ++number) {
    const auto &shape = shapes[random() % shapes.size()];
    int64_t size = wholeBox(shape).elements();
    Placement placement = draw(random, size);
    Elements expected = elementsOf(placement, size);
    if (expected.empty())
      continue;
    ++drawn;
    auto boxes = boxesOf(placement, shape);
    ASSERT_TRUE(boxes);
    several += boxes->size() > 1;
    Elements found;
    for (const LocalBox &box : *boxes)
      for (auto &each : elementsOf(box, shape))
        ASSERT_TRUE(found.insert(each).second);
    ASSERT_EQ(found, expected);
  }
  EXPECT_GT(drawn, 10000u);
  EXPECT_GT(several, 1000u);
}

TEST(Boxes, OfARangeOfElementsAreFew) {
  Placement range;
  range.storedBase = 5 + 7 * 3;
  range.extents = {{7 * 1000 + 4, 1, 1}};
  auto boxes = boxesOf(range, std::vector<int64_t>{3000, 7});
  ASSERT_TRUE(boxes);
  EXPECT_EQ(boxes->size(), 3u); // the rest of a row, rows, a part of one
  // Columns of a matrix are one box.
  Placement columns;
  columns.storedBase = 2;
  columns.extents = {{3000, 7, 3}, {3, 1, 1}};
  boxes = boxesOf(columns, std::vector<int64_t>{3000, 7});
  ASSERT_TRUE(boxes);
  EXPECT_EQ(boxes->size(), 1u);
  // Every other element is a box by itself, and that may be too many.
  Placement sparse;
  sparse.extents = {{1 << 21, 2, 1}};
  EXPECT_FALSE(boxesOf(sparse, std::vector<int64_t>{1 << 22}));
}

TEST(Boxes, AShardIsFilledFromTheChunksOfAnyOther) {
  std::mt19937 random(2);
  std::vector<int64_t> shape{4, 6};
  std::vector<float> tensor(24);
  std::iota(tensor.begin(), tensor.end(), 1.0f);
  for (int number = 0; number < 3000; ++number) {
    Placement placement = draw(random, 24);
    Elements expected = elementsOf(placement, 24);
    if (expected.empty())
      continue;
    int64_t row = 1 + int64_t(random() % 3), column = 1 + int64_t(random() % 5);
    std::vector<Box> chunks{{{0, 0}, {row, 6}},
                            {{row, 0}, {4 - row, column}},
                            {{row, column}, {4 - row, 6 - column}}};
    std::vector<float> shard(600, -1);
    auto boxes = boxesOf(placement, shape);
    ASSERT_TRUE(boxes);
    for (const Box &chunk : chunks) {
      std::vector<float> dense;
      for (int64_t i = 0; i < chunk.sizes[0]; ++i)
        for (int64_t j = 0; j < chunk.sizes[1]; ++j)
          dense.push_back(tensor[size_t((chunk.offsets[0] + i) * 6 +
                                        chunk.offsets[1] + j)]);
      auto read = [&](uint64_t offset, void *into,
                      uint64_t length) -> Result<void> {
        EXPECT_LE(offset + length, 4 * dense.size());
        std::memcpy(into, reinterpret_cast<std::byte *>(dense.data()) + offset,
                    length);
        return {};
      };
      for (const LocalBox &box : *boxes)
        if (auto common = intersect(box.box, chunk))
          ASSERT_TRUE(loadShard(placementWithin(chunk, box, *common),
                                ElementType::F32, read, ElementType::F32,
                                reinterpret_cast<std::byte *>(shard.data())));
    }
    for (auto [stored, local] : expected)
      ASSERT_EQ(shard[size_t(local)], tensor[size_t(stored)]);
  }
}

Result<CheckpointLayout> layoutOf(const plan::PlanT &plan,
                                  std::vector<uint8_t> &bytes) {
  bytes = serialise(plan);
  return checkpointLayoutOf(*plan::GetPlan(bytes.data()));
}

TEST(CheckpointLayout, ReplicasAreWrittenOnce) {
  LinearModel model;
  model.data = 2, model.tensor = 3;
  plan::PlanT plan = linearPlan(model);
  plan.programs[0]->arguments[weightArgument]->trainable = true;
  std::vector<uint8_t> bytes;
  auto layout = layoutOf(plan, bytes);
  ASSERT_TRUE(layout) << layout.error().message;
  ASSERT_EQ(layout->manifest.tensors.size(), 1u);
  const ManifestTensor &tensor = layout->manifest.tensors[0];
  EXPECT_EQ(tensor.role, TensorRole::Parameter);
  // Three columns over three ranks, in blocks of two: the third has padding
  // alone.
  EXPECT_EQ(tensor.chunks.size(), 2u);
  EXPECT_EQ(layout->bytes(), tensor.bytes());
  size_t files = 0;
  for (size_t rank = 0; rank < layout->parts.size(); ++rank) {
    EXPECT_EQ(layout->parts[rank].empty(), layout->files[rank] < 0);
    files += !layout->parts[rank].empty();
    EXPECT_EQ(layout->specsOf(int64_t(rank)).size(),
              layout->parts[rank].size());
  }
  EXPECT_EQ(files, 2u);
  EXPECT_EQ(layout->manifest.files.size(), 2u);
}

TEST(CheckpointLayout, LargeReplicasAreSharedOut) {
  LinearModel model;
  model.data = 4;
  plan::PlanT plan = linearPlan(model);
  plan::ArgumentT &weight = *plan.programs[0]->arguments[weightArgument];
  plan.stored[0]->shape = {1024, 1024};
  for (size_t d : {0, 1}) {
    weight.dims[d]->size = weight.dims[d]->padded = 1024;
    weight.dims[d]->axes.clear();
  }
  weight.view->strides = {1, 1024};
  std::vector<uint8_t> bytes;
  auto layout = layoutOf(plan, bytes);
  ASSERT_TRUE(layout) << layout.error().message;
  for (int64_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(layout->parts[size_t(rank)].size(), 1u);
    EXPECT_EQ(layout->specsOf(rank)[0].shape,
              (std::vector<int64_t>{256, 1024}));
  }
}

TEST(CheckpointLayout, WhatNoArgumentHoldsIsWrittenAsItWas) {
  plan::PlanT plan = linearPlan({});
  plan::ArgumentT &weight = *plan.programs[0]->arguments[weightArgument];
  std::vector<int64_t> shape = plan.stored[0]->shape;
  weight.dims[0]->size = weight.dims[0]->padded = 2; // two of its columns
  plan.stored.push_back(std::make_unique<plan::StoredTensorT>());
  plan.stored[1]->name = "unused";
  plan.stored[1]->shape = {5};
  plan.stored[1]->dtype = plan::ElementType::F64;
  std::vector<uint8_t> bytes;
  auto layout = layoutOf(plan, bytes);
  ASSERT_TRUE(layout) << layout.error().message;
  const ManifestTensor *unused = layout->manifest.findStored("unused");
  ASSERT_TRUE(unused);
  EXPECT_EQ(unused->role, TensorRole::Buffer);
  EXPECT_EQ(unused->dtype, ElementType::F64);
  EXPECT_EQ(layout->manifest.tensors[0].chunks.size(), 2u);
  int64_t constants = 0, held = 0;
  std::set<std::string> keys;
  for (const CheckpointPart &part : layout->parts[0]) {
    const ManifestTensor &tensor = layout->manifest.tensors[part.tensor];
    int64_t elements = tensor.chunks[part.chunk].box.elements();
    (part.argument ? held : constants) += elements;
    if (!part.argument)
      EXPECT_EQ(plan.stored[part.stored]->name, tensor.name);
    EXPECT_TRUE(keys.insert(tensor.chunks[part.chunk].key).second);
  }
  int64_t all = wholeBox(shape).elements();
  EXPECT_EQ(held, all / shape[1] * 2);
  EXPECT_EQ(constants, all - held + 5);
}

TEST(CheckpointLayout, StateIsNamedAfterTheTensorThatIsStored) {
  plan::PlanT plan = linearPlan({});
  auto add = [&](const char *name, const char *of, const char *suffix) {
    auto state = std::make_unique<plan::ArgumentT>();
    state->name = name;
    state->role = plan::Role::State;
    state->dtype = plan::ElementType::I64;
    state->buffer = std::make_unique<plan::BufferRef>();
    if (of) {
      state->state_of = of;
      state->state_suffix = suffix;
    }
    plan.programs[0]->arguments.push_back(std::move(state));
  };
  add("step", nullptr, nullptr);
  add("linear.weight.count", "linear.weight", "count");
  std::vector<uint8_t> bytes;
  auto layout = layoutOf(plan, bytes);
  ASSERT_TRUE(layout) << layout.error().message;
  const ManifestTensor *step = layout->manifest.find(TensorRole::State, "step"),
                       *count = layout->manifest.find(TensorRole::State,
                                                      "linear.weight.count");
  ASSERT_TRUE(step && count);
  EXPECT_EQ(step->suffix, "step");
  EXPECT_EQ(step->parameter, "");
  EXPECT_EQ(count->parameter, "linear.weight");
  EXPECT_EQ(count->suffix, "count");
  // Two tensors with the same name cannot be in a checkpoint.
  add("again", "linear.weight", "count");
  EXPECT_FALSE(layoutOf(plan, bytes));
}

} // namespace
} // namespace polyrank::runtime::test
