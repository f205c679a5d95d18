// safetensors files: valid ones survive the round trip, all others are refused.

#include "test/support/TemporaryFolder.h"

#include "support/OutputFile.h"
#include "support/safetensors/Safetensors.h"

#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

std::string safetensors(const std::string &header, const std::string &data,
                        int64_t statedSize = -1) {
  uint64_t size = statedSize >= 0 ? statedSize : header.size();
  return std::string(reinterpret_cast<const char *>(&size), 8) + header + data;
}

std::string tensor(const std::string &name, const std::string &dtype,
                   const std::string &shape, const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string bytesOfIota(int count) {
  std::string data(count, '\0');
  std::iota(data.begin(), data.end(), '\1');
  return data;
}

TEST(SafetensorsReader, TensorsAreFoundWithTypeShapeAndPlace) {
  TemporaryFolder folder;
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," +
                       tensor("w", "F32", "[2,1]", "[3,11]") + "," +
                       tensor("none", "I64", "[0,5]", "[3,3]") + "," +
                       tensor("b", "F8_E4M3", "[3]", "[0,3]") + "," +
                       tensor("s", "BF16", "[]", "[11,13]") + "}   ";
  auto file = SafetensorsFile::open(
      folder.write("a.safetensors", safetensors(header, bytesOfIota(13))));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->tensors().size(), 4u);
  const StoredTensorSpan *w = file->find("w");
  ASSERT_TRUE(w);
  EXPECT_EQ(w->dtype, ElementType::F32);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(w->offset, 8 + header.size() + 3);
  EXPECT_EQ(w->length, 8u);
  EXPECT_EQ(file->find("s")->shape, std::vector<int64_t>{});
  EXPECT_EQ(file->find("b")->dtype, ElementType::F8E4M3FN);
  EXPECT_FALSE(file->find("x"));
  char values[4];
  ASSERT_TRUE(file->read(*w, 4, values, 4));
  EXPECT_EQ(std::string(values, 4), bytesOfIota(13).substr(7, 4));
  EXPECT_FALSE(file->read(*w, 5, values, 4));
  EXPECT_FALSE(file->read(*w, ~uint64_t(0), values, 4));
}

