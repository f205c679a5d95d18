// Several files, weights, documents: the places of samples.

#include "test/support/TemporaryFolder.h"

#include "runtime/data/DataSource.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

namespace polyrank::runtime::test {
namespace {

InputSpec input(const char *name, int64_t length) {
  return {.name = name, .dtype = ElementType::I64, .rowShape = {length}};
}
InputSpec labels(int64_t length) {
  return {.name = "labels",
          .labels = true,
          .dtype = ElementType::I64,
          .rowShape = {length},
          .range = {.limit = 256, .ignore = -100}};
}

std::string bytesFrom(int first, int count) {
  std::string text;
  for (int n = 0; n < count; ++n)
    text += static_cast<char>(first + n);
  return text;
}

using Row = std::vector<int64_t>;

/// Reads rows [begin, end) of one input of a batch.
Row read(const DataSource &data, const Batch &batch, size_t input,
         int64_t begin, int64_t end, int64_t length) {
  Row values((end - begin) * length);
  auto done = data.read(batch, input, begin, end,
                        reinterpret_cast<std::byte *>(values.data()));
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  return values;
}

std::string messageOf(const DataOptions &options,
                      std::vector<InputSpec> inputs) {
  auto data = DataSource::open(options, inputs);
  return data ? "" : data.error().message;
}

TEST(Sources, FilesFollowEachOtherAndEachKeepsItsBounds) {
  TemporaryFolder folder;
  folder.write("1.u8", bytesFrom(0, 8));   // 3 samples of 2, and a rest
  folder.write("2.u8", bytesFrom(100, 2)); // none
  folder.write("3.u8", bytesFrom(200, 5)); // 2
  DataOptions options{.paths = {folder.path("*.u8")},
                      .batch = 5,
                      .order = SampleOrder::Sequential};
  InputSpec inputs[] = {input("ids", 2), labels(2)};
  auto data = DataSource::open(options, inputs);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->samples(Split::Train), 5u);
  EXPECT_EQ(read(*data, data->batchOf(Split::Train, 0), 0, 0, 5, 2),
            (Row{0, 1, 2, 3, 4, 5, 200, 201, 202, 203}));
  EXPECT_EQ(read(*data, data->batchOf(Split::Train, 0), 1, 2, 4, 2),
            (Row{5, 6, 201, 202}));
  EXPECT_NE(data->describe().find("3 files, " + folder.path("1.u8") + " to " +
                                  folder.path("3.u8") +
                                  ": 15 tokens, 5 samples of 2"),
            std::string::npos)
      << data->describe();
  // Random order is one permutation of all.
  options.order = SampleOrder::Random;
  data = DataSource::open(options, inputs);
  Row firsts;
  for (int b = 0; b < 5; ++b)
    firsts.push_back(
        read(*data, data->batchOf(Split::Train, 3), 0, b, b + 1, 2)[0]);
  std::sort(firsts.begin(), firsts.end());
  EXPECT_EQ(firsts, (Row{0, 2, 4, 200, 202}));
}

TEST(Sources, EachFileHoldsItsLastSamplesOut) {
  TemporaryFolder folder;
  folder.write("1.u8", bytesFrom(0, 9));
  folder.write("2.u8", bytesFrom(100, 9));
  InputSpec inputs[] = {input("ids", 2)};
  auto data = DataSource::open({.paths = {folder.path("*.u8")},
                                .batch = 2,
                                .order = SampleOrder::Sequential,
                                .holdout = 0.25},
                               inputs);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->samples(Split::Train), 6u);
  EXPECT_EQ(read(*data, {Split::Train, 0, 6}, 0, 0, 6, 2),
            (Row{0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105}));
  EXPECT_EQ(read(*data, {Split::Holdout, 0, 2}, 0, 0, 2, 2),
            (Row{6, 7, 106, 107}));
}

TEST(Sources, WithWeightsEachHasItsOwnEpochs) {
  TemporaryFolder folder;
  std::string a = folder.write("a.u8", bytesFrom(0, 9)), // 4 samples
      b = folder.write("b.u8", bytesFrom(100, 21));      // 10
  DataOptions options{.paths = {a + ":3", b + ":1"}, .batch = 4, .holdout = 0};
  InputSpec inputs[] = {input("ids", 2)};
  auto data = DataSource::open(options, inputs);
  ASSERT_TRUE(data) << data.error().message;
  std::map<int64_t, int> counts;
  Row ofA;
  for (uint64_t p = 0; p < 160; ++p) {
    int64_t first = read(*data, {Split::Train, p, 1}, 0, 0, 1, 2)[0];
    ++counts[first];
    if (first < 100)
      ofA.push_back(first);
  }
  for (auto [first, count] : counts)
    EXPECT_EQ(count, first < 100 ? 30 : 4) << first;
  EXPECT_EQ(counts.size(), 14u);
  for (size_t epoch = 0; epoch < 30; ++epoch) {
    Row once(ofA.begin() + 4 * epoch, ofA.begin() + 4 * epoch + 4);
    std::sort(once.begin(), once.end());
    EXPECT_EQ(once, (Row{0, 2, 4, 6}));
  }
  EXPECT_NE(data->describe().find("75 % of what is trained on"),
            std::string::npos)
      << data->describe();
  options.paths[0] = folder.write("c.u8", "x") + ":3";
  EXPECT_NE(messageOf(options, {input("ids", 2)}).find("no sample to train on"),
            std::string::npos);
}

