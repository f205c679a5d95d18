// Collectives with inputs and expected outputs, for the conformance suite of
// transports.

#pragma once

#include "test/runtime/comm/RankProcesses.h"
#include "test/runtime/comm/ReferenceCollective.h"

#include <gtest/gtest.h>

namespace polyrank::runtime::test {

using Ranks = std::vector<int32_t>;

class TransportTest : public testing::TestWithParam<TransportUnderTest> {
protected:
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

/// All ranks but `except` end soon, with a text that has these parts.
void expectErrorEverywhere(const std::vector<RankOutcome> &outcomes,
                           const std::vector<std::string> &parts,
                           int except = -1);

struct Case {
  Collective collective;
  std::vector<Transfer> transfers; // offsets are assigned by PlacedCase
  Ranks permutation;
  bool inPlace = false;
};

Case makeCase(CollectiveKind kind, Reduction reduction, DType dtype,
              std::vector<Transfer> transfers, int members);
Transfer rows(int64_t outer, int64_t inner);
Reduction sumIfReducing(CollectiveKind kind);
Ranks allRanks(const Transport &transport);
/// Its shared region.
std::byte *memoryOf(Transport &transport);

/// A collective over `ranks` between buffers of this rank, with what it must
/// give.
class PlacedCase {
public:
  /// Buffers lie from byte `cursor` on, which moves behind them. `error` is
  /// empty where that went well.
  PlacedCase(Transport &transport, const Ranks &ranks, Case test, uint64_t salt,
             uint64_t &cursor);
  PlacedCase(const PlacedCase &) = delete;

  /// Empty where each output is what the definition says.
  std::string check() const;

  Collective collective;
  std::string error;

private:
  Transport &transport;
  Case test;
  int me = 0;
  std::vector<std::vector<Bytes>> inputs; // by transfer and member
};

/// Runs one collective and checks it. Offsets differ between ranks by `skew`.
std::string runCase(Transport &transport, const Ranks &ranks, Case test,
                    uint64_t salt, uint64_t skew = 0);

/// A team as a device has it, cutting as finely as it may.
void onThreeThreads(int64_t range, int64_t grain, const RangeBody &body);

} // namespace polyrank::runtime::test
