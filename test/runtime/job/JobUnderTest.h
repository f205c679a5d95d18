// What the conformance suite of jobs asks of an implementation, and ranks as
// processes.

#pragma once

#include "runtime/job/Job.h"

#include <functional>
#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace polyrank::runtime::test {

struct JobUnderTest {
  std::string name;
  Result<std::unique_ptr<JobControl>> (*create)(int ranks);
  Result<std::unique_ptr<JobMember>> (*join)(std::span<const int> descriptors,
                                             int rank);

  friend void PrintTo(const JobUnderTest &job, std::ostream *out) {
    *out << job.name;
  }
};

/// A rank in a process of its own, which sums up what it did in one text.
class RankOfJob {
public:
  RankOfJob(const JobUnderTest &kind, const JobControl &job, int rank,
            const std::function<std::string(JobMember &)> &main) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    result = ends[0];
    pid = fork();
    if (pid == 0) {
      std::string text;
      {
        auto joined = kind.join(job.descriptors(), rank);
        text = joined ? main(**joined) : joined.error().message;
      }
      _exit(write(ends[1], text.data(), text.size()) >= 0 ? 0 : 1);
    }
    close(ends[1]);
  }
  ~RankOfJob() { close(result); }

  std::string wait() {
    char text[4096];
    ssize_t length = read(result, text, sizeof(text));
    waitpid(pid, nullptr, 0);
    return std::string(text, length > 0 ? length : 0);
  }

  pid_t pid = -1;

private:
  int result = -1;
};

} // namespace polyrank::runtime::test
