// What changes a fingerprint, and what does not.

#include "test/support/TemporaryFolder.h"

#include "runtime/exec/DataFingerprint.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

std::string bytesFrom(int first, int count) {
  std::string text;
  for (int n = 0; n < count; ++n)
    text += static_cast<char>(first + n);
  return text;
}

std::string fingerprint(const DataOptions &options) {
  InputSpec inputs[] = {
      {.name = "ids", .dtype = ElementType::I64, .rowShape = {4}},
      {.name = "labels",
       .labels = true,
       .dtype = ElementType::I64,
       .rowShape = {4},
       .range = {.ignore = -100}}};
  auto data = DataSource::open(options, inputs);
  EXPECT_TRUE(data) << (data ? "" : data.error().message);
  auto found = fingerprintOf(*data, inputs, options.batch);
  EXPECT_TRUE(found) << (found ? "" : found.error().message);
  return *found;
}

class DataFingerprint : public ::testing::Test {
protected:
  std::string of(auto change) const {
    DataOptions next = options;
    change(next);
    return fingerprint(next);
  }
  bool changes(auto change) const { return of(change) != fingerprint(options); }

  TemporaryFolder folder, other;
  std::string text = bytesFrom(0, 100);
  DataOptions options{.paths = {folder.write("a.u8", text)}, .batch = 2};
};

TEST_F(DataFingerprint, IsOfTheSamplesAndTheirOrder) {
  EXPECT_EQ(fingerprint(options).size(), 32u);
  EXPECT_TRUE(changes([](DataOptions &o) { o.seed = 1; }));
  EXPECT_TRUE(changes([](DataOptions &o) { o.holdout = 0.5; }));
  EXPECT_TRUE(
      changes([](DataOptions &o) { o.order = SampleOrder::Sequential; }));
  EXPECT_TRUE(changes([](DataOptions &o) { o.tokenType = "uint16"; }));
  EXPECT_TRUE(changes([](DataOptions &o) {
    o.documents = {.rule = DocumentRule::Pad, .eos = 5};
  }));
  EXPECT_TRUE(changes([&](DataOptions &o) {
    o.paths = {other.write("a.u8", bytesFrom(1, 100))};
  }));
  EXPECT_TRUE(changes([&](DataOptions &o) {
    o.paths.push_back(folder.write("more.u8", bytesFrom(0, 9)));
  }));
}

TEST_F(DataFingerprint, DependsOnTheWeightsOfSources) {
  std::string b = folder.write("b.u8", bytesFrom(100, 100));
  auto with = [&](const char *first, const char *second) {
    return of(
        [&](DataOptions &o) { o.paths = {o.paths[0] + first, b + second}; });
  };
  EXPECT_NE(with(":1", ":2"), with(":2", ":1"));
  EXPECT_NE(with(":1", ":2"), with("", ""));
}

TEST_F(DataFingerprint, DoesNotDependOnTheFilesNamesOrTheBatch) {
  EXPECT_FALSE(changes([](DataOptions &o) { o.batch = 8; }));
  EXPECT_FALSE(
      changes([&](DataOptions &o) { o.paths = {other.write("a.u8", text)}; }));
  EXPECT_FALSE(
      changes([&](DataOptions &o) { o.paths = {folder.write("b.u8", text)}; }));
}

} // namespace
} // namespace polyrank::runtime::test
