// When a rank saves a checkpoint, and what it reports.

#include "runtime/session/RankCheckpoints.h"

#include "runtime/checkpoint/Commit.h"
#include "test/runtime/session/SessionRank.h"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace polyrank::runtime::test {
namespace {

/// A rank that saves every second step.
struct Saving {
  explicit Saving(uint64_t every = 2) {
    rank->options.checkpoints.folder = rank.folder / "checkpoints";
    rank->options.checkpoints.everySteps = every;
    std::filesystem::create_directory(rank->options.checkpoints.folder);
    rank->page->facts().run = 17;
    auto created =
        RankCheckpoints::create(*rank, [] { return Result<void>(); });
    EXPECT_TRUE(created) << created.error().message;
    checkpoints = std::move(*created);
  }

  bool hasFolderOf(uint64_t step) {
    return std::filesystem::exists(
        unfinishedPath(rank->options.checkpoints.folder, step, 17));
  }
  std::vector<uint64_t> reported() {
    std::vector<uint64_t> steps;
    for (const RankMessage &message : rank.messages()) {
      const auto &shard = std::get<ShardReport>(message);
      EXPECT_EQ(shard.error, "");
      EXPECT_GT(shard.bytes, 0u);
      steps.push_back(shard.step);
    }
    return steps;
  }

  SessionRank rank;
  std::unique_ptr<RankCheckpoints> checkpoints;
};

TEST(RankCheckpoints, SavesEverySoManyStepsAndAfterTheLast) {
  Saving saving;
  for (uint64_t step : {1, 2, 3, 4, 5}) {
    Result<void> saved = saving.checkpoints->after(step, 5);
    ASSERT_TRUE(saved) << saved.error().message;
    EXPECT_EQ(saving.checkpoints->isSaved(step), step != 1 && step != 3);
    saving.checkpoints->finish();
    saving.rank->page->setEndedSaves(step / 2);
  }
  EXPECT_EQ(saving.reported(), (std::vector<uint64_t>{2, 4, 5}));
  EXPECT_TRUE(saving.hasFolderOf(2));
  EXPECT_FALSE(saving.hasFolderOf(3));
}

TEST(RankCheckpoints, SavesAfterTheStepThatTheLauncherHasChosen) {
  Saving saving(0);
  saving.rank->page->startAfter(0);
  saving.rank->page->requestSave();
  ASSERT_TRUE(saving.checkpoints->after(1, 5));
  ASSERT_TRUE(saving.checkpoints->after(2, 5));
  saving.checkpoints->finish();
  EXPECT_EQ(saving.reported(), std::vector<uint64_t>{1});
}

TEST(RankCheckpoints, DoesNotSaveWeightsThatBecameNan) {
  Saving saving;
  StoredSource nan;
  nan.read = [](uint64_t, void *into, uint64_t length) -> Result<void> {
    std::fill_n(static_cast<float *>(into), length / sizeof(float),
                std::numeric_limits<float>::quiet_NaN());
    return {};
  };
  ASSERT_TRUE(saving.rank->program->loadTensor(0, nan));
  Result<void> saved = saving.checkpoints->save(2);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().fault, Error::Fault::NotFinite);
  EXPECT_NE(saved.error().message.find(" after step 2"), std::string::npos);
  EXPECT_FALSE(saving.hasFolderOf(2));
}

TEST(RankCheckpoints, AFileThatCannotBeWrittenIsReported) {
  Saving saving;
  std::filesystem::remove(saving.rank->options.checkpoints.folder);
  ASSERT_TRUE(saving.checkpoints->save(2));
  saving.checkpoints->finish();
  std::vector<RankMessage> messages = saving.rank.messages();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(std::get<ShardReport>(messages[0]).error, "");
}

} // namespace
} // namespace polyrank::runtime::test
