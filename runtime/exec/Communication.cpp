// Starts collectives and moves values by the communicator, at their places in
// the arena.

#include "runtime/exec/Communication.h"

#include "runtime/plan/Enums.h"

#include <utility>

namespace polyrank::runtime {
namespace {

class CommunicatorOperation : public CollectiveOperation {
public:
  CommunicatorOperation(const plan::Collective &source, Group group,
                        const ArenaView &arena, Communicator &communicator)
      : CollectiveOperation(source, group), source(source),
        communicator(communicator) {
    for (const plan::Transfer *transfer : *source.transfers())
      first.push_back({shapeOf(*transfer), arena.offsetOf(*transfer->input()),
                       arena.offsetOf(*transfer->output())});
    transfers = first;
    collective.transfers = transfers;
  }

  /// Fails unless the communicator can run this in all microbatches: checks the
  /// first and the last place of each buffer.
  Result<void> check(uint32_t microbatches) {
    enter(0);
    if (Result<void> fits = communicator.check(collective); !fits)
      return fits;
    auto shiftOfLast = [&](const plan::BufferRef &buffer) {
      return shiftOf(buffer, placesOf(buffer, microbatches) - 1);
    };
    for (size_t i = 0; i < transfers.size(); ++i) {
      const plan::Transfer &transfer = *source.transfers()->Get(i);
      transfers[i].input += shiftOfLast(*transfer.input());
      transfers[i].output += shiftOfLast(*transfer.output());
    }
    return communicator.check(collective);
  }

  Result<Event> issue(Invocation invocation, Events after) override {
    enter(invocation.microbatch);
    if (!hasRequest) {
      POLYRANK_ASSIGN(end, communicator.run(collective, after));
      last = std::move(end);
      return last.event();
    }
    POLYRANK_ASSIGN(started, communicator.start(collective, after));
    request = std::move(started);
    return request.started;
  }

  Result<Event> wait() override {
    POLYRANK_ASSIGN(end, communicator.wait(request));
    last = std::move(end);
    return last.event();
  }

private:
  void enter(uint32_t microbatch) {
    for (size_t i = 0; i < transfers.size(); ++i) {
      const plan::Transfer &transfer = *source.transfers()->Get(i);
      transfers[i].input =
          first[i].input + shiftOf(*transfer.input(), microbatch);
      transfers[i].output =
          first[i].output + shiftOf(*transfer.output(), microbatch);
    }
  }

  const plan::Collective &source;
  Communicator &communicator;
  std::vector<Transfer> first, transfers; // of microbatch 0; of this one
};

class WaitOperation : public IssuedOperation {
public:
  explicit WaitOperation(CollectiveOperation &collective)
      : collective(collective) {}

  Result<Event> issue(Invocation, Events) override { return collective.wait(); }
  const Arrival *arrival() const override { return &collective.lastArrival(); }

private:
  CollectiveOperation &collective;
};

/// A send or a receive, with the place of its value in the arena.
class Moving : public TransferOperation {
public:
  Moving(const plan::BufferRef &buffer, ChannelEnd end, int32_t peer,
         const ArenaView &arena, Communicator &communicator)
      : TransferOperation(peer), address(arena.resolve(buffer)),
        bytes(buffer.size()), end(end), communicator(communicator) {}

protected:
  DeviceSpan valueOf(Invocation invocation) const {
    return {address.at(invocation), bytes};
  }

  Address address;
  uint64_t bytes;
  ChannelEnd end;
  Communicator &communicator;
};

class SendOperation : public Moving {
public:
  using Moving::Moving;
  Result<Event> issue(Invocation invocation, Events after) override {
    POLYRANK_ASSIGN(done, communicator.send(end, valueOf(invocation), after));
    last = std::move(done);
    return last.event();
  }
};

class ReceiveOperation : public Moving {
public:
  using Moving::Moving;
  Result<Event> issue(Invocation invocation, Events after) override {
    POLYRANK_ASSIGN(done,
                    communicator.receive(end, valueOf(invocation), after));
    last = std::move(done);
    return last.event();
  }
};

/// Returns the channel of a Send or a Receive.
template <typename End>
Channel channelOfEnd(const End &source, Group group) {
  Channel channel;
  channel.group = group;
  channel.from = source.from(), channel.to = source.to();
  channel.slots = source.slots();
  channel.id = source.id();
  channel.bytes = source.bytes();
  return channel;
}

} // namespace

CollectiveOperation::CollectiveOperation(const plan::Collective &source,
                                         Group group)
    : hasRequest(source.request() != 0) {
  collective.kind = kindOf(source.kind());
  collective.reduction = reductionOf(source.reduction());
  collective.dtype = ElementType(source.dtype());
  collective.group = group;
  collective.id = source.id();
  if (source.permutation())
    permutation.assign(source.permutation()->begin(),
                       source.permutation()->end());
  collective.permutation = permutation;
}

Result<std::unique_ptr<CollectiveOperation>>
prepareCollective(const plan::Collective &source, Group group,
                  uint32_t microbatches, const ArenaView &arena,
                  Communicator &communicator) {
  auto operation = std::make_unique<CommunicatorOperation>(source, group, arena,
                                                           communicator);
  if (Result<void> fits = operation->check(microbatches); !fits)
    return fits.error();
  return std::unique_ptr<CollectiveOperation>(std::move(operation));
}

std::unique_ptr<IssuedOperation> prepareWait(CollectiveOperation &collective) {
  return std::make_unique<WaitOperation>(collective);
}

std::unique_ptr<TransferOperation> prepareSend(const plan::Send &source,
                                               ChannelEnd end, int32_t peer,
                                               const ArenaView &arena,
                                               Communicator &communicator) {
  return std::make_unique<SendOperation>(*source.input(), end, peer, arena,
                                         communicator);
}

std::unique_ptr<TransferOperation> prepareReceive(const plan::Receive &source,
                                                  ChannelEnd end, int32_t peer,
                                                  const ArenaView &arena,
                                                  Communicator &communicator) {
  return std::make_unique<ReceiveOperation>(*source.output(), end, peer, arena,
                                            communicator);
}

Channel channelOf(const plan::Send &source, Group group) {
  return channelOfEnd(source, group);
}

Channel channelOf(const plan::Receive &source, Group group) {
  return channelOfEnd(source, group);
}

} // namespace polyrank::runtime
