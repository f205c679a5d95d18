// The places of samples in batches, and the files that are refused.

#include "test/support/TemporaryFolder.h"
#include "test/support/ZipBuilder.h"

#include "runtime/data/DataSource.h"
#include "support/arrays/Npz.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

namespace polyrank::runtime::test {
namespace {

TEST(KeyedPermutation, EveryIndexIsTakenOnce) {
  for (uint64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    KeyedPermutation permutation(size, 42, 0);
    std::set<uint64_t> seen;
    for (uint64_t n = 0; n < size; ++n) {
      EXPECT_LT(permutation(n), size);
      seen.insert(permutation(n));
    }
    EXPECT_EQ(seen.size(), size);
  }
}

TEST(KeyedPermutation, SeedAndEpochChangeItAndNothingElse) {
  auto first = [](uint64_t seed, uint64_t epoch) {
    KeyedPermutation permutation(1'000'000, seed, epoch);
    return std::vector<uint64_t>{permutation(0), permutation(1),
                                 permutation(2)};
  };
  EXPECT_EQ(first(1, 0), first(1, 0));
  EXPECT_NE(first(1, 0), first(2, 0));
  EXPECT_NE(first(1, 0), first(1, 1));
  EXPECT_NE(first(1, 1), first(2, 0));
}

// A seed's order is the same on every machine and in every version. These are
// the values of another program for the same network.
TEST(KeyedPermutation, HasTheValuesOfItsDefinition) {
  auto first = [](uint64_t size, uint64_t seed, uint64_t epoch) {
    std::vector<uint64_t> values;
    for (uint64_t n = 0; n < 10; ++n)
      values.push_back(KeyedPermutation(size, seed, epoch)(n));
    return values;
  };
  using Values = std::vector<uint64_t>;
  EXPECT_EQ(first(10, 0, 0), (Values{7, 6, 0, 3, 5, 8, 4, 9, 1, 2}));
  EXPECT_EQ(first(10, 0, 1), (Values{5, 0, 8, 7, 6, 9, 3, 4, 1, 2}));
  EXPECT_EQ(first(10, 1, 0), (Values{2, 6, 8, 9, 1, 0, 3, 4, 5, 7}));
  EXPECT_EQ(first(1000003, 42, 7),
            (Values{224735, 305014, 146263, 120694, 388254, 258920, 121586,
                    265624, 624328, 448519}));
}

TEST(SampleOrder, APositionIsAnEpochAndAPlaceInIt) {
  std::vector<uint64_t> random, sequential;
  for (uint64_t position = 0; position < 20; ++position) {
    random.push_back(sampleAt(SampleOrder::Random, 10, 0, position));
    sequential.push_back(sampleAt(SampleOrder::Sequential, 10, 0, position));
  }
  EXPECT_EQ(random, (std::vector<uint64_t>{7, 6, 0, 3, 5, 8, 4, 9, 1, 2,
                                           5, 0, 8, 7, 6, 9, 3, 4, 1, 2}));
  EXPECT_EQ(sequential, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                               0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(KeyedPermutation, ItShuffles) {
  // Over many keys, each index goes to each place about equally often: 10
  // places, 10000 keys; a standard deviation is 30.
  int counts[10][10] = {};
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    KeyedPermutation permutation(10, seed, 3);
    for (uint64_t n = 0; n < 10; ++n)
      ++counts[n][permutation(n)];
  }
  for (auto &row : counts)
    for (int count : row)
      EXPECT_NEAR(count, 1000, 150);
}

InputSpec tokens(int64_t length, ElementType dtype = ElementType::I32) {
  return {.name = "ids", .dtype = dtype, .rowShape = {length}};
}
InputSpec labels(int64_t length) {
  return {.name = "labels",
          .labels = true,
          .dtype = ElementType::I64,
          .rowShape = {length}};
}

template <typename T>
std::vector<T> rows(const DataSource &source, Split split, uint64_t step,
                    size_t input, int64_t begin, int64_t end,
                    int64_t rowElements) {
  std::vector<T> values((end - begin) * rowElements);
  auto done = source.read(split, step, input, begin, end,
                          reinterpret_cast<std::byte *>(values.data()));
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  return values;
}

std::string bytesUpTo(int count) {
  std::string text;
  for (int n = 0; n < count; ++n)
    text += static_cast<char>(n);
  return text;
}

TEST(TokenFile, SamplesFollowEachOtherAndLabelsAreTheNextToken) {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write("a.txt", bytesUpTo(22))},
                      .batch = 2,
                      .order = SampleOrder::Sequential};
  InputSpec inputs[] = {tokens(4), labels(4)};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(source->samples(Split::Train), 5u); // 21 = 5 * 4 + 1 would do
  EXPECT_EQ(rows<int32_t>(*source, Split::Train, 0, 0, 0, 2, 4),
            (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rows<int64_t>(*source, Split::Train, 0, 1, 0, 2, 4),
            (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  // Step 2 takes sample 4, and begins again.
  EXPECT_EQ(rows<int32_t>(*source, Split::Train, 2, 0, 0, 2, 4),
            (std::vector<int32_t>{16, 17, 18, 19, 0, 1, 2, 3}));
}

TEST(TokenFile, TheTypeComesFromTheNameOrTheOption) {
  TemporaryFolder folder;
  std::string words("\1\0\2\0\3\0\4\0\5\0\6\0", 12);
  struct Row {
    const char *name, *type;
    std::vector<int32_t> expected;
  };
  for (const Row &row :
       {Row{"a.bin", "", {1, 2}}, Row{"a.u16", "", {1, 2}},
        Row{"a.U32", "", {0x20001, 0x40003}}, Row{"a.u8", "", {1, 0}},
        Row{"a.txt", "", {1, 0}}, Row{"a", "uint16", {1, 2}},
        Row{"a.bin", "uint32", {0x20001, 0x40003}},
        Row{"b.npz", "uint8", {1, 0}}}) {
    DataOptions options{.paths = {folder.write(row.name, words)},
                        .tokenType = row.type,
                        .order = SampleOrder::Sequential};
    InputSpec inputs[] = {tokens(2)};
    auto source = DataSource::open(options, inputs);
    ASSERT_TRUE(source) << row.name << ": " << source.error().message;
    EXPECT_EQ(rows<int32_t>(*source, Split::Train, 0, 0, 0, 1, 2), row.expected)
        << row.name;
  }
}

TEST(TokenFile, ARandomOrderVisitsEachSampleOnceAnEpochWhateverTheRanks) {
  TemporaryFolder folder;
  DataOptions options{
      .paths = {folder.write("a.u8", bytesUpTo(41))}, .batch = 4, .seed = 9};
  InputSpec inputs[] = {tokens(2)};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source);
  ASSERT_EQ(source->samples(Split::Train), 20u);
  std::vector<std::vector<int32_t>> epochs(2);
  for (uint64_t step = 0; step < 10; ++step) {
    auto whole = rows<int32_t>(*source, Split::Train, step, 0, 0, 4, 2);
    for (int b = 0; b < 4; ++b) {
      EXPECT_EQ(rows<int32_t>(*source, Split::Train, step, 0, b, b + 1, 2),
                (std::vector<int32_t>{whole[2 * b], whole[2 * b + 1]}));
      epochs[step / 5].push_back(whole[2 * b] / 2);
    }
  }
  std::vector<int32_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto &epoch : epochs) {
    EXPECT_NE(epoch, all);
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, all);
  }
}

TEST(TokenFile, HeldOutSamplesAreTheLastOnesAndNeverTrainedOn) {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write("a.u8", bytesUpTo(41))},
                      .batch = 2,
                      .holdout = 0.25};
  InputSpec inputs[] = {tokens(2)};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source);
  EXPECT_EQ(source->samples(Split::Train), 15u);
  EXPECT_EQ(source->samples(Split::Holdout), 5u);
  EXPECT_EQ(source->batches(Split::Holdout), 2u);
  EXPECT_EQ(rows<int32_t>(*source, Split::Holdout, 1, 0, 0, 2, 2),
            (std::vector<int32_t>{34, 35, 36, 37}));
  for (uint64_t step = 0; step < 30; ++step)
    for (int32_t token : rows<int32_t>(*source, Split::Train, step, 0, 0, 2, 2))
      EXPECT_LT(token, 30);
  EXPECT_NE(source->describe().find("41 uint8 tokens, 20 samples of 2, of "
                                    "which 5 are held out"),
            std::string::npos)
      << source->describe();
}