TEST(Sources, BatchesOfAllTakeEachSampleAlike) {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write("a.u8", bytesFrom(0, 48))},
                      .batch = 8,
                      .order = SampleOrder::Sequential,
                      .allowPart = true};
  InputSpec inputs[] = {input("ids", 1)};
  auto data = DataSource::open(options, inputs); // 47 samples
  ASSERT_TRUE(data);
  std::map<int64_t, double> weights;
  std::vector<uint64_t> counts;
  for (const Batch &batch : data->batchesOfAll(Split::Train)) {
    counts.push_back(batch.count);
    for (int64_t token : read(*data, batch, 0, 0, 8, 1))
      weights[token] += double(batch.count) / 8;
  }
  EXPECT_EQ(counts, (std::vector<uint64_t>{8, 8, 8, 8, 8, 4, 2, 1}));
  ASSERT_EQ(weights.size(), 47u);
  for (auto [token, weight] : weights)
    EXPECT_EQ(weight, 1) << token;
  options.allowPart = false, options.batch = 64;
  EXPECT_NE(messageOf(options, {input("ids", 1)}), "");
  options.allowPart = true;
  EXPECT_EQ(messageOf(options, {input("ids", 1)}), "");
}

TEST(Sources, AFileLargerThanMemoryIsReadWhereItIsAsked) {
  TemporaryFolder folder;
  std::string path = folder.write("a.bin", "");
  uint64_t bytes = uint64_t(1) << 42; // sparse: 4 TiB
  std::error_code fault;
  std::filesystem::resize_file(path, bytes, fault);
  if (fault)
    GTEST_SKIP() << "no file of 4 TiB here: " << fault.message();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(std::streamoff(bytes - 2));
  file.write("\7\0", 2);
  file.close();
  InputSpec inputs[] = {input("ids", 4), labels(4)};
  auto data = DataSource::open({.paths = {path}, .holdout = 0.5}, inputs);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_FALSE(data->isChecked());
  EXPECT_TRUE(data->checkRanges());
  EXPECT_LT(data->memoryBytes(), 4096u);
  uint64_t last = data->samples(Split::Holdout) - 1;
  EXPECT_EQ(read(*data, {Split::Holdout, last, 1}, 1, 0, 1, 4),
            (Row{0, 0, 0, 0}));
  EXPECT_EQ(read(*data, {Split::Train, 12345, 1}, 0, 0, 1, 4),
            (Row{0, 0, 0, 0}));
}

TEST(Sources, WhatIsOutOfRangeIsFoundWhenTheDataIsOpened) {
  TemporaryFolder folder;
  std::string text = bytesFrom(0, 200);
  text[150] = static_cast<char>(255);
  std::string a = folder.write("a.u8", bytesFrom(0, 100)),
              b = folder.write("b.u8", text);
  InputSpec ids = input("ids", 4), targets = labels(4);
  ids.range.limit = targets.range.limit = 255;
  InputSpec inputs[] = {ids, targets};
  auto data = DataSource::open({.paths = {a, b}}, inputs);
  ASSERT_TRUE(data);
  EXPECT_TRUE(data->isChecked());
  auto bad = data->checkRanges();
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message,
            b + ": value 255 at element 150 (sample 37), but input 'ids' takes "
                "i64 in [0, 255)");
  // The last row is checked, too.
  text = bytesFrom(0, 200);
  text[194] = static_cast<char>(255);
  folder.write("b.u8", text);
  data = DataSource::open({.paths = {a, b}}, inputs);
  bad = data->checkRanges();
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("(sample 48)"), std::string::npos)
      << bad.error().message;
  // A token in no row is not checked.
  text = bytesFrom(0, 200);
  text[199] = static_cast<char>(255);
  folder.write("b.u8", text.substr(0, 198) + text[199]);
  data = DataSource::open({.paths = {a, b}}, inputs);
  EXPECT_TRUE(data->checkRanges());
}

// Documents of 6, 3 and 2 tokens, ended by 9: a b c of TokenRows.h.
const std::string text("\1\2\3\4\5\11\21\22\11\31\11", 11);

