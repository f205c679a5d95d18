// Places collectives in a rank's memory, and compares.

#include "test/runtime/comm/CommunicatorCases.h"

#include <algorithm>
#include <numeric>
#include <thread>

namespace polyrank::runtime::test {

void expectErrorEverywhere(const std::vector<RankOutcome> &outcomes,
                           const std::vector<std::string> &parts, int except) {
  for (size_t r = 0; r < outcomes.size(); ++r) {
    if (static_cast<int>(r) == except)
      continue;
    for (const std::string &part : parts)
      EXPECT_NE(outcomes[r].text.find(part), std::string::npos)
          << "rank " << r << " says: " << outcomes[r].text;
    EXPECT_LT(outcomes[r].seconds, 2.0) << "rank " << r;
    EXPECT_EQ(outcomes[r].signal, 0) << "rank " << r;
  }
}

Case makeCase(CollectiveKind kind, Reduction reduction, ElementType dtype,
              std::vector<Transfer> transfers, int members) {
  Case test;
  test.collective.kind = kind;
  test.collective.reduction = reduction;
  test.collective.dtype = dtype;
  test.collective.id = 7;
  test.transfers = std::move(transfers);
  if (kind == CollectiveKind::Permute)
    for (int m = 0; m < members; ++m) // not a bijection: member 0 is not read
      test.permutation.push_back(m == 0 ? members - 1 : std::max(m - 1, 1));
  if (kind == CollectiveKind::Permute && members == 1)
    test.permutation = {0};
  return test;
}

Transfer rows(int64_t outer, int64_t inner) {
  Transfer transfer;
  transfer.outer = outer;
  transfer.inner = inner;
  return transfer;
}

Reduction sumIfReducing(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce ||
                 kind == CollectiveKind::ReduceScatter ||
                 kind == CollectiveKind::HaloAdd
             ? Reduction::Sum
             : Reduction::None;
}

Ranks allRanks(const Communicator &communicator) {
  Ranks ranks(communicator.worldSize());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::byte *memoryOf(const Communicator &) { return registeredMemory().data(); }

static uint64_t aligned(uint64_t offset) { return (offset + 63) / 64 * 64; }

PlacedCase::PlacedCase(Communicator &communicator, const Ranks &ranks,
                       Case given, uint64_t salt, uint64_t &cursor)
    : communicator(communicator), test(std::move(given)) {
  auto group = communicator.createGroup(ranks);
  if (!group) {
    error = group.error().message;
    return;
  }
  collective = test.collective;
  collective.group = *group;
  collective.permutation = test.permutation;
  int members = static_cast<int>(ranks.size());
  me = static_cast<int>(
      std::find(ranks.begin(), ranks.end(), communicator.rank()) -
      ranks.begin());
  int64_t element = bytesOf(collective.dtype);
  auto memory = registeredMemory();
  for (size_t t = 0; t < test.transfers.size(); ++t) {
    Transfer &transfer = test.transfers[t];
    inputs.emplace_back();
    for (int32_t rank : ranks)
      inputs[t].push_back(makeInput(
          collective.dtype, inputElements(collective, transfer, members), rank,
          salt * 131 + t));
    uint64_t inputBytes = inputs[t][0].size();
    uint64_t outputBytes =
        outputElements(collective, transfer, members) * element;
    transfer.input = aligned(cursor);
    transfer.output = aligned(transfer.input + inputBytes);
    if (test.inPlace) {
      transfer.output = transfer.input;
      uint64_t block = me * transfer.inner * element;
      if (collective.kind == CollectiveKind::AllGather)
        transfer.input += block;
      if (collective.kind == CollectiveKind::ReduceScatter)
        transfer.output += block;
    }
    cursor =
        std::max(transfer.input + inputBytes, transfer.output + outputBytes);
    if (cursor > memory.size()) {
      error = "the test needs " + std::to_string(cursor) + " bytes";
      return;
    }
    if (!test.inPlace)
      std::fill_n(memory.data() + transfer.output, outputBytes,
                  std::byte(0xcd));
    std::memcpy(memory.data() + transfer.input, inputs[t][me].data(),
                inputBytes);
  }
  collective.transfers = test.transfers;
}

std::string PlacedCase::check() const {
  auto memory = registeredMemory();
  for (size_t t = 0; t < test.transfers.size(); ++t) {
    Bytes expected =
        referenceOutput(collective, test.transfers[t], inputs[t], me);
    const std::byte *actual = memory.data() + test.transfers[t].output;
    for (size_t b = 0; b < expected.size(); ++b)
      if (actual[b] != expected[b])
        return std::string(nameOf(collective.kind)) + " " +
               nameOf(collective.reduction) + " " + nameOf(collective.dtype) +
               (test.inPlace ? " in place" : "") + ", transfer " +
               std::to_string(t) + " differs at byte " + std::to_string(b) +
               " of " + std::to_string(expected.size()) + "\n";
  }
  return "";
}

std::string runCase(Communicator &communicator, const Ranks &ranks, Case test,
                    uint64_t salt, uint64_t skew) {
  uint64_t cursor = 64 * skew * communicator.rank();
  PlacedCase placed(communicator, ranks, std::move(test), salt, cursor);
  if (!placed.error.empty())
    return placed.error;
  if (auto done = communicator.run(placed.collective); !done)
    return done.error().message;
  return placed.check();
}

void onThreeThreads(int64_t range, int64_t grain, const RangeBody &body) {
  int64_t blocks = (range + grain - 1) / grain;
  std::vector<std::thread> team;
  for (int64_t n = 0; n < 3; ++n)
    team.emplace_back([=, &body] {
      int64_t begin = blocks * n / 3 * grain;
      int64_t end = std::min(range, blocks * (n + 1) / 3 * grain);
      if (begin < end)
        body(begin, end);
    });
  for (std::thread &thread : team)
    thread.join();
}

} // namespace polyrank::runtime::test
