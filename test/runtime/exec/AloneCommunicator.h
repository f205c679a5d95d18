// A communicator for tests of one rank's program.

#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/DeviceAccess.h"
#include "test/runtime/job/AloneJob.h"

#include <functional>
#include <utility>
#include <vector>

namespace polyrank::runtime::test {

/// A rank without others, which records its communication.
class AloneCommunicator : public Communicator {
public:
  AloneCommunicator(
      int rank, int ranks,
      const CommunicatorProperties &properties = fullProperties("alone"))
      : AloneCommunicator(std::make_unique<AloneJob>(rank, ranks), properties) {
  }

  Result<void>
  registerMemory(std::shared_ptr<const DeviceMemory> memory) override {
    region = std::move(memory);
    return {};
  }
  Result<Group> createGroup(std::span<const int32_t> members,
                            const LinkTime &) override {
    groups.emplace_back(members.begin(), members.end());
    return Group{static_cast<uint32_t>(groups.size() - 1)};
  }
  Result<void> check(const Collective &) override { return {}; }
  Result<Request> start(const Collective &collective, Events after) override {
    for (const Event &event : after)
      if (Result<void> over = event.wait(); !over)
        return over.error();
    if (onStart)
      onStart();
    collectives.push_back(
        {collective.group.index, collective.id, collective.transfers[0]});
    addFromOthers(collectives.back().transfer);
    return Request{collectives.size()};
  }
  Result<Arrival> wait(const Request &request) override {
    waits.push_back(request.number);
    addFromOthers(collectives[request.number - 1].transfer);
    return Arrival(Event(), Completion());
  }
  Result<ChannelEnd> openChannel(const Channel &) override {
    return ChannelEnd{};
  }
  Result<Arrival> send(ChannelEnd, DeviceSpan, Events,
                       const SendTimes &) override {
    return Arrival(Event(), Completion());
  }
  Result<Arrival> receive(ChannelEnd, DeviceSpan, Events,
                          const ReceiveTime &) override {
    return Arrival(Event(), Completion());
  }
  Result<std::vector<uint64_t>> exchange(Group group, uint64_t value) override {
    return std::vector(groups[group.index].size(), value);
  }
  void setParallelFor(ParallelFor) override {}
  void setCommThreads(int) override {}
  CommunicatorStatistics statistics() const override { return {}; }

  struct Done {
    uint32_t group;
    uint64_t id;
    Transfer transfer;
  };
  std::vector<std::vector<int32_t>> groups;
  std::vector<Done> collectives; // a request's number counts them from 1
  std::vector<uint64_t> waits;   // the requests waited for
  std::function<void()> onStart;
  /// What the other ranks add to each element of a collective, in parts of what
  /// this rank has, at the start and again at the wait. The collective is then
  /// an all-reduce of f32 in place, in memory that this process can access.
  float others = 0;

private:
  AloneCommunicator(std::unique_ptr<AloneJob> joined,
                    const CommunicatorProperties &properties)
      : Communicator(*joined, properties), alone(std::move(joined)) {}
  void addFromOthers(const Transfer &transfer) {
    if (others == 0)
      return;
    auto *values = reinterpret_cast<float *>(
        DeviceAccess::pointerTo(region->span().address + transfer.input));
    for (int64_t n = 0;
         n < elementsOf(CollectiveKind::AllReduce, transfer, worldSize()).input;
         ++n)
      values[n] += others * values[n];
  }
  std::unique_ptr<AloneJob> alone;
  std::shared_ptr<const DeviceMemory> region;
};

} // namespace polyrank::runtime::test
