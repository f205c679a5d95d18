// The type of a file's tokens, and the files that are refused because of it.

#include "test/support/TemporaryFolder.h"

#include "runtime/data/DataSource.h"

#include <gtest/gtest.h>

#include <functional>

namespace polyrank::runtime::test {
namespace {

using Token = std::function<int64_t(int64_t)>;

template <typename T>
std::string bytesOf(int64_t count, const Token &token) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    T value = static_cast<T>(token(i));
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  return bytes;
}

struct Opened {
  std::string error;
  std::vector<int64_t> first; // tokens of the first row
};

/// A file with these bytes, for rows of 4 ids below `vocabulary` (0: any).
Opened open(const std::string &name, const std::string &bytes,
            int64_t vocabulary, const std::string &type = "") {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write(name, bytes)},
                      .tokenType = type,
                      .order = SampleOrder::Sequential};
  InputSpec inputs[] = {{.name = "ids",
                         .dtype = ElementType::I64,
                         .rowShape = {4},
                         .range = {.limit = vocabulary}}};
  Result<DataSource> source = DataSource::open(options, inputs);
  if (!source)
    return {source.error().message.substr(folder.path("").size()), {}};
  if (Result<void> ranges = source->checkRanges(); !ranges)
    return {ranges.error().message.substr(folder.path("").size()), {}};
  std::vector<int64_t> row(4);
  Result<void> read = source->read(
      Split::Train, 0, 0, 0, 1, std::as_writable_bytes(std::span(row)).data());
  EXPECT_TRUE(read);
  return {"", row};
}

int64_t upTo96(int64_t i) { return i * 7919 % 96; }
int64_t upTo128000(int64_t i) { return i * 7919 % 128000; }
int64_t upTo65536(int64_t i) { return i * 7919 % 65536; }
int64_t upTo190And256(int64_t i) { return i * 7919 % (i % 2 ? 190 : 256); }

TEST(TokenTypes, WiderOnesUnderTheNameOfNarrowOnesAreRefused) {
  struct Row {
    const char *name;
    std::string bytes;
    int64_t vocabulary;
    const char *fits; // nothing: it is read
  };
  for (int64_t count : {64, 20000})
    for (const Row &row : {
             Row{"a.bin", bytesOf<int64_t>(count, upTo96), 96, "int64"},
             {"a.bin", bytesOf<uint32_t>(count, upTo96), 96, "int32"},
             {"a.bin", bytesOf<uint16_t>(count, upTo96), 96, ""},
             // Also if ids have more than 16 bits, or an unknown number of
             // bits.
             {"a.bin", bytesOf<int64_t>(count, upTo128000), 128000, "int64"},
             {"a.bin", bytesOf<int32_t>(count, upTo128000), 128000, "int32"},
             {"a.bin", bytesOf<uint16_t>(count, upTo65536), 128000, ""},
             {"a.u16", bytesOf<int32_t>(count, upTo65536), 0, "int32"},
             {"a.bin", bytesOf<uint16_t>(count, upTo65536), 0, ""},
             {"a.u32", bytesOf<int64_t>(count, upTo128000), 128000, "int64"},
             {"a.u32", bytesOf<uint32_t>(count, upTo128000), 128000, ""},
             {"a.u8", bytesOf<uint16_t>(count, upTo96), 96, "uint16"},
             {"a.u8", bytesOf<int64_t>(count, upTo96), 256, "int64"},
             // Nearly any two bytes are an id below so large a limit.
             {"a.u8", bytesOf<uint8_t>(count, upTo190And256), 50257, ""},
             // Bytes that are valid as both types prove nothing.
             {"a.bin", std::string(8 * count, '\0'), 96, ""},
             {"a.bin", bytesOf<uint16_t>(count, [](auto) { return 1; }), 96,
              ""},
         }) {
      std::string error = open(row.name, row.bytes, row.vocabulary).error;
      std::string give = std::string("Give --token-type ") + row.fits + ",";
      if (*row.fits)
        EXPECT_NE(error.find(give), std::string::npos) << give << ": " << error;
      else
        EXPECT_EQ(error, "") << row.name << " " << row.vocabulary;
    }
  EXPECT_EQ(open("a.bin", bytesOf<int64_t>(64, upTo96), 96).error,
            "a.bin: its name says uint16 tokens, but these are values of 8 "
            "bytes each: only the first of every 4 uint16 values is more than "
            "0, which is how int64 tokens are stored. Give --token-type int64, "
            "or --token-type uint16 if they are meant so");
}

// A single value in the middle may prove that a file is what its name says.
TEST(TokenTypes, OneValueThatIsSeenIsEnoughToTakeTheNameAtItsWord) {
  std::string bytes = bytesOf<int32_t>(1 << 15, upTo96);
  bytes[(1 << 16) + 2] = 1;
  EXPECT_NE(open("a.bin", bytes, 96).error, "");
  for (int i = 2; i < 1 << 17; i += 4)
    bytes[i] = i > 1 << 16 ? 5 : 0;
  EXPECT_EQ(open("a.bin", bytes, 96).error, "");
  // Few values are not conclusive.
  EXPECT_EQ(open("a.bin", bytesOf<int32_t>(15, upTo96), 96).error, "");
  EXPECT_NE(open("a.bin", bytesOf<int32_t>(16, upTo96), 96).error, "");
}

TEST(TokenTypes, TheOneThatIsGivenIsRead) {
  std::vector<int64_t> ids{0, 7919, 15838, 23757};
  EXPECT_EQ(
      open("a.bin", bytesOf<int64_t>(64, upTo128000), 128000, "int64").first,
      ids);
  EXPECT_EQ(
      open("a.bin", bytesOf<int32_t>(64, upTo128000), 128000, "int32").first,
      ids);
  EXPECT_EQ(open("a.bin", bytesOf<int64_t>(64, upTo96), 96, "uint16").first,
            (std::vector<int64_t>{0, 0, 0, 0}));
}

TEST(TokenTypes, AnIdBeyondTheVocabularyNamesTheTypeThatFits) {
  std::string error = open("a.u32", bytesOf<uint16_t>(64, upTo96), 96).error;
  EXPECT_NE(error.find("takes i64 in [0, 96); as uint16 the file's tokens are "
                       "below 96: is it --token-type uint16?"),
            std::string::npos)
      << error;
  error = open("a.bin", bytesOf<uint8_t>(64, upTo96), 96).error;
  EXPECT_NE(error.find("is it --token-type uint8?"), std::string::npos)
      << error;
  // If no type fits, none is named.
  error = open("a.bin", bytesOf<uint16_t>(64, upTo65536), 96).error;
  EXPECT_NE(error.find("takes i64 in [0, 96)"), std::string::npos) << error;
  EXPECT_EQ(error.find("--token-type"), std::string::npos) << error;
}

} // namespace
} // namespace polyrank::runtime::test
