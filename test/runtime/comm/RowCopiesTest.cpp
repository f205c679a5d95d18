// The conditions on a collective, one by one, and its statistics.

#include "runtime/comm/RowCopies.h"

#include <functional>
#include <gtest/gtest.h>

namespace polyrank::runtime::test {
namespace {

constexpr uint64_t sharedSize = 1024;
constexpr int members = 2;

/// A valid collective of one f32 transfer: 4 elements from byte 0 to byte 512.
struct Proposal {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Reduction reduction = Reduction::None;
  std::vector<Transfer> transfers = {{{.inner = 4}, 0, 512}};
  std::vector<int32_t> permutation;

  /// Returns what is wrong with it for member `me`, or "".
  std::string check(int me = 0) const {
    auto ok = checkCollective(collective(), members, me, sharedSize);
    return ok ? "" : ok.error().message;
  }
  Collective collective() const {
    Collective result;
    result.kind = kind;
    result.reduction = reduction;
    result.permutation = permutation;
    result.transfers = transfers;
    return result;
  }
};

Proposal proposal(CollectiveKind kind) {
  Proposal result;
  result.kind = kind;
  if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::HaloAdd ||
      kind == CollectiveKind::ReduceScatter)
    result.reduction = Reduction::Sum;
  if (kind == CollectiveKind::Permute)
    result.permutation = {1, 0};
  if (kind == CollectiveKind::AllToAll)
    result.transfers[0].x = 2, result.transfers[0].splitFirst = true;
  return result;
}

TEST(CheckCollectiveTest, EveryKindInOrderIsAccepted) {
  for (int kind = 0; kind < numCollectiveKinds; ++kind)
    for (int me = 0; me < members; ++me)
      EXPECT_EQ(proposal(CollectiveKind(kind)).check(me), "")
          << nameOf(CollectiveKind(kind));
}

TEST(CheckCollectiveTest, ABufferLiesInTheSharedRegion) {
  auto at = [](uint64_t input, uint64_t output) {
    Proposal result = proposal(CollectiveKind::AllReduce);
    result.transfers[0].input = input, result.transfers[0].output = output;
    return result.check();
  };
  const uint64_t last = sharedSize - 16;
  EXPECT_EQ(at(0, last), "");
  EXPECT_EQ(at(last, 0), "");
  for (uint64_t offset : {last + 4, sharedSize + 4, UINT64_MAX - 3}) {
    EXPECT_NE(at(0, offset).find("outside the shared region"),
              std::string::npos)
        << offset;
    EXPECT_NE(at(offset, 0).find("outside the shared region"),
              std::string::npos)
        << offset;
  }
  EXPECT_NE(at(0, 514).find("misaligned"), std::string::npos);
}

TEST(CheckCollectiveTest, ExtentsThatOnlyTheNumberOfMembersMakesTooLargeAre) {
  Proposal result = proposal(CollectiveKind::AllGather);
  result.transfers[0].inner = INT64_MAX / 4;
  EXPECT_NE(result.check().find("too large"), std::string::npos);
}

TEST(CheckCollectiveTest, EachTransferOfABucketIsChecked) {
  Proposal result = proposal(CollectiveKind::AllReduce);
  result.transfers.push_back({{.inner = 4}, 16, sharedSize});
  EXPECT_NE(result.check().find("outside the shared region"),
            std::string::npos);
}

TEST(CheckCollectiveTest, OnlyOneRowMayBeScatteredOrGatheredInPlace) {
  for (auto kind : {CollectiveKind::ReduceScatter, CollectiveKind::AllGather})
    for (int me = 0; me < members; ++me)
      for (int64_t rows : {1, 2}) {
        Proposal result = proposal(kind);
        Transfer &transfer = result.transfers[0];
        transfer.outer = rows;
        transfer.input = transfer.output = 0;
        (kind == CollectiveKind::AllGather ? transfer.input : transfer.output) =
            me * 16;
        EXPECT_EQ(result.check(me).find("overlaps") != std::string::npos,
                  rows > 1)
            << nameOf(kind) << " of " << rows << " rows at member " << me;
      }
}

TEST(BytesMovedTest, CountWhatOneMemberGetsFromOthers) {
  auto bytes = [](Proposal proposal, int me = 0) {
    return bytesMoved(proposal.collective(), members, me);
  };
  EXPECT_EQ(bytes(proposal(CollectiveKind::AllReduce)), 16u);
  EXPECT_EQ(bytes(proposal(CollectiveKind::AllGather)), 16u);
  EXPECT_EQ(bytes(proposal(CollectiveKind::ReduceScatter)), 16u);
  EXPECT_EQ(bytes(proposal(CollectiveKind::AllToAll)), 16u);
  EXPECT_EQ(bytes(proposal(CollectiveKind::Permute)), 16u);
  Proposal still = proposal(CollectiveKind::Permute);
  still.permutation = {0, 0};
  EXPECT_EQ(bytes(still, 0), 0u);
  EXPECT_EQ(bytes(still, 1), 16u);
  Proposal halo = proposal(CollectiveKind::Halo);
  halo.transfers[0].low = 1, halo.transfers[0].high = 2;
  EXPECT_EQ(bytes(halo, 0), 8u);
  EXPECT_EQ(bytes(halo, 1), 4u);
}

} // namespace
} // namespace polyrank::runtime::test