TEST(TokenFile, HeldOutSamplesAreRoundedUpToWholeOnes) {
  TemporaryFolder folder;
  std::string path = folder.write("a.u8", bytesUpTo(101)); // 100 samples of 1
  InputSpec inputs[] = {tokens(1)};
  for (auto [holdout, expected] : {std::pair(0.0, 0u),
                                   {0.25, 25u},
                                   {0.251, 26u},
                                   {0.101, 11u},
                                   {1e-9, 1u},
                                   {0.999, 100u},
                                   // Products that are not whole as doubles.
                                   {0.07, 7u},
                                   {0.14, 14u},
                                   {0.29, 29u},
                                   {0.57, 57u}}) {
    auto source = DataSource::open(
        {.paths = {path}, .batch = 0, .holdout = holdout}, inputs);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(source->samples(Split::Holdout), expected) << holdout;
    EXPECT_EQ(source->samples(Split::Train), 100 - expected) << holdout;
  }
}

// Labels are one token on: n tokens have (n - 1) / T samples.
TEST(TokenFile, TheLastTokenIsALabelOnly) {
  TemporaryFolder folder;
  InputSpec inputs[] = {tokens(4), labels(4)};
  for (auto [count, samples] :
       {std::pair(5, 1u), {8, 1u}, {9, 2u}, {12, 2u}, {13, 3u}}) {
    auto source = DataSource::open(
        {.paths = {folder.write("a.u8", bytesUpTo(count))}}, inputs);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(source->samples(Split::Train), samples) << count;
    int32_t last = static_cast<int32_t>(4 * samples);
    DataOptions options{.paths = {folder.path("a.u8")},
                        .order = SampleOrder::Sequential};
    source = DataSource::open(options, inputs);
    EXPECT_EQ(rows<int64_t>(*source, Split::Train, samples - 1, 1, 0, 1, 4),
              (std::vector<int64_t>{last - 3, last - 2, last - 1, last}));
  }
  for (int count : {0, 1, 4})
    EXPECT_FALSE(DataSource::open(
        {.paths = {folder.write("a.u8", bytesUpTo(count))}}, inputs))
        << count;
}

