// Prepares the commands of a program, runs them in order, and measures each.
// Each request of a segment has at most one collective in flight.

#include "runtime/exec/Interpreter.h"

#include "runtime/plan/BufferPlace.h"
#include "runtime/plan/CommandText.h"
#include "runtime/plan/Enums.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

class TransportOperation : public CollectiveOperation {
public:
  TransportOperation(const plan::Collective &source, Group group,
                     const ArenaView &arena, Transport &transport)
      : CollectiveOperation(source, group), source(source),
        transport(transport) {
    for (const plan::Transfer *transfer : *source.transfers())
      first.push_back({shapeOf(*transfer), arena.offsetOf(*transfer->input()),
                       arena.offsetOf(*transfer->output())});
    transfers = first;
    collective.transfers = transfers;
  }

  /// Fails unless the transport can run this in all microbatches: checks the
  /// first and the last place of each buffer.
  Result<void> check(uint32_t microbatches) {
    enter(0);
    if (Result<void> fits = transport.check(collective); !fits)
      return fits;
    auto shiftOfLast = [&](const plan::BufferRef &buffer) {
      return shiftOf(buffer, placesOf(buffer, microbatches) - 1);
    };
    for (size_t i = 0; i < transfers.size(); ++i) {
      const plan::Transfer &transfer = *source.transfers()->Get(i);
      transfers[i].input += shiftOfLast(*transfer.input());
      transfers[i].output += shiftOfLast(*transfer.output());
    }
    return transport.check(collective);
  }

  Result<void> run(Invocation invocation) override {
    enter(invocation.microbatch);
    if (hasRequest) {
      POLYRANK_ASSIGN(started, transport.start(collective));
      request = started;
    } else {
      POLYRANK_ASSIGN(done, transport.run(collective));
      last = done;
    }
    return {};
  }

  Result<void> wait() override {
    POLYRANK_ASSIGN(done, transport.wait(request));
    last = done;
    return {};
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
  Transport &transport;
  std::vector<Transfer> first, transfers; // of microbatch 0; of this one
};

class WaitOperation : public Operation {
public:
  explicit WaitOperation(CollectiveOperation &collective)
      : collective(collective) {}

  Result<void> run(Invocation) override { return collective.wait(); }

private:
  CollectiveOperation &collective;
};

/// A send or a receive, with the place of its value in the arena.
class Moving : public TransferOperation {
public:
  Moving(const plan::BufferRef &buffer, ChannelEnd end, int32_t peer,
         const ArenaView &arena, Transport &transport)
      : TransferOperation(peer), address(arena.resolve(buffer)),
        bytes(buffer.size()), end(end), transport(transport) {}

protected:
  DeviceSpan valueOf(Invocation invocation) const {
    return {address.at(invocation), bytes};
  }

  Address address;
  uint64_t bytes;
  ChannelEnd end;
  Transport &transport;
};

class SendOperation : public Moving {
public:
  using Moving::Moving;
  Result<void> run(Invocation invocation) override {
    POLYRANK_ASSIGN(done, transport.send(end, valueOf(invocation)));
    last = done;
    return {};
  }
};

class ReceiveOperation : public Moving {
public:
  using Moving::Moving;
  Result<void> run(Invocation invocation) override {
    POLYRANK_ASSIGN(done, transport.receive(end, valueOf(invocation)));
    last = done;
    return {};
  }
};

/// Returns the channel of a Send or a Receive, which moves `value`.
template <typename End>
Channel channelOf(const End &source, const plan::BufferRef &value,
                  Group group) {
  Channel channel;
  channel.group = group;
  channel.from = source.from(), channel.to = source.to();
  channel.slots = source.slots();
  channel.id = source.id();
  channel.offset = source.channel()->offset();
  channel.bytes = value.size();
  return channel;
}

std::string originOf(const plan::Command &command) {
  return command.origin() ? command.origin()->str() : nameOf(command);
}

uint64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace

uint64_t CommandTimes::total() const {
  uint64_t sum = 0;
  for (uint64_t time : nanoseconds)
    sum += time;
  return sum;
}

uint64_t CommandTimes::communication() const {
  return nanoseconds[int(plan::CommandBody::Collective)] +
         nanoseconds[int(plan::CommandBody::Wait)] +
         nanoseconds[int(plan::CommandBody::Send)] +
         nanoseconds[int(plan::CommandBody::Receive)];
}

double CommandTimes::communicationShare() const {
  uint64_t sum = total();
  return sum ? double(communication()) / sum : 0;
}

/// Prepares the commands of a program for one rank.
class Interpreter::Preparation {
public:
  Preparation(uint32_t microbatches, const Mesh &mesh, int64_t rank,
              const ArenaView &arena, Device &device, Transport &transport,
              Rehearsal *rehearsal)
      : microbatches(microbatches), mesh(mesh), rank(rank), arena(arena),
        device(device), transport(transport), rehearsal(rehearsal) {}

