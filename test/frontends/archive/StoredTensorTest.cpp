// Tensors as spans of an archive: their places, and which are refused.

#include "frontends/archive/StoredTensor.h"

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace polyrank;
using namespace polyrank::frontends::archive;
using runtime::test::buildZip;

namespace {

class StoredTensors : public testing::Test {
protected:
  StoredTensors() {
    std::string six(24, '\0');
    for (int i = 0; i < 6; ++i) {
      float value = i;
      std::memcpy(&six[4 * i], &value, 4);
    }
    path = folder.write(
        "m.pt",
        buildZip({{"m/data/0", six},
                  {.name = "m/data/1", .contents = six, .deflate = true}}));
    auto file = InputFile::open(path);
    auto opened = ZipFile::open(std::make_shared<InputFile>(std::move(*file)),
                                "an archive");
    zip.emplace(std::move(*opened));
  }

  Result<StoredTensor> view(std::vector<int64_t> sizes,
                            std::vector<int64_t> strides, int64_t offset = 0,
                            const std::string &storage = "m/data/0",
                            ElementType type = ElementType::F32) {
    return locate(*zip, storage, type, std::move(sizes), std::move(strides),
                  offset, "fc.weight");
  }
  void expectProblem(const Result<StoredTensor> &tensor,
                     const std::string &problem) {
    ASSERT_FALSE(tensor) << problem;
    EXPECT_NE(
        tensor.error().message.find("m.pt: tensor `fc.weight` " + problem),
        std::string::npos)
        << tensor.error().message;
  }
  std::vector<float> elementsOf(const StoredTensor &tensor) {
    std::vector<float> values;
    forEachElement(tensor, [&](uint64_t at) {
      EXPECT_TRUE(zip->file()->readAt(at, &values.emplace_back(), 4));
    });
    return values;
  }

  runtime::test::TemporaryFolder folder;
  std::string path;
  std::optional<ZipFile> zip;
};

TEST_F(StoredTensors, ViewsAreReadRowMajor) {
  auto whole = view({2, 3}, {3, 1});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_TRUE(whole->isContiguous());
  EXPECT_EQ(whole->begin, zip->find("m/data/0")->offset);
  EXPECT_EQ(elementsOf(*whole), (std::vector<float>{0, 1, 2, 3, 4, 5}));

  EXPECT_FALSE(whole->isTransposed());

  auto transposed = view({3, 2}, {1, 3});
  ASSERT_TRUE(transposed);
  EXPECT_FALSE(transposed->isContiguous());
  EXPECT_TRUE(transposed->isTransposed());
  EXPECT_EQ(elementsOf(*transposed), (std::vector<float>{0, 3, 1, 4, 2, 5}));

  auto column = view({2, 1}, {3, 7}, 2);
  ASSERT_TRUE(column);
  EXPECT_EQ(column->begin, zip->find("m/data/0")->offset + 8);
  EXPECT_EQ(elementsOf(*column), (std::vector<float>{2, 5}));

  auto expanded = view({2, 3}, {0, 1}, 3);
  ASSERT_TRUE(expanded);
  EXPECT_FALSE(expanded->isContiguous());
  EXPECT_FALSE(expanded->isTransposed());
  EXPECT_EQ(elementsOf(*expanded), (std::vector<float>{3, 4, 5, 3, 4, 5}));

  auto scalar = view({}, {}, 5);
  ASSERT_TRUE(scalar);
  EXPECT_EQ(elementsOf(*scalar), (std::vector<float>{5}));

  auto none = view({0, 3}, {3, 1}, 100);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->isContiguous());
  EXPECT_TRUE(elementsOf(*none).empty());
}

TEST_F(StoredTensors, WhatIsNotInTheFileIsAnError) {
  expectProblem(view({7}, {1}), "has elements beyond the 24 bytes");
  expectProblem(view({2, 3}, {4, 1}), "has elements beyond");
  expectProblem(view({6}, {1}, 1), "has elements beyond");
  expectProblem(view({1}, {1}, -1), "has elements beyond");
  expectProblem(view({2}, {-1}, 1), "has elements beyond");
  expectProblem(view({2}, {INT64_MAX}), "has elements beyond");
  expectProblem(view({6}, {1}, 0, "m/data/0", ElementType::F64),
                "has elements beyond");
  expectProblem(view({0}, {-1}), "has a negative stride");
  expectProblem(view({-1}, {1}), "has sizes that no tensor has");
  expectProblem(view({int64_t(1) << 40, int64_t(1) << 40}, {0, 0}),
                "has sizes that no tensor has");
  expectProblem(view({6}, {}), "has 1 sizes and 0 strides");
  expectProblem(view(std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1)),
                "has 65 sizes and 65 strides");
  expectProblem(view({6}, {1}, 0, "m/data/2"),
                "has its elements in 'm/data/2', which the file does not hold");
  expectProblem(view({6}, {1}, 0, "m/data/1"),
                "has its elements in 'm/data/1', which is compressed");
  expectProblem(view({6}, {1}, 0, "m/data/0", ElementType::U4),
                "has elements of uint4, which are not read");
}

TEST_F(StoredTensors, AStorageHasTheSizeThatThePickleStates) {
  PickledTensor pickled;
  pickled.storage = {ElementType::F32, "0", 6};
  pickled.sizes = {6};
  pickled.strides = {1};
  pickled.requiresGrad = true;
  auto tensor = locate(*zip, "m/data/", pickled, "fc.weight");
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_TRUE(tensor->requiresGrad);
  pickled.storage.elements = 7;
  expectProblem(locate(*zip, "m/data/", pickled, "fc.weight"),
                "has a storage of 7 elements, but 'm/data/0' has 24 bytes");
  pickled.storage = {std::nullopt, "0", 24}; // counted in bytes
  EXPECT_TRUE(locate(*zip, "m/data/", pickled, "fc.weight"));
}

TEST_F(StoredTensors, AnExpandedTensorTakesNoMoreMemoryThanTheFileIsWorth) {
  expectProblem(view({int64_t(1) << 40}, {0}),
                "of 1099511627776 elements repeats those of a storage of 24 "
                "bytes; save a contiguous() copy of it");
  EXPECT_TRUE(view({1 << 20}, {0}));
}

} // namespace