TEST(TokenFile, ATokenThatTheInputCannotTakeIsAnErrorThatSaysWhere) {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write("a.u8", bytesUpTo(41))},
                      .order = SampleOrder::Sequential};
  InputSpec inputs[] = {tokens(4)};
  inputs[0].range = {.limit = 30};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source);
  int32_t values[4];
  auto *into = reinterpret_cast<std::byte *>(values);
  EXPECT_TRUE(source->read(Split::Train, 6, 0, 0, 1, into));
  auto bad = source->read(Split::Train, 7, 0, 0, 1, into);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("value 30 at element 30 (sample 7), but "
                                     "input 'ids' takes i32 in [0, 30)"),
            std::string::npos)
      << bad.error().message;
}

TEST(TokenFile, WhatIsNoTokensIsNamedUnlessTheirTypeIsGiven) {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write(
                          "a.bin", std::string("\x1f\x8b\x08\0abcdefgh", 12))}};
  InputSpec inputs[] = {tokens(4)};
  auto source = DataSource::open(options, inputs);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().message,
            options.paths[0] +
                ": is compressed with gzip; unpack it first: gzip -dk FILE; if "
                "these are tokens all the same, give their --token-type");
  options.tokenType = "uint16";
  EXPECT_TRUE(DataSource::open(options, inputs));
}