  Result<void> createGroups(const plan::Program &program, const Links &links);
  Result<std::vector<Command>> prepareSegment(const plan::Segment &segment,
                                              uint32_t number);

private:
  /// The command of the program that is prepared: its segment, and its number
  /// there.
  struct At {
    uint32_t segment = 0, command = 0;
  };

  /// A launch, a library call or a copy.
  Device::Prepared prepareComputed(const plan::Command &command);
  /// Prepares `command.source`, and sets what else the command has.
  Device::Prepared prepareCommand(Command &command);
  Device::Prepared prepareLoop(Command &loop);
  Device::Prepared prepareWait(Command &command);
  Device::Prepared prepareSend(Command &command);
  Device::Prepared prepareReceive(Command &command);
  Device::Prepared prepareCollective(Command &command);

  uint32_t microbatches;
  const Mesh &mesh;
  int64_t rank;
  const ArenaView &arena;
  Device &device;
  Transport &transport;
  Rehearsal *rehearsal;
  std::vector<Group> groups;
  std::vector<std::vector<uint32_t>> ranksOf; // by group
  At at;
  std::map<uint32_t, CollectiveOperation *> started; // by request
};

Result<void>
Interpreter::Preparation::createGroups(const plan::Program &program,
                                       const Links &links) {
  std::map<uint32_t, PacedLink> paced; // two lists of axes may give one group
  for (const plan::AxisList *list : *program.groups()) {
    std::vector<uint32_t> members = mesh.group(rank, list->axes());
    std::vector<int32_t> ranks(members.begin(), members.end());
    POLYRANK_ASSIGN(group, transport.createGroup(ranks));
    groups.push_back(group);
    ranksOf.push_back(std::move(members));
    if (auto link = links.of(list->axes())) {
      PacedLink &slowest = paced[group.index];
      slowest = {
          std::max(slowest.picoseconds, link->picoseconds),
          std::max(slowest.picosecondsPerByte, link->picosecondsPerByte)};
      transport.pace(group, slowest);
    }
  }
  return {};
}

Device::Prepared
Interpreter::Preparation::prepareComputed(const plan::Command &command) {
  if (const plan::Launch *launch = command.body_as_Launch())
    return device.prepare(*launch, arena);
  if (const plan::Call *call = command.body_as_Call())
    return device.prepare(*call, arena);
  const plan::Copy &copy = *command.body_as_Copy();
  int64_t index = copy.axes() ? mesh.linearIndex(rank, copy.axes()->axes()) : 0;
  return device.prepare(copy, index, arena);
}

Device::Prepared Interpreter::Preparation::prepareLoop(Command &loop) {
  for (const plan::Command *each : *loop.source->body_as_Loop()->commands()) {
    Device::Prepared operation = prepareComputed(*each);
    if (!operation)
      return Error{
          fmt::format("{}: {}", originOf(*each), operation.error().message),
          operation.error().fault};
    loop.nested.push_back({each->body_type(),
                           *std::move(operation),
                           each,
                           loop.segment,
                           nullptr,
                           {}});
  }
  return std::unique_ptr<Operation>();
}

Device::Prepared Interpreter::Preparation::prepareWait(Command &command) {
  CollectiveOperation &collective =
      *started.at(command.source->body_as_Wait()->request());
  command.completion = &collective.completion();
  return std::unique_ptr<Operation>(
      std::make_unique<WaitOperation>(collective));
}

Device::Prepared Interpreter::Preparation::prepareSend(Command &command) {
  const plan::Send &send = *command.source->body_as_Send();
  Channel channel = channelOf(send, *send.input(), groups[send.group()]);
  auto peer = int32_t(ranksOf[send.group()][send.to()]);
  Result<ChannelEnd> end = transport.openChannel(channel);
  if (!end)
    return end.error();
  std::unique_ptr<TransferOperation> operation =
      rehearsal
          ? rehearsal->prepareSend(at.segment, at.command, channel, *end, peer)
          : std::make_unique<SendOperation>(*send.input(), *end, peer, arena,
                                            transport);
  command.completion = &operation->completion();
  return std::unique_ptr<Operation>(std::move(operation));
}

Device::Prepared Interpreter::Preparation::prepareReceive(Command &command) {
  const plan::Receive &receive = *command.source->body_as_Receive();
  auto peer = int32_t(ranksOf[receive.group()][receive.from()]);
  Result<ChannelEnd> end = transport.openChannel(
      channelOf(receive, *receive.output(), groups[receive.group()]));
  if (!end)
    return end.error();
  std::unique_ptr<TransferOperation> operation =
      rehearsal ? rehearsal->prepareReceive(*end, peer)
                : std::make_unique<ReceiveOperation>(*receive.output(), *end,
                                                     peer, arena, transport);
  command.completion = &operation->completion();
  return std::unique_ptr<Operation>(std::move(operation));
}

Device::Prepared Interpreter::Preparation::prepareCollective(Command &command) {
  const plan::Collective &collective = *command.source->body_as_Collective();
  Group group = groups[collective.group()];
  std::unique_ptr<CollectiveOperation> operation;
  if (rehearsal) {
    operation = rehearsal->prepare(at.segment, at.command, collective, group);
  } else {
    auto real = std::make_unique<TransportOperation>(collective, group, arena,
                                                     transport);
    if (Result<void> fits = real->check(microbatches); !fits)
      return fits.error();
    operation = std::move(real);
  }
  if (collective.request())
    started[collective.request()] = operation.get();
  else
    command.completion = &operation->completion();
  return std::unique_ptr<Operation>(std::move(operation));
}

Device::Prepared Interpreter::Preparation::prepareCommand(Command &command) {
  if (rehearsal && isComputed(*command.source))
    return rehearsal->prepare(at.segment, at.command);
  switch (command.kind) {
  case plan::CommandBody::Launch:
  case plan::CommandBody::Call:
  case plan::CommandBody::Copy:
    return prepareComputed(*command.source);
  case plan::CommandBody::Loop:
    return prepareLoop(command);
  case plan::CommandBody::Wait:
    return prepareWait(command);
  case plan::CommandBody::Send:
    return prepareSend(command);
  case plan::CommandBody::Receive:
    return prepareReceive(command);
  default:
    return prepareCollective(command);
  }
}

Result<std::vector<Interpreter::Command>>
Interpreter::Preparation::prepareSegment(const plan::Segment &segment,
                                         uint32_t number) {
  std::vector<Command> commands;
  if (!segment.commands())
    return commands;
  started.clear();
  for (const plan::Command *source : *segment.commands()) {
    at = {number, uint32_t(commands.size())};
    Command command{source->body_type(),     nullptr, source,
                    segment.name()->c_str(), nullptr, {}};
    Device::Prepared operation = prepareCommand(command);
    if (!operation)
      return Error{
          fmt::format("segment '{}', {}: {}", segment.name()->str(),
                      source->origin() ? source->origin()->str() : "command",
                      operation.error().message),
          operation.error().fault};
    command.operation = *std::move(operation);
    commands.push_back(std::move(command));
  }
  return std::move(commands);
}

Result<Interpreter>
Interpreter::prepare(const plan::Program &program, uint32_t microbatches,
                     const Mesh &mesh, int64_t rank, const ArenaView &arena,
                     Device &device, Transport &transport, const Links &links,
                     Rehearsal *rehearsal) {
  Interpreter interpreter(device, transport);
  interpreter.rehearsal = rehearsal;
  Preparation preparation(microbatches, mesh, rank, arena, device, transport,
                          rehearsal);
  if (Result<void> created = preparation.createGroups(program, links); !created)
    return created.error();
  for (const plan::Segment *segment : *program.segments()) {
    POLYRANK_ASSIGN(commands,
                    preparation.prepareSegment(
                        *segment, uint32_t(interpreter.segments.size())));
    interpreter.segments.push_back(std::move(commands));
  }
  for (const plan::Action *action : *program.schedule())
    interpreter.schedule.push_back(*action);
  return interpreter;
}

/// Enqueues computation on the device. A collective accesses the arena from
/// its start to its wait, and a send or a receive until it returns, so the
/// device must finish all earlier operations before these run.
Result<void> Interpreter::issue(const Command &command, uint32_t microbatch,
                                Event &latest) {
  // Operations of a rehearsal run without the device: they sleep and wait.
  if (rehearsal || command.kind == plan::CommandBody::Wait)
    return command.operation->run({microbatch});
  if (command.kind == plan::CommandBody::Collective ||
      command.kind == plan::CommandBody::Send ||
      command.kind == plan::CommandBody::Receive) {
    if (Result<void> done = device->synchronize(latest); !done)
      return done;
    return command.operation->run({microbatch});
  }
  return enqueue(command, {microbatch}, latest);
}

Result<void> Interpreter::enqueue(const Command &command, Invocation invocation,
                                  Event &latest) {
  Result<Event> request =
      device->enqueue(*command.operation, invocation, latest);
  if (!request)
    return request.error();
  latest = *request;
  return {};
}

/// Enqueues all iterations, and signals progress after each, since a loop may
/// take long.
Result<void> Interpreter::runLoop(const Command &loop, uint32_t microbatch,
                                  const ProfilePlace &place, Event &latest) {
  uint32_t iterations = iterationsOf(*loop.source);
  uint64_t start = profiled ? now() : 0;
  for (uint32_t iteration = 0; iteration < iterations; ++iteration) {
    for (size_t n = 0; n < loop.nested.size(); ++n) {
      Result<void> done =
          enqueue(loop.nested[n], {microbatch, iteration}, latest);
      if (!done)
        return Error{fmt::format("iteration {}, {}: {}", iteration,
                                 originOf(*loop.nested[n].source),
                                 done.error().message),
                     done.error().fault};
      if (!profiled)
        continue;
      uint64_t end = now();
      profiled->add(place.segment, place.command, end - start, n);
      start = end;
    }
    transport->job().beat();
  }
  return {};
}

Result<void> Interpreter::runStep(uint64_t step, Event &latest) {
  uint32_t number = 0;
  uint64_t start = now();
  if (traced)
    traced->beginStep(step);
  if (rehearsal)
    rehearsal->beginStep();
  for (uint32_t a = 0; a < schedule.size(); ++a) {
    const plan::Action &action = schedule[a];
    std::vector<Command> &commands = segments[action.segment()];
    for (size_t c = 0; c < commands.size(); ++c) {
      Command &command = commands[c];
      transport->job().setProgress(step, number);
      // In a rehearsal a loop is one sleep.
      bool isLoop = !command.nested.empty();
      Result<void> result = isLoop
                                ? runLoop(command, action.microbatch(),
                                          {action.segment(), c}, latest)
                                : issue(command, action.microbatch(), latest);
      if (!result)
        return Error{fmt::format("step {}, segment '{}', microbatch {}, {}: {}",
                                 step, command.segment, action.microbatch(),
                                 originOf(*command.source),
                                 result.error().message),
                     result.error().fault};
      uint64_t end = now();
      measured.nanoseconds[int(command.kind)] += end - start;
      ++measured.counts[int(command.kind)];
      if (profiled && !isLoop)
        profiled->add(action.segment(), c, end - start);
      if (traced)
        traced->add(a, static_cast<uint32_t>(c), int64_t(start), int64_t(end),
                    command.completion);
      start = end;
      ++number;
    }
  }
  if (profiled)
    profiled->endStep();
  return {};
}

} // namespace polyrank::runtime
