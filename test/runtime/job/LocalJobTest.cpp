// What a job of one machine refuses.

#include "runtime/job/local/LocalJob.h"
#include "runtime/job/local/JobPage.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