TEST(SafetensorsReader, EveryHeaderThatTheFormatForbidsIsRefused) {
  auto one = [](const std::string &entry) { return "{" + entry + "}"; };
  std::string good = tensor("a", "F32", "[2]", "[0,8]");
  struct Row {
    std::string header;
    const char *problem; // with 8 bytes of data
  };
  const Row rows[] = {
      {one(good), nullptr},
      {one(good) + "    ", nullptr},
      {" " + one(good), "does not begin"},
      {one(good) + "x", "not JSON"},
      {"{" + good + ",", "not JSON"},
      {"[]", "does not begin"},
      {"", "does not begin"},
      {one(good + "," + good), "second entry"},
      {one("\"__metadata__\":{},\"__metadata__\":{}," + good), "second entry"},
      {one("\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}," + good),
       "second entry"},
      {one("\"__metadata__\":{\"k\":1}," + good), "a number"},
      {one("\"__metadata__\":{\"k\":{}}," + good), "an object"},
      {one("\"__metadata__\":\"x\"," + good), "the string"},
      {one("\"__metadata__\":[]," + good), "an array"},
      {one("\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],"
           "\"data_offsets\":[0,8]}"),
       "second entry"},
      {one("\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],"
           "\"x\":1}"),
       "unknown key"},
      {one("\"a\":{\"dtype\":\"F32\",\"shape\":[2]}"), "without"},
      {one("\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}"), "without"},
      {one("\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}"), "without"},
      {one("\"a\":null"), "null"},
      {one("\"a\":[0,8]"), "array"},
      {one(tensor("a", "F32", "[2]", "[0]")), "without"},
      {one(tensor("a", "F32", "[2]", "[0,8,8]")), "third offset"},
      {one(tensor("a", "F32", "[2.0]", "[0,8]")), "number 2.0"},
      {one(tensor("a", "F32", "[-2]", "[0,8]")), "negative"},
      {one(tensor("a", "F32", "[[2]]", "[0,8]")), "array"},
      {one(tensor("a", "F32", "[true]", "[0,8]")), "boolean"},
      {one(tensor("a", "F32", "[\"2\"]", "[0,8]")), "string"},
      {one(tensor("a", "F31", "[2]", "[0,8]")), "unknown dtype 'F31'"},
      {one(tensor("a", "F32", "[3]", "[0,8]")), "needs 96 bits"},
      {one(tensor("a", "F4", "[3]", "[0,2]")), "needs 12 bits"},
      {one(tensor("a", "F32", "[4294967296,4294967296]", "[0,8]")),
       "too large"},
      {one(tensor("a", "F32", "[18446744073709551615]", "[0,8]")),
       "too large dims"},
      {one(tensor("a", "F32", "[18446744073709551616]", "[0,8]")), "number"},
      {one(tensor("a", "U8", "[4]", "[4,8]")), "leave a hole"},
      {one(tensor("a", "U8", "[4]", "[0,4]") + "," +
           tensor("b", "U8", "[3]", "[5,8]")),
       "leave a hole"},
      {one(tensor("a", "U8", "[4]", "[0,4]") + "," +
           tensor("b", "U8", "[5]", "[3,8]")),
       "overlap"},
      {one(tensor("a", "F32", "[2]", "[0,8]") + "," +
           tensor("b", "F32", "[2]", "[0,8]")),
       "overlap"},
      {one(tensor("a", "U8", "[4]", "[0,4]")), "belong to no tensor"},
      {one(tensor("a", "U8", "[9]", "[0,9]")), "data that has 8 bytes"},
      {one(tensor("a", "U8", "[0]", "[9,9]")), "data that has 8 bytes"},
      {one(tensor("a", "U8", "[0]", "[8,0]")), "lies at"},
      {one(tensor("a", "F32", "[2]", "[0,18446744073709551615]")), "lies at"},
      {one("\"\xff\":1"), "not JSON"},
      {std::string(100000, '['), "does not begin"},
      {"{\"a\":" + std::string(100000, '{'), "not JSON"},
      {"{}", "belong to no tensor"}};
  TemporaryFolder folder;
  for (const Row &row : rows) {
    auto file = SafetensorsFile::open(
        folder.write("a.safetensors", safetensors(row.header, "12345678")));
    if (!row.problem) {
      EXPECT_TRUE(file) << row.header;
      continue;
    }
    ASSERT_FALSE(file) << row.header.substr(0, 200);
    EXPECT_NE(file.error().message.find(row.problem), std::string::npos)
        << row.header.substr(0, 200) << ": " << file.error().message;
  }
}

TEST(SafetensorsReader, ALengthBeyondTheFileIsRefusedBeforeMemoryIsTaken) {
  TemporaryFolder folder;
  std::string good = "{" + tensor("a", "U8", "[2]", "[0,2]") + "}";
  for (int64_t size :
       {int64_t(good.size()) + 3, int64_t(100'000'001), INT64_MAX})
    EXPECT_FALSE(SafetensorsFile::open(
        folder.write("a.safetensors", safetensors(good, "12", size))));
  std::string whole = safetensors(good, "12");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(SafetensorsFile::open(
        folder.write("a.safetensors", whole.substr(0, length))))
        << length;
}

TEST(SafetensorsReader, AHeaderOfEmptyValuesIsRefusedBeforeItIsParsed) {
  std::string many = "{\"a\":[";
  for (int i = 0; i < 1'100'000; ++i)
    many += "[],";
  TemporaryFolder folder;
  auto file = SafetensorsFile::open(
      folder.write("a.safetensors", safetensors(many + "0]}", "")));
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find(
                "a.safetensors: takes more than 134217728 bytes of memory"),
            std::string::npos)
      << file.error().message;
}

const std::vector<TensorSpec> threeTensors = {
    {"tiny", ElementType::U8, {3}},
    {"h.0.\"w\"\n\xc3\xa9", ElementType::F32, {2, 3}},
    {"step", ElementType::I64, {}}};

std::span<const std::byte> bytes(const std::string &text) {
  return std::as_bytes(std::span(text));
}

OutputFile outputFile(const std::string &path) {
  auto file = OutputFile::create(path);
  EXPECT_TRUE(file) << file.error().message;
  return *std::move(file);
}

