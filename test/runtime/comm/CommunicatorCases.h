// Collectives with inputs and expected outputs, for the conformance suite of
// communicators.

#pragma once

#include "test/runtime/comm/RankProcesses.h"
#include "test/runtime/comm/ReferenceCollective.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {

using Ranks = std::vector<int32_t>;

class CommunicatorTest : public testing::TestWithParam<CommunicatorUnderTest> {
protected:
  void SetUp() override {
    if (std::string reason = GetParam().whyNot(); !reason.empty())
      GTEST_SKIP() << reason;
  }
  std::vector<RankOutcome> run(const JobShape &shape, const RankMain &main,
                               const std::string &abortMessage = "") {
    return GetParam().run(shape, main, abortMessage);
  }
  void expectAllWell(const JobShape &shape, const RankMain &main) {
    auto outcomes = run(shape, main);
    for (size_t r = 0; r < outcomes.size(); ++r) {
      EXPECT_EQ(outcomes[r].text, "") << "rank " << r;
      EXPECT_EQ(outcomes[r].signal, 0) << "rank " << r;
    }
  }
};

/// Expects that all ranks but `except` end soon, with a text that has these
/// parts.
void expectErrorEverywhere(const std::vector<RankOutcome> &outcomes,
                           const std::vector<std::string> &parts,
                           int except = -1);

struct Case {
  Collective collective;
  std::vector<Transfer> transfers; // offsets are assigned by PlacedCase
  Ranks permutation;
  bool inPlace = false;
};

Case makeCase(CollectiveKind kind, Reduction reduction, ElementType dtype,
              std::vector<Transfer> transfers, int members);
Transfer rows(int64_t outer, int64_t inner);
Reduction sumIfReducing(CollectiveKind kind);
Ranks allRanks(const Communicator &communicator);
/// The bytes that this rank's communicator has registered.
std::byte *memoryOf(const Communicator &communicator);

/// A collective over `ranks` between buffers of this rank, with its expected
/// outputs.
class PlacedCase {
public:
  /// Places buffers from byte `cursor` on, and advances it past them. `error`
  /// is empty on success.
  PlacedCase(Communicator &communicator, const Ranks &ranks, Case test,
             uint64_t salt, uint64_t &cursor);
  PlacedCase(const PlacedCase &) = delete;

  /// Returns an error text; empty if each output is as defined.
  std::string check() const;

  Collective collective;
  std::string error;

private:
  Case test;
  int me = 0;
  std::vector<std::vector<Bytes>> inputs; // by transfer and member
};

/// Runs one collective and checks it. Offsets differ between ranks by `skew`.
std::string runCase(Communicator &communicator, const Ranks &ranks, Case test,
                    uint64_t salt, uint64_t skew = 0);

/// A team like a device's, which cuts ranges as finely as allowed.
void onThreeThreads(int64_t range, int64_t grain, const RangeBody &body);

} // namespace polyrank::runtime::test
