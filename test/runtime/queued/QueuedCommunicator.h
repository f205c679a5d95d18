// A communicator whose collectives and transfers run in the background.

#pragma once

#include "runtime/comm/Communicator.h"
#include "test/runtime/queued/WorkQueues.h"

#include <utility>

namespace polyrank::runtime::test {

/// Lets another communicator do the work on one queue, number `queue` of
/// `queues`, in the order of the calls, each once its events are over. The
/// inner communicator may block there.
class QueuedCommunicator : public Communicator {
public:
  QueuedCommunicator(std::unique_ptr<Communicator> given,
                     std::shared_ptr<WorkQueues> queues, size_t queue)
      : Communicator(given->job(), given->properties()),
        inner(std::move(given)), queues(std::move(queues)), queue(queue) {}
  ~QueuedCommunicator() override { queues->drain(); }

  /// The inner communicator registers the memory behind the addresses of a
  /// QueuedDevice.
  Result<void>
  registerMemory(std::shared_ptr<const DeviceMemory> memory) override {
    auto held = queues->heldAt(memory->span().address);
    return inner->registerMemory(held ? std::move(held) : std::move(memory));
  }
  Result<Group> createGroup(std::span<const int32_t> ranks,
                            const LinkTime &link) override {
    queues->drain();
    return inner->createGroup(ranks, link);
  }
  Result<void> check(const Collective &collective) override {
    return inner->check(collective);
  }

  Result<Request> start(const Collective &collective, Events after) override {
    auto flight = std::make_shared<Flight>(collective);
    POLYRANK_ASSIGN(started, put(after, [=, this]() -> Result<void> {
                      POLYRANK_ASSIGN(request,
                                      inner->start(flight->collective));
                      flight->request = request;
                      return {};
                    }));
    inFlight[++requests] = flight;
    return Request{requests, started};
  }
  Result<Arrival> wait(const Request &request) override {
    auto flight = inFlight.extract(request.number).mapped();
    auto completion = std::make_shared<Completion>();
    POLYRANK_ASSIGN(over, put({}, [=, this]() -> Result<void> {
                      POLYRANK_ASSIGN(arrival, inner->wait(flight->request));
                      *completion = arrival.completion();
                      return {};
                    }));
    return Arrival(std::move(over), completion);
  }

  Result<ChannelEnd> openChannel(const Channel &channel) override {
    queues->drain();
    return inner->openChannel(channel);
  }
  Result<Arrival> send(ChannelEnd end, DeviceSpan value, Events after,
                       const SendTimes &times) override {
    return move(after, [=, this] {
      return inner->send(end, queues->hostOf(value), {}, times);
    });
  }
  Result<Arrival> receive(ChannelEnd end, DeviceSpan into, Events after,
                          const ReceiveTime &freed) override {
    return move(after, [=, this] {
      return inner->receive(end, queues->hostOf(into), {}, freed);
    });
  }

  Result<std::vector<uint64_t>> exchange(Group group, uint64_t value) override {
    queues->drain();
    return inner->exchange(group, value);
  }
  /// The device's threads may be at work: the queue's own thread does it all.
  void setParallelFor(ParallelFor) override {}
  void setCommThreads(int count) override {
    queues->drain();
    inner->setCommThreads(count);
  }
  CommunicatorStatistics statistics() const override {
    queues->drain();
    return inner->statistics();
  }

private:
  /// A collective with what its spans refer to, and the inner request.
  struct Flight {
    explicit Flight(const Collective &given)
        : collective(given),
          permutation(given.permutation.begin(), given.permutation.end()),
          transfers(given.transfers.begin(), given.transfers.end()) {
      collective.permutation = permutation;
      collective.transfers = transfers;
    }
    Collective collective;
    std::vector<int32_t> permutation;
    std::vector<Transfer> transfers;
    Request request;
  };

  Result<Event> put(Events after, WorkQueues::Body body) {
    return queues->put(queue, after, std::move(body));
  }
  Result<Arrival> move(Events after, std::function<Result<Arrival>()> body) {
    auto completion = std::make_shared<Completion>();
    POLYRANK_ASSIGN(over, put(after, [=]() -> Result<void> {
                      POLYRANK_ASSIGN(arrival, body());
                      *completion = arrival.completion();
                      return {};
                    }));
    return Arrival(std::move(over), completion);
  }

  std::unique_ptr<Communicator> inner;
  std::shared_ptr<WorkQueues> queues;
  size_t queue;
  uint64_t requests = 0;
  std::map<uint64_t, std::shared_ptr<Flight>> inFlight;
};

} // namespace polyrank::runtime::test
