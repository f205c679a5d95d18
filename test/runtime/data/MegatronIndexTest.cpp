// Megatron-LM's index, and each way in which it can be wrong.

#include "test/support/TemporaryFolder.h"

#include "runtime/data/MegatronIndex.h"

#include <gtest/gtest.h>

#include <cstring>

namespace polyrank::runtime::test {
namespace {

struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t type = 8;
  std::vector<int32_t> lengths{3, 0, 4, 2};
  std::vector<int64_t> offsets{0, 6, 6, 14}, bounds{0, 2, 2, 4};
  std::optional<uint64_t> sequences, documents;
  std::string tail;

  std::string bytes() const {
    std::string text = magic;
    auto put = [&](auto value) {
      text.append(reinterpret_cast<const char *>(&value), sizeof(value));
    };
    put(version);
    put(type);
    put(sequences.value_or(lengths.size()));
    put(documents.value_or(bounds.size()));
    for (int32_t each : lengths)
      put(each);
    for (int64_t each : offsets)
      put(each);
    for (int64_t each : bounds)
      put(each);
    return text + tail;
  }
  Result<MegatronIndex> read(uint64_t dataBytes = 18) const {
    TemporaryFolder folder;
    auto file = InputFile::open(folder.write("a.idx", bytes()));
    return readMegatronIndex(*file, dataBytes);
  }
};

TEST(MegatronIndex, SaysWhereDocumentsEnd) {
  auto read = Index().read();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->type, ElementType::U16);
  EXPECT_EQ(read->tokens, 9u);
  EXPECT_EQ(read->documentEnds, (std::vector<uint64_t>{3, 9}));
  Index empty;
  empty.lengths = {}, empty.offsets = {}, empty.bounds = {0};
  auto none = empty.read(0);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->documentEnds.empty());
}

TEST(MegatronIndex, IsReadInPiecesOfAnySize) {
  Index index;
  index.type = 4, index.lengths.clear(), index.offsets.clear();
  index.bounds = {0};
  int64_t tokens = 0;
  std::vector<uint64_t> ends;
  for (int s = 0; s < 200000; ++s) {
    index.lengths.push_back(s % 7);
    index.offsets.push_back(4 * tokens);
    tokens += s % 7;
    if (s % 3 == 2) {
      index.bounds.push_back(s + 1);
      if (ends.empty() || ends.back() != uint64_t(tokens))
        ends.push_back(tokens);
    }
  }
  index.bounds.push_back(200000);
  ends.push_back(tokens);
  auto read = index.read(4 * tokens);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->type, ElementType::I32);
  EXPECT_EQ(read->documentEnds, ends);
}

TEST(MegatronIndex, EachConditionRefusesByItself) {
  struct Row {
    const char *problem;
    void (*change)(Index &);
    uint64_t dataBytes = 18;
  };
  const Row rows[] = {
      {"is no index of Megatron-LM", [](Index &i) { i.magic[3] = 'X'; }},
      {"is of version 2", [](Index &i) { i.version = 2; }},
      {"values of type 6, which are no tokens", [](Index &i) { i.type = 6; }},
      {"values of type 7, which are no tokens", [](Index &i) { i.type = 7; }},
      {"values of type 0, which are no tokens", [](Index &i) { i.type = 0; }},
      {"has 115 bytes, but an index of 4 sequences and 4 bounds of documents "
       "has 114",
       [](Index &i) { i.tail = "x"; }},
      {"Sets of several media", [](Index &i) { i.tail = "aaaa"; }},
      {"was it copied whole",
       [](Index &i) { i.bounds.pop_back(), i.documents = 4; }},
      {"more than", [](Index &i) { i.sequences = ~uint64_t(0) / 12; }},
      {"more than", [](Index &i) { i.documents = uint64_t(1) << 61; }},
      {"has no bounds of documents", [](Index &i) { i.bounds = {}; }},
      {"the first document begins at sequence 1",
       [](Index &i) { i.bounds[0] = 1; }},
      {"sequence 2 has a length of -4", [](Index &i) { i.lengths[2] = -4; }},
      {"sequence 0 begins at byte 2", [](Index &i) { i.offsets[0] = 2; }},
      {"sequence 3 begins at byte 16 of the data, but the one before it ends "
       "at 14",
       [](Index &i) { i.offsets[3] = 16; }},
      {"sequence 3 begins at byte -2", [](Index &i) { i.offsets[3] = -2; }},
      {"its sequences have 18 bytes, but the data beside it has 20",
       [](Index &) {}, 20},
      {"its sequences have at least 18 bytes, but the data beside it has 16",
       [](Index &) {}, 16},
      {"document 2 begins at sequence 1, which is before 2",
       [](Index &i) { i.bounds[2] = 1; }},
      {"document 2 begins at sequence 5, which is beyond all 4",
       [](Index &i) { i.bounds[2] = 5; }},
      {"document 1 begins at sequence -1", [](Index &i) { i.bounds[1] = -1; }},
      {"the last document ends at sequence 3 of 4",
       [](Index &i) { i.bounds[3] = 3; }}};
  for (const Row &row : rows) {
    Index index;
    row.change(index);
    auto read = index.read(row.dataBytes);
    ASSERT_FALSE(read) << row.problem;
    EXPECT_NE(read.error().message.find(row.problem), std::string::npos)
        << row.problem << "\n"
        << read.error().message;
    EXPECT_NE(read.error().message.find("a.idx: "), std::string::npos);
  }
  TemporaryFolder folder;
  auto file =
      InputFile::open(folder.write("a.idx", Index().bytes().substr(0, 33)));
  auto read = readMegatronIndex(*file, 0);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("has 33 bytes"), std::string::npos);
}

} // namespace
} // namespace polyrank::runtime::test