/// An npz set of two samples of three tokens.
std::string messageOfLabels(std::vector<int64_t> values, IndexRange range,
                            bool isLabels, std::string *warning = nullptr) {
  TemporaryFolder folder;
  std::string path = folder.path("set.npz");
  auto writer = NpzWriter::create(path);
  std::vector<int64_t> ids{1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  auto bytes = [](auto &values) { return std::as_bytes(std::span(values)); };
  (void)writer->add("ids", ElementType::I64, shape, bytes(ids));
  (void)writer->add("y", ElementType::I64, shape, bytes(values));
  (void)writer->commit();
  InputSpec ids64{.name = "ids", .dtype = ElementType::I64, .rowShape = {3}};
  InputSpec inputs[] = {ids64, ids64};
  inputs[1].name = "y";
  inputs[1].labels = isLabels;
  inputs[1].range = range;
  auto source = DataSource::open(
      {.paths = {path}, .batch = 2, .order = SampleOrder::Sequential}, inputs);
  if (!source)
    return source.error().message;
  if (warning)
    *warning = source->findUnshifted();
  int64_t read[6];
  auto done = source->read(Split::Train, 0, 1, 0, 2,
                           reinterpret_cast<std::byte *>(read));
  return done ? "" : done.error().message;
}

TEST(Labels, WhatDoesNotCountIsSaidWithTheWayToChooseIt) {
  auto contains = [](const std::string &text, const char *part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  std::vector<int64_t> values{0, 1, -1, 2, 3, -100};
  contains(messageOfLabels(values, {.limit = 7, .ignore = -100}, true),
           "value -1 at element 2 (sample 0), but input 'y' takes i64 in [0, "
           "7), or -100 for what does not count; where that is -1, compile "
           "with --loss 'cross_entropy(OUTPUT,y,ignore_index=-1)'");
  std::string own =
      messageOfLabels(values, {.limit = 7, .ignore = -100}, false);
  EXPECT_TRUE(own.ends_with("[0, 7), or -100 for what does not count")) << own;
  std::string index = messageOfLabels(values, {.limit = 7}, false);
  EXPECT_TRUE(index.ends_with("[0, 7)")) << index;
  std::string large =
      messageOfLabels({9, 0, 0, 0, 0, 0}, {.limit = 7, .ignore = -1}, true);
  EXPECT_TRUE(large.ends_with("or -1 for what does not count")) << large;
}

TEST(Labels, ThatAreTheInputsAreWarnedOf) {
  auto warningOf = [](std::vector<int64_t> values, bool isLabels = true) {
    std::string warning;
    EXPECT_EQ(messageOfLabels(values, {.limit = 7, .ignore = -100}, isLabels,
                              &warning),
              "");
    return warning;
  };
  std::string same = warningOf({1, 2, 3, 4, -100, 6});
  EXPECT_NE(same.find("the labels 'y' are 'ids' itself"), same.npos) << same;
  EXPECT_NE(same.find("labels[:, :-1] = ids[:, 1:], labels[:, -1] = -100"),
            same.npos);
  EXPECT_EQ(warningOf({2, 3, -100, 5, 6, -100}), "");
  EXPECT_EQ(warningOf({1, 2, 3, 4, 5, 0}), "");
  EXPECT_EQ(warningOf({-100, -100, -100, -100, -100, -100}), "");
  EXPECT_EQ(warningOf({1, 2, 3, 4, 5, 6}, /*isLabels=*/false), "");
}

TEST(TokenFile, WhatCannotFeedTheInputsIsAClearError) {
  TemporaryFolder folder;
  std::string text = folder.write("a.txt", bytesUpTo(100));
  struct Row {
    DataOptions options;
    std::vector<InputSpec> inputs;
    const char *problem;
  };
  InputSpec image{
      .name = "image", .dtype = ElementType::F32, .rowShape = {3, 4}};
  InputSpec mask = tokens(4);
  mask.name = "mask";
  std::string llmc("\x88\xd8\x34\x01", 4);
  llmc.resize(2048);
  const Row rows[] = {
      {{.paths = {text}, .batch = 34},
       {tokens(3)},
       "fewer than one global batch"},
      {{.paths = {text}, .batch = 30, .holdout = 0.5},
       {tokens(3)},
       "fewer than one global batch"},
      {{.paths = {text}, .batch = 10, .holdout = 0.1},
       {tokens(3)},
       "held-out samples are fewer"},
      {{.paths = {text}, .holdout = 1}, {tokens(3)}, "not in [0, 1)"},
      {{.paths = {text}, .holdout = NAN}, {tokens(3)}, "not in [0, 1)"},
      {{.paths = {text}}, {image}, "give a .npz set"},
      {{.paths = {text}},
       {tokens(4), mask},
       "'mask' is i32 with rows of [4] "
       "beside 'ids'"},
      {{.paths = {text}}, {tokens(4), labels(5)}, "different lengths, 4 and 5"},
      {{.paths = {text}}, {}, "no inputs"},
      {{.paths = {text}, .tokenType = "float32"}, {tokens(3)}, "'float32'"},
      {{.paths = {folder.write("odd.bin", "123")}},
       {tokens(1)},
       "whole number"},
      {{.paths = {folder.write("a.dat", "1234")}},
       {tokens(1)},
       "files called .dat are not read"},
      {{.paths = {folder.write("noname", "1234")}},
       {tokens(1)},
       "does not say"},
      {{.paths = {folder.write("llmc.bin", llmc)}}, {tokens(1)}, "llm.c"},
      {{.paths = {folder.path("none.txt")}}, {tokens(1)}, "No such file"},
      {{.paths = {"/dev/null"}, .tokenType = "uint8"}, {tokens(1)}, "regular"}};
  for (const Row &row : rows) {
    auto source = DataSource::open(row.options, row.inputs);
    ASSERT_FALSE(source) << row.problem;
    EXPECT_NE(source.error().message.find(row.problem), std::string::npos)
        << source.error().message;
  }
}

TEST(TokenFile, WhatIsTheSameForAllRowsNeedsNoBatch) {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write("a.u8", bytesUpTo(41))},
                      .batch = 2};
  InputSpec positions{.name = "position_ids",
                      .dtype = ElementType::I64,
                      .rowShape = {1, 4},
                      .batchDim = noBatch};
  InputSpec inputs[] = {positions, tokens(4)};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(rows<int64_t>(*source, Split::Train, 3, 0, 1, 2, 4),
            (std::vector<int64_t>{0, 1, 2, 3}));
  auto problem = [&](const InputSpec &spec) {
    InputSpec both[] = {tokens(4), spec};
    auto opened = DataSource::open(options, both);
    return opened ? "" : opened.error().message;
  };
  positions.rowShape = {1, 5};
  EXPECT_NE(problem(positions).find("rows of different lengths, 4 and 5"),
            std::string::npos);
  positions.rowShape = {1, 4};
  options.documents.resetPositions = true;
  options.documents.eos = 0;
  EXPECT_NE(problem(positions).find(
                "input 'position_ids' has no batch: all samples take the same, "
                "but rows of documents differ"),
            std::string::npos)
      << problem(positions);
  options.documents = {};
  InputSpec text = tokens(4);
  text.batchDim = noBatch;
  InputSpec alone[] = {text};
  auto opened = DataSource::open(options, alone);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("but rows of tokens differ"),
            std::string::npos)
      << opened.error().message;
}

