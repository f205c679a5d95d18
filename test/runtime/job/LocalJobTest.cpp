// What a job of one machine refuses.

#include "runtime/job/local/LocalJob.h"
#include "runtime/job/local/JobPage.h"

#include <atomic>
#include <gtest/gtest.h>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace polyrank::runtime::local {
namespace {

TEST(LocalJob, MoreRanksThanAMachineStartsAreRefusedAtOnce) {
  auto job = createJob({.ranks = 65536});
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("65536 ranks"), std::string::npos)
      << job.error().message;
  EXPECT_EQ(job.error().fault, Error::Fault::Input);
  EXPECT_TRUE(createJob({.ranks = 4096}));
}

TEST(LocalJob, NoRanksAreRefused) { EXPECT_FALSE(createJob({.ranks = 0})); }

TEST(LocalJob, ItsMemoryCannotBeResized) {
  auto job = createJob({.ranks = 1});
  ASSERT_TRUE(job);
  for (int file : (*job)->descriptors()) {
    EXPECT_NE(ftruncate(file, 0), 0);
    EXPECT_NE(ftruncate(file, 1 << 30), 0);
  }
}

TEST(LocalJob, FilesThatAreNoneAreRefused) {
  auto job = createJob({.ranks = 2});
  ASSERT_TRUE(job);
  auto refusal = [](std::vector<int> files) {
    auto member = joinJob(files, 0);
    return member ? "" : member.error().message;
  };
  EXPECT_EQ(refusal({}), "rank 0 was handed 0 files to join its job by, "
                         "instead of the job's page");
  int page = (*job)->descriptors()[0];
  EXPECT_EQ(refusal({page, page}), "rank 0 was handed 2 files to join its job "
                                   "by, instead of the job's page");
  EXPECT_NE(refusal({-1}).find("the job's page: "), std::string::npos);
  for (uint64_t size : {0, 100, 8192, 1 << 20}) {
    auto other = createSharedMemory("other", size);
    ASSERT_TRUE(other);
    EXPECT_NE(refusal({other->get()}).find("not the page of a job"),
              std::string::npos)
        << size;
  }
  for (uint64_t more : {64, 4096}) { // than a page of two ranks has
    auto other = createSharedMemory("other", JobPage::sizeFor(2) + more);
    ASSERT_TRUE(other && JobPage::initialize(other->get(), 2, 0));
    EXPECT_NE(refusal({other->get()}).find("not the page of a job"),
              std::string::npos)
        << more;
  }
  EXPECT_EQ(refusal({page}), "");
}

/// The ranks 2 and 3 of a job of four.
Result<std::unique_ptr<JobControl>> secondHalf() {
  return createJob({.ranks = 4, .here = RankRange{2, 2}});
}

TEST(SharedJob, RanksOfOtherMachinesAreRefused) {
  auto job = secondHalf();
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE((*job)->isShared());
  auto member = joinJob((*job)->descriptors(), 1);
  ASSERT_FALSE(member);
  EXPECT_EQ(member.error().message, "rank 1 runs on another machine: this one "
                                    "has ranks 2 to 3");
  EXPECT_TRUE(joinJob((*job)->descriptors(), 3));
  EXPECT_FALSE(joinJob({(*job)->descriptors().data(), 1}, 2));
  EXPECT_FALSE(createJob({.ranks = 4, .here = RankRange{3, 2}}));
}

TEST(SharedJob, ABarrierEndsWhenSomebodySaysThatAllHaveCome) {
  auto job = secondHalf();
  std::atomic<int> over = 0;
  std::vector<std::thread> ranks;
  for (int rank : {2, 3})
    ranks.emplace_back([&, rank] {
      auto member = *joinJob((*job)->descriptors(), rank);
      EXPECT_TRUE(member->gather(16, 32));
      ++over;
      EXPECT_TRUE(member->barrier());
    });
  auto await = [&] {
    pollfd file{(*job)->barrierFile(), POLLIN, 0};
    EXPECT_EQ(poll(&file, 1, 10'000), 1);
    return (*job)->takeBarrier();
  };
  auto first = await();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->number, 1u);
  EXPECT_EQ(first->begin, 16u);
  EXPECT_EQ(first->end, 32u);
  EXPECT_EQ(over, 0);
  EXPECT_FALSE((*job)->takeBarrier());
  (*job)->endBarrier(1, 0);
  auto second = await();
  EXPECT_EQ(over, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->number, 2u);
  EXPECT_EQ(second->begin, second->end);
  (*job)->endBarrier(2, 1);
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_GT((*job)->awaitedNanoseconds(0), 0u);
}

TEST(SharedJob, RanksOfOtherMachinesAreSeenAsTheyWereHeardOf) {
  auto job = secondHalf();
  auto member = joinJob((*job)->descriptors(), 2);
  EXPECT_EQ((*member)->presenceOf(0), JobMember::Presence::Expected);
  RankReport report{
      RankPhase::Running, 4711, 7, 12, {7, 13}, true, 99, true, 5};
  RankWait wait{RankWait::What::Starts, {2, 3}};
  (*job)->setRemote(0, report, wait, 0);
  EXPECT_EQ((*member)->report(0), report);
  EXPECT_EQ((*member)->waitOf(0), wait);
  EXPECT_EQ((*member)->presenceOf(0), JobMember::Presence::Present);
  // Whom it misses at a barrier follows from how often all have come.
  report.waiting = true;
  (*job)->setRemote(0, report, {RankWait::What::Barrier, {}}, 1);
  EXPECT_EQ((*job)->waitOf(0), (RankWait{RankWait::What::Barrier, {1, 2, 3}}));
  // Numbers that are none of the job's change nothing, nor do those of ranks
  // that are here.
  (*job)->setRemote(1, report, {RankWait::What::Value, {-1, 3, 70000}}, 0);
  EXPECT_EQ((*job)->waitOf(1), (RankWait{RankWait::What::Value, {3}}));
  (*job)->setRemote(2, report, wait, 7);
  EXPECT_EQ((*job)->barriersOf(2), 0u);
  report.phase = RankPhase::Left;
  (*job)->setRemote(0, report, {}, 1);
  EXPECT_EQ((*member)->presenceOf(0), JobMember::Presence::Left);
  (*job)->setClockOffset(-5);
  EXPECT_EQ((*member)->clockOffset(), -5);
}

TEST(LocalJob, RanksSpinOnlyIfEachThreadHasACore) {
  auto has = [](const JobOptions &options) {
    auto job = createJob(options);
    return (*joinJob((*job)->descriptors(), 0))->hasOwnCores();
  };
  EXPECT_TRUE(has({.ranks = 1}));
  EXPECT_FALSE(has({.ranks = 2, .threadsPerRank = 100'000}));
  EXPECT_FALSE(has({.ranks = 1, .alone = false}));
  EXPECT_TRUE(has({.ranks = 4, .threadsPerRank = 100'000, .alone = true}));
}

} // namespace
} // namespace polyrank::runtime::local
