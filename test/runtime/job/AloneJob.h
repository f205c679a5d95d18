// A job for tests of one rank.

#pragma once

#include "runtime/job/Job.h"

namespace polyrank::runtime::test {

/// A rank that nobody watches and that never meets the others.
class AloneJob : public JobMember {
public:
  AloneJob(int rank, int ranks) : number(rank), ranks(ranks) {}

  int worldSize() const override { return ranks; }
  void abort(std::string_view) override {}
  Error fail(const std::string &message) override {
    return {message, Error::Fault::Rank};
  }
  Result<void> health() const override { return {}; }
  RankReport report(int) const override { return {}; }
  RankWait waitOf(int) const override { return {}; }
  int rank() const override { return number; }
  bool mayBegin(uint64_t) override { return true; }
  bool isClosedBefore(uint64_t) const override { return false; }
  void setProgress(uint64_t, uint32_t) override {}
  std::atomic<uint64_t> &deviceWord() override { return word; }
  void setBeside(bool) override {}
  void beat() override {}
  Result<void> barrier() override { return {}; }
  Result<void> gather(uint64_t, uint64_t) override { return {}; }
  bool hasOwnCores() const override { return false; }
  void setOperation(uint64_t) override {}
  void beginWait(uint64_t, RankWait::What, std::span<const int>) override {}
  void endWait(int, uint64_t) override {}
  void addAwaited(int, uint64_t) override {}
  Presence presenceOf(int) const override { return Presence::Expected; }
  Result<void> checkLauncher() override { return {}; }

private:
  int number, ranks;
  std::atomic<uint64_t> word = 0;
};

} // namespace polyrank::runtime::test