TEST(TokenFile, AFileThatShrinksIsAnErrorAndNoSignal) {
  TemporaryFolder folder;
  DataOptions options{.paths = {folder.write("a.u8", bytesUpTo(41))}};
  InputSpec inputs[] = {tokens(4)};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source);
  std::filesystem::resize_file(options.paths[0], 0);
  int32_t values[4];
  EXPECT_FALSE(source->read(Split::Train, 0, 0, 0, 1,
                            reinterpret_cast<std::byte *>(values)));
}

struct NpzSet {
  TemporaryFolder folder;
  std::string path = folder.path("set.npz");

  /// 6 samples: image [6,2,2] of f64, target [6] of i64, short [5].
  NpzSet() {
    auto writer = NpzWriter::create(path);
    std::vector<double> image(24);
    std::iota(image.begin(), image.end(), 0.5);
    std::vector<int64_t> target{3, 1, 4, 1, 5, int64_t(1) << 40};
    const int64_t imageShape[] = {6, 2, 2}, six[] = {6}, five[] = {5};
    auto bytes = [](auto &values) { return std::as_bytes(std::span(values)); };
    (void)writer->add("image", ElementType::F64, imageShape, bytes(image));
    (void)writer->add("labels", ElementType::I64, six, bytes(target));
    target.pop_back();
    (void)writer->add("short", ElementType::I64, five, bytes(target));
    (void)writer->commit();
  }
};

