// What a header must state, and what becomes of values.

#include "test/runtime/feed/Blocks.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace polyrank::runtime::test {
namespace {

std::vector<InputSpec> inputs() {
  InputSpec ids, labels;
  ids.name = "ids", ids.dtype = ElementType::I64, ids.rowShape = {2};
  ids.range = {.limit = 10};
  labels.name = "y", labels.labels = true, labels.dtype = ElementType::F32;
  return {ids, labels};
}

Result<FeedBlock> read(const std::string &json, uint64_t limit = 1 << 20) {
  return readFeedBlock(json, inputs(), limit);
}

const std::string ids =
    R"("ids":{"dtype":"U8","shape":[3,2],"data_offsets":[0,6]})";
const std::string labels =
    R"("labels":{"dtype":"F32","shape":[3],"data_offsets":[6,18]})";

TEST(FeedBlock, HasAnArrayForEachInput) {
  auto block = read("{" + metadataOf("30") + ids + "," + labels + "}");
  ASSERT_TRUE(block) << block.error().message;
  EXPECT_EQ(block->rows, 3u);
  EXPECT_EQ(block->dataBytes, 18u);
  EXPECT_EQ(block->sample, 30u);
  ASSERT_EQ(block->arrays.size(), 2u);
  EXPECT_EQ(block->arrays[0].dtype, ElementType::U8);
  EXPECT_EQ(block->arrays[1].offset, 6u);
  EXPECT_FALSE(read("{" + ids + "," + labels + "}")->sample);
}

TEST(FeedBlock, TheLastOneSaysSo) {
  auto block = read(R"({"__metadata__":{"end":"1"}})");
  ASSERT_TRUE(block);
  EXPECT_TRUE(block->isEnd);
}

TEST(FeedBlock, SaysWhatIsWrongWithAHeader) {
  struct Row {
    std::string json, message;
    uint64_t limit = 1 << 20;
  };
  auto array = [](const char *name, const char *type, const char *shape,
                  int begin, int end) {
    return fmt::format(
        R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name,
        type, shape, begin, end);
  };
  for (const Row &row : {
           Row{"[]", "does not begin with {"},
           {"{", "not JSON"},
           {"{" + labels + "}", "leave a hole"},
           {"{" + ids + "}",
            "has no array 'y' for the input of that name; it has: ids"},
           {"{" + array("ids", "F32", "[3,2]", 0, 24) + "," +
                array("y", "F32", "[3]", 24, 36) + "}",
            "array 'ids' of a block holds float32, but input 'ids' takes i64"},
           {"{" + array("ids", "I64", "[3,5]", 0, 120) + "," +
                array("y", "F32", "[3]", 120, 132) + "}",
            "has shape [3,5], but input 'ids' takes [SAMPLES,2]"},
           {"{" + ids + "," + array("y", "F32", "[2]", 6, 14) + "}",
            "a block has 2 rows of 'y', but 3 of 'ids'"},
           {"{" + array("ids", "I64", "[0,2]", 0, 0) + "," +
                array("y", "F32", "[0]", 0, 0) + "}",
            "a block has no rows"},
           {"{" + ids + "," + labels + "}", "at most 17 are read at once", 17},
           {"{" + metadataOf("-1") + ids + "," + labels + "}",
            "is '-1', which is no number of a sample"},
           {R"({"__metadata__":{"end":"1"},)" + ids + "}", "has arrays"},
       }) {
    auto block = read(row.json, row.limit);
    ASSERT_FALSE(block) << row.json;
    EXPECT_NE(block.error().message.find(row.message), std::string::npos)
        << block.error().message;
  }
}

TEST(FeedBlock, TextIsNoLengthOfAHeader) {
  auto bytes = [](const std::string &text) {
    return feedHeaderLength(std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(*bytes(std::string("\x10\0\0\0\0\0\0\0", 8)), 16u);
  auto text = bytes("epoch 1\n");
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("'epoch 1 ', which are text"),
            std::string::npos)
      << text.error().message;
  EXPECT_FALSE(bytes(std::string("\0\0\0\0\0\0\0\x7f", 8)));
  EXPECT_FALSE(bytes(std::string(8, '\0')));
}

TEST(FeedBlock, RowsBecomeThoseOfTheInput) {
  auto block = *read("{" + ids + "," + labels + "}");
  std::vector<uint8_t> data{1, 2, 3, 4, 5, 6};
  data.resize(18);
  float y[3] = {0.5f, std::numeric_limits<float>::quiet_NaN(), 2};
  std::memcpy(data.data() + 6, y, sizeof(y));
  auto bytes = std::as_bytes(std::span(data));
  int64_t rows[6] = {};
  auto *into = reinterpret_cast<std::byte *>(rows);
  ASSERT_TRUE(
      convertRows({block, 0, 1, 2, 0, false}, inputs()[0], bytes, into));
  EXPECT_EQ(std::vector<int64_t>(rows, rows + 4),
            (std::vector<int64_t>{3, 4, 5, 6}));
  float out[3] = {};
  auto nan = convertRows({block, 1, 0, 3, 100, false}, inputs()[1], bytes,
                         reinterpret_cast<std::byte *>(out));
  ASSERT_FALSE(nan);
  EXPECT_EQ(nan.error().message,
            "value nan at element 0 of sample 101 of array 'y', but input 'y' "
            "takes no NaN without --allow-nan");
  EXPECT_TRUE(convertRows({block, 1, 0, 3, 100, true}, inputs()[1], bytes,
                          reinterpret_cast<std::byte *>(out)));
  EXPECT_TRUE(std::isnan(out[1]));
  data[5] = 10;
  auto high = convertRows({block, 0, 0, 3, 7, false}, inputs()[0], bytes, into);
  ASSERT_FALSE(high);
  EXPECT_EQ(high.error().message,
            "value 10 at element 1 of sample 9 of array 'ids', but input 'ids' "
            "takes i64 in [0, 10)");
}

TEST(FeedBlock, TheBatchMayBeAnyDim) {
  InputSpec x;
  x.name = "x", x.rowShape = {2, 1}, x.batchDim = 1; // an array is [2, rows, 1]
  auto block = readFeedBlock(
      R"({"x":{"dtype":"F32","shape":[2,3,1],"data_offsets":[0,24]}})",
      std::vector{x}, 100);
  ASSERT_TRUE(block) << block.error().message;
  EXPECT_EQ(block->rows, 3u);
  float data[6] = {1, 2, 3, 11, 12, 13}, rows[4] = {};
  ASSERT_TRUE(convertRows({*block, 0, 1, 2, 0, false}, x,
                          std::as_bytes(std::span(data)),
                          reinterpret_cast<std::byte *>(rows)));
  EXPECT_EQ(std::vector<float>(rows, rows + 4),
            (std::vector<float>{2, 12, 3, 13}));
}

} // namespace
} // namespace polyrank::runtime::test