TEST(SafetensorsWriter, WhatSeveralRanksWriteIsOneFileThatIsReadBack) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  std::string weight = bytesOfIota(24), step(8, '\5');
  OutputFile output = outputFile(path);
  int number = output.descriptor().get();
  EXPECT_FALSE(SafetensorsWriter::join(path, number, threeTensors));
  auto creator =
      SafetensorsWriter::create(path, number, threeTensors, {{"format", "pt"}});
  ASSERT_TRUE(creator) << creator.error().message;
  auto joined =
      SafetensorsWriter::join(path, number, threeTensors, {{"format", "pt"}});
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_TRUE(joined->checkHeader(number));
  ASSERT_TRUE(creator->write(1, 0, bytes(weight.substr(0, 8))));
  ASSERT_TRUE(joined->write(1, 8, bytes(weight.substr(8))));
  ASSERT_TRUE(joined->write(2, 0, bytes(step)));
  ASSERT_TRUE(creator->write(0, 0, bytes("abc")));
  EXPECT_FALSE(creator->write(0, 1, bytes("abc")));
  ASSERT_TRUE(joined->finish());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(creator->finish() && output.commit());
  EXPECT_EQ(folder.count(), 1u);

  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().at("format"), "pt");
  std::string contents[] = {"abc", weight, step};
  for (size_t t = 0; t < threeTensors.size(); ++t) {
    const StoredTensorSpan *span = file->find(threeTensors[t].name);
    ASSERT_TRUE(span);
    EXPECT_EQ(span->dtype, threeTensors[t].dtype);
    EXPECT_EQ(span->shape, threeTensors[t].shape);
    EXPECT_EQ(span->offset % bytesOf(threeTensors[t].dtype), 0u);
    std::string back(span->length, '\0');
    ASSERT_TRUE(file->read(*span, 0, back.data(), back.size()));
    EXPECT_EQ(back, contents[t]);
  }
}

// The parts of a complex number are two floats of the model, and one element of
// the file, which is aligned as such.
TEST(SafetensorsWriter, PairsOfFloatsAreComplexNumbersInTheFile) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  const std::vector<TensorSpec> tensors{{"a", ElementType::F32, {3}},
                                        {"z", ElementType::F32, {2, 2}, true},
                                        {"one", ElementType::F32, {2}, true}};
  std::string pairs = bytesOfIota(16);
  OutputFile output = outputFile(path);
  auto writer =
      SafetensorsWriter::create(path, output.descriptor().get(), tensors);
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(writer->write(1, 0, bytes(pairs)));
  ASSERT_TRUE(writer->finish() && output.commit());
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("a")->dtype, ElementType::F32);
  const StoredTensorSpan *z = file->find("z"), *one = file->find("one");
  for (const StoredTensorSpan *span : {z, one}) {
    EXPECT_EQ(span->dtype, ElementType::C64);
    EXPECT_EQ(span->offset % 8, 0u);
  }
  EXPECT_EQ(z->shape, (std::vector<int64_t>{2}));
  EXPECT_TRUE(one->shape.empty());
  std::string back(z->length, '\0');
  ASSERT_TRUE(file->read(*z, 0, back.data(), back.size()));
  EXPECT_EQ(back, pairs);
}

TEST(SafetensorsWriter, AFileOfAnotherSizeOrHeaderIsNotWhole) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  OutputFile output = outputFile(path);
  int number = output.descriptor().get();
  auto layout = SafetensorsWriter::layOut(path, threeTensors);
  ASSERT_TRUE(layout);
  auto problem = [&] {
    Result<void> whole = layout->checkHeader(number);
    return whole ? "" : whole.error().message;
  };
  EXPECT_NE(problem().find("has 0 bytes instead of"), std::string::npos);
  ASSERT_TRUE(SafetensorsWriter::create(path, number, threeTensors));
  EXPECT_EQ(problem(), "");
  ASSERT_EQ(pwrite(number, "\0", 1, 20), 1);
  EXPECT_NE(problem().find("does not begin with its header"),
            std::string::npos);
}

// Readers map the file and take the elements where they are.
TEST(SafetensorsWriter, EveryTensorIsAlignedWhateverTheNamesAndTheHeader) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  for (int length = 1; length <= 8; ++length) {
    std::vector<TensorSpec> tensors{
        {std::string(length, 'a'), ElementType::U8, {3}},
        {"b", ElementType::BF16, {1}},
        {"c", ElementType::F64, {1}},
        {"d", ElementType::I8, {}},
        {"e", ElementType::F32, {3}},
        {"f", ElementType::I64, {0}},
        {"g", ElementType::F16, {5}},
        {"h", ElementType::I32, {1}}};
    OutputFile output = outputFile(path);
    auto writer =
        SafetensorsWriter::create(path, output.descriptor().get(), tensors);
    ASSERT_TRUE(writer && writer->finish() && output.commit());
    auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->tensors()[0].offset % 64, 0u) << length;
    for (const StoredTensorSpan &span : file->tensors())
      EXPECT_EQ(span.offset % bytesOf(span.dtype), 0u)
          << span.name << " beside a name of " << length;
  }
}