const InputSpec imageInput{
    .name = "image", .dtype = ElementType::F32, .rowShape = {2, 2}};
const InputSpec targetInput{.name = "target",
                            .labels = true,
                            .dtype = ElementType::I32,
                            .rowShape = {}};

TEST(NpzSetTest, EachInputReadsItsArrayAndLabelsGoByEitherName) {
  NpzSet set;
  DataOptions options{
      .paths = {set.path}, .batch = 2, .order = SampleOrder::Sequential};
  InputSpec inputs[] = {imageInput, targetInput};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(rows<float>(*source, Split::Train, 1, 0, 1, 2, 4),
            (std::vector<float>{12.5, 13.5, 14.5, 15.5}));
  EXPECT_EQ(rows<int32_t>(*source, Split::Train, 1, 1, 0, 2, 1),
            (std::vector<int32_t>{4, 1}));
  int32_t values[2];
  auto bad = source->read(Split::Train, 2, 1, 0, 2,
                          reinterpret_cast<std::byte *>(values));
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("array 'labels': value 1099511627776"),
            std::string::npos)
      << bad.error().message;
}

TEST(NpzSetTest, SamplesLieWhereTheInputSays) {
  NpzSet set;
  DataOptions options{
      .paths = {set.path}, .batch = 2, .order = SampleOrder::Sequential};
  InputSpec middle = imageInput, whole = imageInput;
  middle.rowShape = {6, 2};
  middle.batchDim = 1;
  whole.rowShape = {6, 2, 2};
  whole.batchDim = noBatch;
  InputSpec inputs[] = {middle, whole};
  auto source = DataSource::open(options, inputs);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(rows<float>(*source, Split::Train, 0, 0, 1, 2, 12),
            (std::vector<float>{2.5, 3.5, 6.5, 7.5, 10.5, 11.5, 14.5, 15.5,
                                18.5, 19.5, 22.5, 23.5}));
  for (int sample : {0, 1}) {
    auto row = rows<float>(*source, Split::Train, 0, 1, sample, sample + 1, 24);
    EXPECT_EQ(row.front(), 0.5);
    EXPECT_EQ(row.back(), 23.5);
  }
}

TEST(NpzSetTest, WhatCannotFeedTheInputsIsAClearError) {
  NpzSet set;
  InputSpec batchless = imageInput, inner = imageInput;
  batchless.batchDim = noBatch;
  inner.batchDim = 1;
  inner.rowShape = {6, 4};
  InputSpec other = imageInput, shaped = imageInput, typed = imageInput,
            uneven{.name = "short", .dtype = ElementType::I64, .rowShape = {}};
  InputSpec second = targetInput;
  second.name = "second";
  other.name = "picture";
  shaped.rowShape = {4};
  typed.dtype = ElementType::I32;
  struct Row {
    std::vector<InputSpec> inputs;
    const char *problem;
  };
  for (const Row &row :
       {Row{{other},
            "no array 'picture' for the input of that name; it has: "
            "image, labels, short"},
        Row{{shaped},
            "array 'image' has shape [6,2,2], but input 'image' "
            "takes samples of [4]"},
        Row{{batchless},
            "input 'image' has no batch: all samples take the same [2,2], "
            "which the file has once"},
        Row{{inner},
            "input 'image' has the batch in dim 1: it takes an array of "
            "[6,SAMPLES,4]"},
        Row{{typed}, "holds float64, but input 'image' takes i32"},
        // `labels` would be ambiguous between the two.
        Row{{targetInput, second}, "no array 'target'"},
        Row{{imageInput, uneven}, "'short' has 5 samples, but 'image' has 6"},
        Row{{}, "no inputs"}}) {
    auto source = DataSource::open({.paths = {set.path}}, row.inputs);
    ASSERT_FALSE(source) << row.problem;
    EXPECT_NE(source.error().message.find(row.problem), std::string::npos)
        << source.error().message;
  }
}

