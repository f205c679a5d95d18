// Where weights are found, and which are refused.

#include "runtime/exec/Weights.h"
#include "support/Fingerprint.h"
#include "support/OutputFile.h"
#include "test/runtime/PlanBuilder.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

namespace polyrank::runtime::test {
namespace {

class WeightsTest : public testing::Test {
protected:
  TemporaryDirectory directory;
  std::string weights = directory / "weights.bin",
              init = directory / "init.safetensors";
  std::vector<float> values = std::vector<float>(targets * features);
  plan::PlanT plan;
  float step = 100; // from one tensor of `init` to the next

  void SetUp() override {
    std::iota(values.begin(), values.end(), 1.0f);
    writeValues();
    LinearModel model;
    model.weights = weights;
    plan = linearPlan(model);
  }
  /// Writes the values where the plan expects them, after 16 other bytes.
  void writeValues() {
    std::vector<float> file(4, 0);
    file.insert(file.end(), values.begin(), values.end());
    writeFile(weights, file.data(), 4 * file.size());
    if (!plan.stored.empty())
      sign(*plan.stored[0]->source);
  }
  LoadedPlan load() {
    std::string path = directory / "linear.plan";
    EXPECT_TRUE(writePlan(path, serialise(plan)));
    auto loaded = loadPlan(path);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return *std::move(loaded);
  }
  void writeInit(const std::vector<TensorSpec> &tensors) {
    auto output = OutputFile::create(init);
    ASSERT_TRUE(output) << output.error().message;
    auto writer =
        SafetensorsWriter::create(init, output->descriptor().get(), tensors);
    ASSERT_TRUE(writer) << writer.error().message;
    for (size_t t = 0; t < tensors.size(); ++t) {
      std::vector<float> shifted = values;
      for (float &value : shifted)
        value += step * static_cast<float>(t);
      ASSERT_TRUE(writer->write(t, 0, std::as_bytes(std::span(shifted))));
    }
    ASSERT_TRUE(writer->finish() && output->commit());
  }
  /// Returns the first value, or the error.
  std::string first(const std::string &init, bool withoutNan = false) {
    LoadedPlan loaded = load();
    auto opened = Weights::open(loaded, init);
    if (!opened)
      return opened.error().message;
    if (auto same = opened->checkDigests(0, 1); !same)
      return same.error().message;
    auto sources = withoutNan ? opened->sourcesWithoutNan() : opened->sources();
    std::vector<float> read(values.size());
    auto done = sources[0].read(0, read.data(), 4 * read.size());
    return done ? std::to_string(int(read[0])) : done.error().message;
  }
};

#define EXPECT_SAYS(text, part)                                                \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(WeightsTest, AreReadWhereThePlanSaysOrBesideIt) {
  EXPECT_EQ(first(""), "1");
  plan.stored[0]->source->path = "/nowhere/weights.bin";
  EXPECT_EQ(first(""), "1");
  plan.stored[0]->source->path = "/nowhere/others.bin";
  EXPECT_SAYS(first(""), "/nowhere/others.bin");
}

TEST_F(WeightsTest, OfARelativePathAreThoseBesideThePlanWhereverItRuns) {
  std::string elsewhere = directory / "elsewhere";
  std::filesystem::create_directories(elsewhere + "/data");
  std::filesystem::create_directory(directory / "data");
  std::filesystem::rename(weights, directory / "data/w.bin");
  // One of that name is in the working directory too, cut short.
  writeFile(elsewhere + "/data/w.bin", "none", 4);
  auto before = std::filesystem::current_path();
  std::filesystem::current_path(elsewhere);
  plan.stored[0]->source->path = "data/w.bin";
  EXPECT_EQ(first(""), "1");
  std::filesystem::current_path(before);
}

// A plan is untrusted: it must not make another user's run copy data that its
// author has never seen.
TEST_F(WeightsTest, ThatThePlanDoesNotKnowAreNotRead) {
  plan.stored[0]->source->digests.clear();
  EXPECT_SAYS(first(""), "the plan does not say what bytes 16 to 64 of '" +
                             weights + "' should be");
}

TEST_F(WeightsTest, OfAnotherFileAreRefused) {
  auto compiled = plan.stored[0]->source->digests;
  EXPECT_EQ(first(""), "1");
  values.back() += 1;
  writeValues();
  plan.stored[0]->source->digests = compiled;
  EXPECT_SAYS(first(""), "bytes 16 to 64 of '" + weights +
                             "' are not those that the plan was compiled with");
  std::filesystem::resize_file(weights, 63);
  EXPECT_SAYS(first(""), "which has 63: it is not the file that was compiled");
  plan.stored[0]->source.reset();
  EXPECT_SAYS(first(""), "was compiled without weights");
}

TEST_F(WeightsTest, OfAFileAreFoundByNameAliasOrTheOnlyNameThatEndsAlike) {
  std::vector<int64_t> shape{targets, features};
  auto specs = [&](std::vector<std::string> names) {
    std::vector<TensorSpec> tensors;
    for (const std::string &name : names)
      tensors.push_back({name, ElementType::F32, shape});
    return tensors;
  };
  writeInit(specs({"model.linear.weight", "linear.weight", "tied.weight"}));
  EXPECT_EQ(first(init), "101");
  writeInit(specs({"model.linear.weight", "tied.weight"}));
  EXPECT_EQ(first(init), "101");
  writeInit(specs({"other", "model.linear.weight"}));
  EXPECT_EQ(first(init), "101");
  writeInit(specs({"other", "weight"})); // of the model's wrapper
  EXPECT_EQ(first(init), "101");
  writeInit(specs({"a.linear.weight", "b.linear.weight"}));
  EXPECT_SAYS(first(init), "has no tensors for linear.weight");
  writeInit(specs({"nonlinear.weight"}));
  EXPECT_SAYS(first(init), "has no tensors for linear.weight");
  shape = {features, targets};
  writeInit(specs({"linear.weight"}));
  EXPECT_SAYS(first(init),
              "'linear.weight' has shape [3,4], the plan has [4,3]");
}

// A tied tensor with different values under two names is ambiguous.
TEST_F(WeightsTest, OfATiedTensorAreTheSameUnderAllItsNames) {
  auto tied = [&](const std::vector<TensorSpec> &tensors) -> std::string {
    writeInit(tensors);
    LoadedPlan loaded = load();
    auto opened = Weights::open(loaded, init);
    EXPECT_TRUE(opened) << opened.error().message;
    Result<void> same = opened->checkTied();
    return same ? fmt::format("{}", fmt::join(opened->unread(), " "))
                : same.error().message;
  };
  auto spec = [](const char *name, ElementType dtype = ElementType::F32) {
    return TensorSpec{name, dtype, {targets, features}};
  };
  for (const char *prefix : {"", "model."}) {
    std::string one = std::string(prefix) + "linear.weight",
                other = std::string(prefix) + "tied.weight";
    EXPECT_SAYS(tied({spec(one.c_str()), spec(other.c_str())}),
                "--init: '" + one + "' and '" + other +
                    "' are one tensor of the model (they are tied), but two "
                    "in " +
                    init + ": their values differ at element [0,0]");
  }
  EXPECT_SAYS(
      tied({spec("linear.weight"), spec("tied.weight", ElementType::I32)}),
      "the one is F32 [4,3], the other I32 [4,3]");
  EXPECT_EQ(tied({spec("linear.weight"), spec("weight"), spec("b"), spec("a")}),
            "a b weight");
  step = 0;
  EXPECT_EQ(tied({spec("linear.weight"), spec("tied.weight")}), "");
}

// Two floats of the plan are one element of the file.
TEST_F(WeightsTest, OfComplexNumbersAreThoseOfAFile) {
  std::vector<int64_t> pairs{targets * features / 2, 2};
  plan.stored[0]->shape = pairs;
  plan.stored[0]->complex = true;
  plan.programs[0]->arguments[0]->view->strides = {2, 1};
  writeInit({{"other", ElementType::F32, {targets, features}},
             {"linear.weight", ElementType::F32, pairs, true}});
  EXPECT_EQ(first(init), "101");
  // The reported position of a difference counts the file's elements. What is
  // added to the first value is lost to rounding.
  values[0] = values[1] = 1e20f;
  writeInit({{"linear.weight", ElementType::F32, pairs, true},
             {"tied.weight", ElementType::F32, pairs, true}});
  LoadedPlan loaded = load();
  auto opened = Weights::open(loaded, init);
  ASSERT_TRUE(opened) << opened.error().message;
  Result<void> same = opened->checkTied();
  ASSERT_FALSE(same);
  EXPECT_SAYS(same.error().message, "their values differ at element [1]");
  writeInit({{"linear.weight", ElementType::F32, pairs}});
  EXPECT_SAYS(first(init), "'linear.weight' has type F32, and the model's is "
                           "complex (C64)");
  writeInit({{"linear.weight", ElementType::F32, {2, 3, 2}, true}});
  EXPECT_SAYS(first(init), "'linear.weight' has shape [2,3], the plan has [6]");
  values[7] = std::nanf("");
  writeInit({{"linear.weight", ElementType::F32, pairs, true}});
  EXPECT_SAYS(first(init, true), "element [3] is NaN");
  plan.stored[0]->complex = false;
  EXPECT_SAYS(first(init),
              "'linear.weight' has type C64, and the model's is not complex");
}

TEST_F(WeightsTest, ThatAreNanAreRefusedWithTheirElement) {
  values[1] = std::numeric_limits<float>::infinity();
  values[2] = -values[1];
  writeValues();
  EXPECT_EQ(first("", true), "1");
  for (float nan : {std::nanf(""), -std::nanf(""), std::nanf("1")}) {
    std::fill(values.begin(), values.end(), 1.0f);
    values[7] = nan;
    writeValues();
    EXPECT_EQ(first(""), "1");
    EXPECT_SAYS(first("", true), weights + ": element [2,1] is NaN");
  }
  // The 8th of a 3 x 4 file is row 1, column 3 there.
  plan.stored[0]->transposed = true;
  EXPECT_SAYS(first("", true), "element [3,1] is NaN");
}

} // namespace
} // namespace polyrank::runtime::test