TEST(SafetensorsWriter, NamesAndMetadataAreUtf8) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  OutputFile output = outputFile(path);
  auto creates = [&](const std::string &name, const std::string &key,
                     const std::string &value) {
    const TensorSpec tensor{name, ElementType::F32, {}};
    return bool(SafetensorsWriter::create(path, output.descriptor().get(),
                                          {&tensor, 1}, {{key, value}}));
  };
  for (const char *good :
       {"a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
        "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(creates(good, good, good)) << testing::PrintToString(good);
  for (const char *bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2x", "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xef\xbf", "\xef\xbfx", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    SCOPED_TRACE(testing::PrintToString(bad));
    EXPECT_FALSE(creates(bad, "k", "v"));
    EXPECT_FALSE(creates("a", bad, "v"));
    EXPECT_FALSE(creates("a", "k", bad));
  }
}

TEST(SafetensorsWriter, ARankThatWritesOtherTensorsCannotJoin) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  OutputFile output = outputFile(path);
  int number = output.descriptor().get();
  auto creator = SafetensorsWriter::create(path, number, threeTensors);
  ASSERT_TRUE(creator);
  std::vector<TensorSpec> others = threeTensors;
  others[1].shape = {2, 4};
  auto joined = SafetensorsWriter::join(path, number, others);
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message.find("the ranks write different tensors"),
            std::string::npos)
      << joined.error().message;
}

TEST(SafetensorsWriter, AFileUnderTheNameIsReplacedOnlyByCommit) {
  TemporaryFolder folder;
  std::string path = folder.write("w.safetensors", "old");
  {
    OutputFile output = outputFile(path);
    auto writer = SafetensorsWriter::create(path, output.descriptor().get(),
                                            threeTensors);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(0, 0, bytes("abc")));
  }
  EXPECT_EQ(folder.read("w.safetensors"), "old");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(SafetensorsWriter, WhatCannotBeAFileIsRefused) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  using Specs = std::vector<TensorSpec>;
  OutputFile output = outputFile(path);
  int number = output.descriptor().get();
  for (const Specs &specs :
       {Specs{{"a", ElementType::F32, {1}}, {"a", ElementType::F32, {1}}},
        Specs{{"__metadata__", ElementType::F32, {1}}},
        Specs{{"\xff", ElementType::F32, {1}}},
        Specs{{"a", ElementType::F32, {-1}}},
        Specs{{"a", ElementType::F32, {int64_t(1) << 40, int64_t(1) << 40}}},
        Specs{{"a", ElementType::F32, {2, 3}, true}},
        Specs{{"a", ElementType::F32, {}, true}},
        Specs{{"a", ElementType::F64, {3, 2}, true}}})
    EXPECT_FALSE(SafetensorsWriter::create(path, number, specs));
  EXPECT_EQ(folder.count(), 0u);
  auto empty = SafetensorsWriter::create(path, number, {});
  ASSERT_TRUE(empty && empty->finish() && output.commit());
  EXPECT_TRUE(SafetensorsFile::open(path));
}

TEST(SafetensorsWriter, ADiskThatIsFullIsReportedAndLeavesNothing) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  const TensorSpec large{"large", ElementType::F32, {1 << 20}};
  pid_t child = fork(); // the limit is the process's
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    OutputFile output = outputFile(path);
    auto writer =
        SafetensorsWriter::create(path, output.descriptor().get(), {&large, 1});
    bool told = !writer && writer.error().fault == Error::Fault::Disk &&
                writer.error().message.find("room") != std::string::npos;
    _exit(told ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.count(), 0u);
}

TEST(SafetensorsWriter, AfterAFailedWriteTheFileCannotBeFinished) {
  TemporaryFolder folder;
  std::string path = folder.path("w.safetensors");
  const TensorSpec large{"large", ElementType::U8, {1 << 20}};
  pid_t child = fork();
  if (child == 0) {
    OutputFile output = outputFile(path);
    auto writer =
        SafetensorsWriter::create(path, output.descriptor().get(), {&large, 1});
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    bool failed = writer && !writer->write(0, 0, bytes(std::string(2000, 'x')));
    _exit(failed && !writer->finish() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(path));
}

} // namespace
} // namespace polyrank::runtime::test
