// The files of a run and the arrays in them.

#include "runtime/session/OutputFiles.h"

#include "runtime/session/SessionData.h"
#include "support/arrays/Npz.h"
#include "test/runtime/PlanBuilder.h"

#include <cstring>
#include <gtest/gtest.h>
#include <unistd.h>

namespace polyrank::runtime::test {
namespace {

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

TEST(OutputArrays, LieOneAfterAnotherAtMultiplesOf64Bytes) {
  plan::PlanT plan = linearForwardPlan({.data = 2, .weights = {}});
  LoadedPlan loaded = load(plan);
  std::vector<OutputArray> arrays = outputArraysOf(*loaded.plan, 7);
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].name, "y");
  EXPECT_EQ(arrays[0].shape, (std::vector<int64_t>{7, targets}));
  EXPECT_EQ(arrays[0].offset, 0u);
  EXPECT_EQ(arrays[0].bytes, uint64_t(7 * targets * 4));
  EXPECT_EQ(bytesOf(arrays), arrays[0].bytes);
  arrays.push_back(arrays[0]);
  arrays[1].offset = 128;
  EXPECT_EQ(bytesOf(arrays), 128 + arrays[1].bytes);
  EXPECT_EQ(bytesOf(std::vector<OutputArray>()), 0u);
}

TEST(OutputFiles, HaveTheirNamesOnlyOnceTheyAreCommitted) {
  TemporaryDirectory folder;
  LoadedPlan loaded = load(linearForwardPlan({}));
  SessionOptions options;
  options.outputs = folder / "y.npz";
  options.profile = folder / "profile.txt";
  std::vector<OutputArray> outputs = outputArraysOf(*loaded.plan, 2);
  auto files = OutputFiles::create(options, *loaded.plan, bytesOf(outputs));
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->windowDescriptor(), -1);
  ASSERT_TRUE(files->createWindow());
  EXPECT_GE(files->windowDescriptor(), 0);
  EXPECT_GE(files->profile(), 0);
  EXPECT_EQ(files->trace(), -1);
  EXPECT_TRUE(files->weights().empty());
  EXPECT_EQ(files->describeKept(false, 3), "");
  auto shared =
      Window::map(files->windowDescriptor(), bytesOf(outputs), "outputs");
  ASSERT_TRUE(shared);
  float value = 1.5;
  std::memcpy(shared->data().data(), &value, sizeof(value));

  // What a failed attempt has written is gone.
  ASSERT_EQ(write(files->profile(), "first", 5), 5);
  ASSERT_TRUE(files->clear());
  EXPECT_EQ(lseek(files->profile(), 0, SEEK_END), 0);
  auto again =
      Window::map(files->windowDescriptor(), bytesOf(outputs), "outputs");
  ASSERT_TRUE(again);
  std::memcpy(&value, again->data().data(), sizeof(value));
  EXPECT_EQ(value, 0);

  value = 2.5;
  std::memcpy(again->data().data(), &value, sizeof(value));
  EXPECT_FALSE(exists(options.outputs));
  EXPECT_FALSE(exists(options.profile));
  PlanReport report;
  ProgressOptions quiet;
  quiet.quiet = true;
  auto progress = Progress::open(report, quiet);
  ASSERT_TRUE(progress);
  Result<void> committed = files->commit(outputs, **progress);
  ASSERT_TRUE(committed) << committed.error().message;
  EXPECT_TRUE(exists(options.outputs));
  EXPECT_TRUE(exists(options.profile));
  std::string bytes = readFile(options.outputs);
  EXPECT_NE(bytes.find(std::string(reinterpret_cast<char *>(&value), 4)),
            std::string::npos);
}

TEST(OutputFiles, SayWhatIsLeftUnderTheNamesOfWeights) {
  TemporaryDirectory folder;
  LoadedPlan loaded = load(linearPlan({}));
  SessionOptions options;
  options.save = folder / "w.safetensors";
  auto files = OutputFiles::create(options, *loaded.plan, 0);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->weights().size(), 1u);
  EXPECT_EQ(files->describeKept(false, 3), "; nothing is saved");
  EXPECT_EQ(files->describeKept(true, 3),
            "; '" + options.save + "' has the weights after step 3");
  writeFile(options.save, "old", 3);
  EXPECT_EQ(files->describeKept(false, 3),
            "; '" + options.save + "' is as it was");
}

TEST(OutputFiles, WeightsThatNoRankHasWrittenAreNotCommitted) {
  TemporaryDirectory folder;
  LoadedPlan loaded = load(linearPlan({}));
  SessionOptions options;
  options.save = folder / "w.safetensors";
  auto files = OutputFiles::create(options, *loaded.plan, 0);
  ASSERT_TRUE(files);
  EXPECT_FALSE(files->commitWeights());
  EXPECT_FALSE(exists(options.save));
}

} // namespace
} // namespace polyrank::runtime::test
