// Reading and writing .npy and .npz files.

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include "support/Float16.h"
#include "support/arrays/Npy.h"
#include "support/arrays/Npz.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

std::string npy(const std::string &literal, const std::string &data,
                int version = 1) {
  std::string text = "\x93NUMPY";
  put(text, version, 1);
  put(text, 0, 1);
  put(text, literal.size(), version == 1 ? 2 : 4);
  return text + literal + data;
}

const std::string twoByThree =
    "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }   \n";
const std::string sixValues("\1\0\2\0\3\0\4\0\5\0\6\1", 12);

std::vector<uint16_t> valuesOf(const StoredArray &array) {
  std::vector<uint16_t> values(array.elements());
  auto done = array.read(0, array.elements(),
                         reinterpret_cast<std::byte *>(values.data()));
  return done ? values : std::vector<uint16_t>{};
}

TEST(Npy, EveryVersionIsRead) {
  TemporaryFolder folder;
  for (int version : {1, 2, 3}) {
    auto array =
        openNpy(folder.write("a.npy", npy(twoByThree, sixValues, version)));
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->type(), ElementType::U16);
    EXPECT_EQ(array->shape(), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(valuesOf(*array), (std::vector<uint16_t>{1, 2, 3, 4, 5, 262}));
  }
}

TEST(Npy, WhatNumpyWouldWriteIsAcceptedAndNothingElse) {
  struct Row {
    const char *literal, *problem; // no problem: accepted, with 4 bytes of data
  };
  const Row rows[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", ""},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", ""},
      {"{\"shape\": (1L, 1), 'descr': '<i4', 'fortran_order': False}\n", ""},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 2), }", ""},
      {"{'descr': '=i2', 'fortran_order': False, 'shape': (2, 1), }", ""},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "objects"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }",
       "big-endian"},
      {"{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", "<U1"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
       "records"},
      {"{'descr': '<f2', 'fortran_order': True, 'shape': (1, 2), }",
       "ascontiguousarray"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
       "needs 8 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }",
       "needs 0 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,"
       " 4), }",
       "too large"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': "
       "(99999999999999999999,), }",
       "malformed"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
       "malformed"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1), }",
       "malformed"},
      {"{'descr': '<f4', 'fortran_order': False, }", "malformed"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': "
       "(1,)}",
       "malformed"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
       "malformed"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
       "malformed"},
      {"{'descr': '<f4", "malformed"},
      {"", "malformed"}};
  TemporaryFolder folder;
  for (const Row &row : rows) {
    auto array = openNpy(folder.write("a.npy", npy(row.literal, "1234")));
    if (*row.problem == '\0') {
      EXPECT_TRUE(array) << row.literal << ": " << array.error().message;
    } else {
      ASSERT_FALSE(array) << row.literal;
      EXPECT_NE(array.error().message.find(row.problem), std::string::npos)
          << row.literal << ": " << array.error().message;
    }
  }
}

TEST(Npy, ACutOffFileIsAnErrorAtEveryLength) {
  TemporaryFolder folder;
  std::string whole = npy(twoByThree, sixValues);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(openNpy(folder.write("a.npy", whole.substr(0, length))))
        << length;
}

TEST(Npz, StoredAndDeflatedMembersAreRead) {
  TemporaryFolder folder;
  auto arrays = openNpz(folder.write(
      "a.npz", buildZip({{"ids.npy", npy(twoByThree, sixValues)},
                         {"note.txt", "not an array"},
                         {"labels.npy", npy(twoByThree, sixValues), true}})));
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 2u);
  EXPECT_EQ((*arrays)[0].name(), "ids");
  EXPECT_EQ((*arrays)[1].name(), "labels");
  for (const StoredArray &array : *arrays)
    EXPECT_EQ(valuesOf(array), (std::vector<uint16_t>{1, 2, 3, 4, 5, 262}));
}

