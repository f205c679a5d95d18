// A transport for tests of one rank's program.

#pragma once

#include "runtime/comm/Transport.h"
#include "test/runtime/job/AloneJob.h"

#include <functional>
#include <utility>
#include <vector>

namespace polyrank::runtime::test {

/// A rank without others, which records its communication.
class AloneTransport : public Transport {
public:
  AloneTransport(int rank, int ranks, DeviceMemory region)
      : number(rank), ranks(ranks), region(std::move(region)) {}

  int rank() const override { return number; }
  int worldSize() const override { return ranks; }
  JobMember &job() override { return alone; }
  DeviceSpan sharedMemory() override { return region.span(); }
  Result<Group> createGroup(std::span<const int32_t> members) override {
    groups.emplace_back(members.begin(), members.end());
    return Group{static_cast<uint32_t>(groups.size() - 1)};
  }
  Result<void> check(const Collective &) const override { return {}; }
  Result<Request> start(const Collective &collective) override {
    if (onStart)
      onStart();
    collectives.push_back(
        {collective.group.index, collective.id, collective.transfers[0]});
    return Request{collectives.size()};
  }
  Result<Completion> wait(Request request) override {
    waits.push_back(request.number);
    return Completion{};
  }
  Result<ChannelEnd> openChannel(const Channel &) override {
    return ChannelEnd{};
  }
  Result<int64_t> awaitRoom(ChannelEnd) override { return 0; }
  Result<Completion> send(ChannelEnd, DeviceSpan,
                          const std::optional<TransferTimes> &) override {
    return Completion{};
  }
  Result<TransferTimes> awaitValue(ChannelEnd) override {
    return TransferTimes{};
  }
  Result<Completion> receive(ChannelEnd, DeviceSpan,
                             const std::optional<int64_t> &) override {
    return Completion{};
  }
  void pace(Group, const PacedLink &) override {}
  Result<void> barrier(Group) override { return {}; }
  void setParallelFor(ParallelFor) override {}
  void setCommThreads(int) override {}
  TransportStatistics statistics() const override { return {}; }

  struct Done {
    uint32_t group;
    uint64_t id;
    Transfer transfer;
  };
  std::vector<std::vector<int32_t>> groups;
  std::vector<Done> collectives; // a request's number counts them from 1
  std::vector<uint64_t> waits;   // the requests waited for
  std::function<void()> onStart;

private:
  int number, ranks;
  AloneJob alone{number, ranks};
  DeviceMemory region;
};

} // namespace polyrank::runtime::test