template <typename S, typename T>
bool converts(ElementType from, S value, ElementType to, T expected,
              IndexRange range = {}) {
  T result{};
  auto bad = convertValues(from, reinterpret_cast<const std::byte *>(&value), 1,
                           to, range, reinterpret_cast<std::byte *>(&result));
  return !bad && result == expected;
}
template <typename S>
bool refuses(ElementType from, S value, ElementType to, IndexRange range = {}) {
  int64_t result = 0;
  return convertValues(from, reinterpret_cast<const std::byte *>(&value), 1, to,
                       range, reinterpret_cast<std::byte *>(&result))
      .has_value();
}

TEST(Values, AreKeptExactlyOrRefused) {
  EXPECT_TRUE(
      converts(ElementType::U16, uint16_t(65535), ElementType::I32, 65535));
  EXPECT_TRUE(refuses(ElementType::U32, uint32_t(1) << 31, ElementType::I32));
  EXPECT_TRUE(refuses(ElementType::U64, ~uint64_t(0), ElementType::I64));
  EXPECT_TRUE(refuses(ElementType::I8, int8_t(-1), ElementType::U8));
  EXPECT_TRUE(
      converts(ElementType::U8, uint8_t(1), ElementType::BOOL, uint8_t(1)));
  EXPECT_TRUE(refuses(ElementType::U8, uint8_t(2), ElementType::BOOL));
  EXPECT_TRUE(converts(ElementType::BOOL, uint8_t(1), ElementType::F32, 1.0f));
  EXPECT_TRUE(
      converts(ElementType::I32, -(1 << 24), ElementType::F32, -16777216.0f));
  EXPECT_TRUE(refuses(ElementType::I32, (1 << 24) + 1, ElementType::F32));
  EXPECT_TRUE(converts(ElementType::F64, 0.1, ElementType::F32, 0.1f));
  EXPECT_TRUE(refuses(ElementType::F64, 1e300, ElementType::F32));
  EXPECT_TRUE(converts(ElementType::F64, double(INFINITY), ElementType::F32,
                       float(INFINITY)));
  EXPECT_TRUE(refuses(ElementType::F32, 1e6f, ElementType::F16));
  EXPECT_TRUE(converts(ElementType::F16, uint16_t(0x3c00), ElementType::BF16,
                       uint16_t(0x3f80)));
  EXPECT_FALSE(canConvert(ElementType::F32, ElementType::I64));
  EXPECT_TRUE(canConvert(ElementType::BOOL, ElementType::I64));
}

TEST(Values, AnIndexIsInRangeOrTheOneThatIsIgnored) {
  IndexRange range{.limit = 10, .ignore = -100};
  EXPECT_TRUE(
      converts(ElementType::I64, int64_t(9), ElementType::I32, 9, range));
  EXPECT_TRUE(
      converts(ElementType::I64, int64_t(-100), ElementType::I32, -100, range));
  EXPECT_TRUE(refuses(ElementType::I64, int64_t(10), ElementType::I32, range));
  EXPECT_TRUE(refuses(ElementType::I64, int64_t(-1), ElementType::I32, range));
}

} // namespace
} // namespace polyrank::runtime::test
