// The plan file: what was written is read, everything else is refused.

#include "runtime/plan/VerifyPlan.h"
#include "test/runtime/PlanBuilder.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

class PlanFileTest : public testing::Test {
protected:
  TemporaryDirectory directory;
  std::string path = directory / "model.plan";

  void SetUp() override {
    ASSERT_TRUE(writePlan(path, serialise(linearPlan({}))));
  }
  std::string refusal() {
    auto plan = loadPlan(path);
    return plan ? "" : plan.error().message;
  }
};

TEST_F(PlanFileTest, ReadsWhatItWrote) {
  auto plan = loadPlan(path);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->plan->model()->str(), "linear");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(plan->bytes.memory.get()) % 64, 0u);
}

TEST_F(PlanFileTest, RefusesAChangedByteAnywhere) {
  std::string good = readFile(path);
  for (size_t i = 0; i < good.size(); i += 101) {
    std::string bad = good;
    bad[i] ^= 0x10;
    writeFile(path, bad.data(), bad.size());
    EXPECT_NE(refusal(), "") << "byte " << i;
  }
}

TEST_F(PlanFileTest, RefusesAChangedByteOfTheHeader) {
  std::string good = readFile(path);
  for (size_t i = 0; i < 64; ++i) {
    std::string bad = good;
    bad[i] ^= 0x01;
    writeFile(path, bad.data(), bad.size());
    const char *message = i < 8    ? "is not a plan"
                          : i < 12 ? "has version"
                          : i < 16 ? "has a header of"
                          : i < 24 ? "it should hold"
                                   : "its hash should be";
    EXPECT_NE(refusal().find(message), std::string::npos)
        << "byte " << i << ": " << refusal();
  }
}

TEST_F(PlanFileTest, RefusesAFileThatIsLongerThanItSays) {
  std::string longer = readFile(path) + "x";
  writeFile(path, longer.data(), longer.size());
  EXPECT_NE(refusal().find("is damaged: it should hold"), std::string::npos)
      << refusal();
}

TEST_F(PlanFileTest, RefusesWhatIsNoRegularFile) {
  auto plan = loadPlan("/dev/null");
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("is not a regular file"),
            std::string::npos);
}

TEST_F(PlanFileTest, RefusesATruncatedFile) {
  std::string good = readFile(path);
  for (size_t size : {size_t(0), size_t(10), size_t(63), size_t(64),
                      good.size() / 2, good.size() - 1}) {
    writeFile(path, good.data(), size);
    EXPECT_NE(refusal(), "") << size << " bytes";
  }
}

TEST_F(PlanFileTest, RefusesAFileThatIsNoPlan) {
  std::string text(200, 'x');
  writeFile(path, text.data(), text.size());
  EXPECT_NE(refusal().find("is not a plan"), std::string::npos) << refusal();
}

TEST_F(PlanFileTest, SaysThatAnotherVersionNeedsANewCompile) {
  std::string file = readFile(path);
  file[8] = 77;
  writeFile(path, file.data(), file.size());
  EXPECT_NE(refusal().find("has version 77"), std::string::npos) << refusal();
}

} // namespace
} // namespace polyrank::runtime::test