DataOptions documentsOf(const std::string &path, DocumentOptions rules) {
  return {
      .paths = {path}, .documents = rules, .order = SampleOrder::Sequential};
}

struct Rows {
  std::vector<Row> inputs;
  uint64_t samples = 0;
};

Rows rowsOf(const DataOptions &options, std::vector<InputSpec> inputs) {
  auto data = DataSource::open(options, inputs);
  EXPECT_TRUE(data) << (data ? "" : data.error().message);
  if (!data)
    return {};
  Rows rows{{}, data->samples(Split::Train)};
  for (size_t i = 0; i < inputs.size(); ++i)
    rows.inputs.push_back(read(*data, {Split::Train, 0, rows.samples}, i, 0,
                               int64_t(rows.samples), inputs[i].rowShape[0]));
  EXPECT_TRUE(data->checkRanges());
  return rows;
}

TEST(Documents, AStreamIsCutWhateverEnds) {
  TemporaryFolder folder;
  std::string path = folder.write("a.u8", text);
  std::vector<InputSpec> inputs{input("ids", 5), labels(5),
                                input("position_ids", 5),
                                input("attention_mask", 5)};
  DocumentOptions rules{.eos = 9};
  Rows rows = rowsOf(documentsOf(path, rules), inputs);
  EXPECT_EQ(rows.samples, 2u);
  EXPECT_EQ(rows.inputs[0], (Row{1, 2, 3, 4, 5, 9, 17, 18, 9, 25}));
  EXPECT_EQ(rows.inputs[1], (Row{2, 3, 4, 5, 9, 17, 18, 9, 25, 9}));
  EXPECT_EQ(rows.inputs[2], (Row{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(rows.inputs[3], Row(10, 1));
  rules.maskLabels = rules.resetPositions = true;
  rows = rowsOf(documentsOf(path, rules), inputs);
  EXPECT_EQ(rows.inputs[1], (Row{2, 3, 4, 5, 9, -100, 18, 9, -100, 9}));
  EXPECT_EQ(rows.inputs[2], (Row{0, 1, 2, 3, 4, 0, 0, 1, 2, 0}));
}

TEST(Documents, PadBeginsARowWithEachAndWholeFillsRows) {
  TemporaryFolder folder;
  std::string path = folder.write("a.u8", text);
  std::vector<InputSpec> inputs{input("ids", 4), labels(4),
                                input("position_ids", 4),
                                input("attention_mask", 4)};
  DocumentOptions rules{.rule = DocumentRule::Pad, .eos = 9};
  Rows rows = rowsOf(documentsOf(path, rules), inputs);
  EXPECT_EQ(rows.samples, 4u);
  EXPECT_EQ(rows.inputs[0],
            (Row{1, 2, 3, 4, 5, 9, 9, 9, 17, 18, 9, 9, 25, 9, 9, 9}));
  EXPECT_EQ(rows.inputs[1], (Row{2, 3, 4, 5, 9, -100, -100, -100, 18, 9, -100,
                                 -100, 9, -100, -100, -100}));
  EXPECT_EQ(rows.inputs[2],
            (Row{0, 1, 2, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows.inputs[3],
            (Row{1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0}));
  rules.rule = DocumentRule::Whole, rules.pad = 7, rules.resetPositions = true;
  rows = rowsOf(documentsOf(path, rules), inputs);
  EXPECT_EQ(rows.samples, 2u);
  EXPECT_EQ(rows.inputs[0], (Row{1, 2, 3, 4, 5, 17, 18, 25}));
  EXPECT_EQ(rows.inputs[1], (Row{2, 3, 4, 5, 9, 18, 9, 9}));
  EXPECT_EQ(rows.inputs[2], (Row{0, 1, 2, 3, 0, 0, 1, 0}));
  // Without labels the last token is an input, and the rest is filled up.
  rows = rowsOf(
      documentsOf(path, {.rule = DocumentRule::Whole, .eos = 9, .pad = 7}),
      {input("ids", 6)});
  EXPECT_EQ(rows.inputs[0], (Row{1, 2, 3, 4, 5, 9, 17, 18, 9, 25, 9, 7}));
  // A document that does not fit into the rest of a row begins another row.
  rows = rowsOf(
      documentsOf(path, {.rule = DocumentRule::Whole, .eos = 9, .pad = 7}),
      {input("ids", 5)});
  EXPECT_EQ(rows.inputs[0],
            (Row{1, 2, 3, 4, 5, 9, 17, 18, 9, 7, 25, 9, 7, 7, 7}));
}

TEST(Documents, OfAMegatronPairAreThoseOfItsIndex) {
  TemporaryFolder folder;
  std::string index("MMIDIDX\0\0", 9);
  auto put = [&](auto value) {
    index.append(reinterpret_cast<const char *>(&value), sizeof(value));
  };
  put(uint64_t(1)), put(uint8_t(1)), put(uint64_t(3)), put(uint64_t(4));
  for (int32_t length : {6, 3, 2})
    put(length);
  for (int64_t offset : {0, 6, 9, 0, 1, 2, 3})
    put(offset);
  folder.write("a.idx", index);
  folder.write("a.bin", text);
  std::vector<InputSpec> inputs{input("ids", 4), labels(4),
                                input("position_ids", 4)};
  for (const char *name : {"a", "a.idx", "a.bin"}) {
    Rows rows = rowsOf(
        documentsOf(folder.path(name), {.rule = DocumentRule::Pad}), inputs);
    EXPECT_EQ(rows.inputs[0],
              (Row{1, 2, 3, 4, 5, 0, 0, 0, 17, 18, 0, 0, 25, 0, 0, 0}));
    rows = rowsOf(documentsOf(folder.path(name),
                              {.maskLabels = true, .resetPositions = true}),
                  inputs);
    EXPECT_EQ(rows.inputs[1], (Row{2, 3, 4, 5, 9, -100, 18, 9}));
    EXPECT_EQ(rows.inputs[2], (Row{0, 1, 2, 3, 0, 1, 0, 1}));
    EXPECT_EQ(rowsOf(documentsOf(folder.path(name), {}), inputs).samples, 2u);
  }
  // A type that is named is read as it is named: 16 bits here.
  DataOptions raw = documentsOf(folder.write("b.bin", text + "x"), {});
  EXPECT_EQ(rowsOf(raw, {input("ids", 4)}).samples, 1u);
  std::filesystem::remove(folder.path("a.bin"));
  EXPECT_NE(messageOf(documentsOf(folder.path("a.idx"), {}), inputs)
                .find("its tokens are not beside it"),
            std::string::npos);
  folder.write("a.bin", text + "x");
  EXPECT_NE(messageOf(documentsOf(folder.path("a"), {}), inputs)
                .find("do the two belong together?"),
            std::string::npos);
  EXPECT_NE(messageOf(documentsOf(folder.write("c.idx", "no"), {}), inputs)
                .find("c.bin"),
            std::string::npos);
}

TEST(Documents, WhatCannotBeDoneIsAnErrorThatSaysWhatItNeeds) {
  TemporaryFolder folder;
  std::string path = folder.write("a.u8", text);
  InputSpec strict = labels(4);
  strict.range.ignore = std::numeric_limits<int64_t>::min();
  InputSpec wide = input("attention_mask", 4), real = wide, twice = labels(4);
  wide.rowShape = {4, 4};
  real.dtype = ElementType::F32;
  twice.name = "more";
  struct Case {
    DocumentOptions rules;
    std::vector<InputSpec> inputs;
    const char *problem;
  };
  for (const Case &each :
       {Case{{.rule = DocumentRule::Pad},
             {input("ids", 4), labels(4)},
             "nothing says where its documents end"},
        {{.maskLabels = true},
         {input("ids", 4), labels(4)},
         "nothing says where its documents end"},
        {{.eos = 9, .resetPositions = true},
         {input("ids", 4), labels(4)},
         "the plan has no input 'position_ids'"},
        {{.rule = DocumentRule::Pad, .eos = 9},
         {input("ids", 4), strict},
         "rows of documents are filled up with labels that do not count"},
        {{.eos = 9, .maskLabels = true},
         {input("ids", 4), strict},
         "--mask-eos needs labels that do not count"},
        {{.eos = 9, .maskLabels = true},
         {input("ids", 4)},
         "--mask-eos is about labels, and the plan has none"},
        {{},
         {input("ids", 4), wide},
         "'attention_mask' is i64 with rows of [4,4]"},
        {{}, {input("ids", 4), real}, "'attention_mask' is f32"},
        {{}, {labels(4), twice}, "beside 'labels'"}}) {
    EXPECT_NE(messageOf(documentsOf(path, each.rules), each.inputs)
                  .find(each.problem),
              std::string::npos)
        << messageOf(documentsOf(path, each.rules), each.inputs);
  }
  // Padding and positions must be in range, too.
  InputSpec ids = input("ids", 4), positions = input("position_ids", 4);
  ids.range.limit = 100, positions.range.limit = 3;
  InputSpec inputs[] = {ids, labels(4)}, few[] = {ids, positions};
  auto padded = DataSource::open(
      documentsOf(path, {.rule = DocumentRule::Pad, .eos = 9, .pad = 100}),
      inputs);
  ASSERT_TRUE(padded);
  auto bad = padded->checkRanges();
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("give another token with --pad-token"),
            std::string::npos);
  auto placed = DataSource::open(documentsOf(path, {}), few);
  bad = placed->checkRanges();
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("'position_ids' cannot take 3"),
            std::string::npos);
}

} // namespace
} // namespace polyrank::runtime::test
