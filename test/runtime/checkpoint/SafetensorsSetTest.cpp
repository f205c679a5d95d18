// Folders of weights: read if index and files agree, else refused.

#include "runtime/checkpoint/SafetensorsSet.h"
#include "test/support/TemporaryFolder.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

/// A file of tensors of one byte each, with the values 'a', 'b'..
std::string safetensors(const std::vector<std::string> &names) {
  std::string header = "{", data;
  for (const std::string &name : names) {
    std::string begin = std::to_string(data.size()),
                end = std::to_string(data.size() + 1);
    header += (data.empty() ? "\"" : ",\"") + name +
              "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" + begin +
              "," + end + "]}";
    data += static_cast<char>('a' + data.size());
  }
  header += "}";
  uint64_t size = header.size();
  return std::string(reinterpret_cast<const char *>(&size), 8) + header + data;
}

class SafetensorsSetTest : public testing::Test {
protected:
  TemporaryFolder folder;

  void SetUp() override {
    folder.write("one", safetensors({"x", "y"}));
    folder.write("two", safetensors({"z"}));
  }
  void writeIndex(const std::string &text) { folder.write(indexName, text); }
  /// Writes an index with these entries in the map.
  void writeMap(const std::string &map) {
    writeIndex(R"({"metadata":{"total_size":3},"weight_map":{)" + map + "}}");
  }
  std::string errorOf(const std::string &path) const {
    Result<SafetensorsSet> set = SafetensorsSet::open(path);
    return set ? "" : set.error().message;
  }
  std::string error() const { return errorOf(folder.path("")); }
};

constexpr const char *good = R"("x":"one","y":"one","z":"two")";

#define EXPECT_SAYS(text, part)                                                \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(SafetensorsSetTest, AFolderItsIndexAndAFileAreRead) {
  writeMap(good);
  for (const std::string &path :
       {folder.path(""), folder.path("").substr(0, folder.path("").size() - 1),
        folder.path(indexName)}) {
    Result<SafetensorsSet> set = SafetensorsSet::open(path);
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_EQ(set->tensors().size(), 3u);
    EXPECT_EQ(set->paths().size(), 3u);
    char value = 0;
    for (auto [name, expected] :
         {std::pair("x", 'a'), {"y", 'b'}, {"z", 'a'}}) {
      ASSERT_TRUE(set->find(name));
      ASSERT_TRUE(set->find(name)->read(0, &value, 1));
      EXPECT_EQ(value, expected);
    }
    EXPECT_FALSE(set->find("w"));
  }
  Result<SafetensorsSet> file = SafetensorsSet::open(folder.path("one"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2u);
  std::filesystem::remove(folder.path(indexName));
  folder.write(wholeName, safetensors({"v"}));
  file = SafetensorsSet::open(folder.path(""));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->find("v"));
}

TEST_F(SafetensorsSetTest, AFolderWithNoneOrTwoSetsIsRefused) {
  EXPECT_SAYS(error(), "has neither model.safetensors nor model.safetensors."
                       "index.json");
  folder.write("manifest.json", "{}");
  EXPECT_SAYS(error(),
              "it is a checkpoint of polyrank-run, from which --resume");
  std::filesystem::remove(folder.path("manifest.json"));
  folder.write("pytorch_model.bin", "PK");
  EXPECT_SAYS(error(), "pytorch_model.bin is PyTorch's pickle");
  writeMap(good);
  EXPECT_EQ(error(), "");
  folder.write(wholeName, safetensors({"v"}));
  EXPECT_SAYS(error(), "has both model.safetensors and model.safetensors."
                       "index.json");
}