TEST(Npz, AnAmbiguousOrDamagedArchiveIsAnError) {
  std::string good = npy(twoByThree, sixValues);
  struct Row {
    std::vector<BuiltMember> members;
    const char *problem;
  };
  const Row rows[] = {
      {{{"a.npy", good}, {"a.npy", good}}, "two members"},
      {{{"a.npy", good}, {.name = "b.npy", .contents = good, .localOffset = 0}},
       "disagree"},
      {{{.name = "a.npy", .contents = good, .localName = "b.npy"}}, "disagree"},
      {{{.name = "a.npy", .contents = good, .localOffset = 1 << 30}},
       "outside the file"},
      {{{.name = "a.npy", .contents = good, .flags = 1}}, "encrypted"},
      {{{.name = "a.npy", .contents = good, .method = 12}}, "method 12"},
      {{{.name = "a.npy", .contents = good, .statedSize = 10}}, "two sizes"},
      {{{.name = "a.npy",
         .contents = good,
         .deflate = true,
         .badChecksum = true}},
       "damaged"},
      {{{.name = "a.npy",
         .contents = good,
         .deflate = true,
         .statedSize = int64_t(good.size()) - 1}},
       "damaged"},
      {{{.name = "a.npy",
         .contents = good,
         .deflate = true,
         .statedSize = int64_t(good.size()) + 1}},
       "damaged"},
      {{{.name = "a.npy",
         .contents = good,
         .deflate = true,
         .statedSize = 0xfffffffe}},
       "cannot inflate"},
      {{{.name = "a.npy", .contents = good, .deflate = false, .method = 8}},
       "damaged"}};
  TemporaryFolder folder;
  for (const Row &row : rows) {
    auto arrays = openNpz(folder.write("a.npz", buildZip(row.members)));
    ASSERT_FALSE(arrays) << row.problem;
    EXPECT_NE(arrays.error().message.find(row.problem), std::string::npos)
        << arrays.error().message;
  }
  std::string whole =
      buildZip({{"a.npy", good}, {.name = "b.npy", .contents = good}});
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(openNpz(folder.write("a.npz", whole.substr(0, length))))
        << length;
}

TEST(Npz, WhatIsWrittenIsReadBack) {
  TemporaryFolder folder;
  std::string path = folder.path("out.npz");
  const float values[] = {1.5f, -2, 3e30f, 0};
  const uint16_t brain[] = {bfloat16FromFloat(-1.5f)};
  {
    auto writer = NpzWriter::create(path);
    ASSERT_TRUE(writer);
    const int64_t shape[] = {2, 1, 2}, one[] = {1}, seven[] = {7};
    ASSERT_TRUE(writer->add("logits", ElementType::F32, shape,
                            std::as_bytes(std::span(values))));
    ASSERT_TRUE(writer->add("b", ElementType::BF16, one,
                            std::as_bytes(std::span(brain))));
    ASSERT_TRUE(writer->add("scalar", ElementType::I64, {},
                            std::as_bytes(std::span(seven))));
    EXPECT_FALSE(writer->add("short", ElementType::F64, shape,
                             std::as_bytes(std::span(values))));
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(writer->commit());
  }
  auto arrays = openNpz(path);
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 3u);
  const StoredArray &logits = (*arrays)[0];
  EXPECT_EQ(logits.shape(), (std::vector<int64_t>{2, 1, 2}));
  float back[4] = {};
  ASSERT_TRUE(logits.read(0, 4, reinterpret_cast<std::byte *>(back)));
  EXPECT_TRUE(std::equal(values, values + 4, back));
  EXPECT_EQ((*arrays)[1].type(), ElementType::F32);
  ASSERT_TRUE((*arrays)[1].read(0, 1, reinterpret_cast<std::byte *>(back)));
  EXPECT_EQ(back[0], -1.5f);
  EXPECT_EQ((*arrays)[2].shape(), std::vector<int64_t>{});
  EXPECT_EQ(folder.count(), 1u);
}

TEST(Npz, WithoutCommitNothingIsLeft) {
  TemporaryFolder folder;
  {
    ASSERT_TRUE(NpzWriter::create(folder.path("out.npz")));
  }
  EXPECT_EQ(folder.count(), 0u);
  EXPECT_FALSE(NpzWriter::create(folder.path("no/such/folder.npz")));
}

} // namespace
} // namespace polyrank::runtime::test