TEST_F(SafetensorsSetTest, AnIndexThatIsNoneIsRefused) {
  struct Row {
    std::string text, message;
  };
  for (const Row &row : std::vector<Row>{
           {"{", "is not JSON"},
           {"[]", "has no object 'weight_map'"},
           {"{}", "has no object 'weight_map'"},
           {R"({"weight_map":[]})", "has no object 'weight_map'"},
           {R"({"weight_map":{}})", "names no tensors"},
           {R"({"weight_map":{"x":1}})", "says of tensor 'x' not by a name"},
           {R"({"weight_map":{"x":""}})", "is not the name of a file beside"},
           {R"({"weight_map":{"x":"."}})", "is not the name of a file beside"},
           {R"({"weight_map":{"x":".."}})", "is not the name of a file beside"},
           {R"({"weight_map":{"x":"../one"}})",
            "tensor 'x' is to be in '../one'"},
           {R"({"weight_map":{"x":"one\u0000"}})", "is not the name of a file"},
           {R"({"weight_map":{"x":"one","x":"one"}})", "has 'x' twice"},
           {R"({"weight_map":{"z":"two"},"weight_map":{"z":"two"}})",
            "has 'weight_map' twice"}}) {
    writeIndex(row.text);
    EXPECT_SAYS(error(), row.message) << row.text;
    EXPECT_SAYS(error(), indexName);
  }
  std::string many = "[";
  for (int i = 0; i < 1'100'000; ++i)
    many += "[],";
  writeIndex(many + "0]");
  EXPECT_SAYS(error(), "takes more than 134217728 bytes of memory");
  // Names in other objects are ignored.
  writeIndex(R"({"x":{"z":1},"weight_map":{"z":"two"}})");
  EXPECT_EQ(error(), "");
}

TEST_F(SafetensorsSetTest, AnIndexThatDisagreesWithItsFilesIsRefused) {
  writeMap(R"("x":"one","y":"one","z":"two","w":"two")");
  EXPECT_SAYS(error(), "says that tensor 'w' is in 'two', which does not have");
  writeMap(R"("x":"one","z":"two")");
  EXPECT_SAYS(error(), "one: has tensor 'y', of which");
  writeMap(R"("x":"one","y":"two","z":"two")");
  EXPECT_SAYS(error(), "one: has tensor 'y', which by");
  // A tensor in two files is an error.
  folder.write("two", safetensors({"z", "x"}));
  writeMap(good);
  EXPECT_SAYS(error(), "two: has tensor 'x', which by");
  writeMap(R"("x":"one","y":"one","z":"three")");
  EXPECT_SAYS(error(), "three");
  EXPECT_SAYS(error(), "(which '" + folder.path(indexName) + "' names)");
}

TEST(SafetensorsIndex, IsReadAsItIsWritten) {
  TemporaryFolder folder;
  folder.write("one", safetensors({"x", "y"}));
  folder.write("two", safetensors({"z"}));
  folder.write(indexName, indexText({{"one", {"x", "y"}}, {"two", {"z"}}}, 3));
  Result<SafetensorsSet> set = SafetensorsSet::open(folder.path(""));
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(folder.read(indexName),
            "{\n  \"metadata\": {\n    \"total_size\": 3\n  },\n"
            "  \"weight_map\": {\n    \"x\": \"one\",\n    \"y\": \"one\",\n"
            "    \"z\": \"two\"\n  }\n}\n");
}

TEST(SafetensorsNames, OfShardsAreTransformers) {
  EXPECT_EQ(shardName(2, 7), "model-00002-of-00007.safetensors");
  EXPECT_EQ(shardName(123456, 123456), "model-123456-of-123456.safetensors");
  EXPECT_TRUE(isShardName("model-00002-of-00007.safetensors"));
  EXPECT_TRUE(isShardName("model-123456-of-123456.safetensors"));
  for (const char *other :
       {"model.safetensors", "model-00002.safetensors",
        "model-0002-of-00007.safetensors", "model-00002-of-00007.safetensors2",
        "a-model-00002-of-00007.safetensors"})
    EXPECT_FALSE(isShardName(other)) << other;
}

} // namespace
} // namespace polyrank::runtime::test
