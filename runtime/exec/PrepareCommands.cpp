// Gives each command to the device, the communicator or the rehearsal that will
// run it.

#include "runtime/exec/PrepareCommands.h"

#include "runtime/exec/Communication.h"
#include "runtime/plan/CommandText.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

class Preparation {
public:
  Preparation(uint32_t microbatches, const RankContext &on)
      : microbatches(microbatches), on(on) {}

  Result<void> createGroups(const plan::Program &program, const Links &links);
  Result<std::vector<PreparedCommand>>
  prepareSegment(const plan::Segment &segment, uint32_t number);

private:
  /// The command of the program that is prepared: its segment, and its number
  /// there.
  struct At {
    uint32_t segment = 0, command = 0;
  };
  using Issued = Result<std::unique_ptr<IssuedOperation>>;

  /// Sets what runs `command.source`.
  Result<void> prepareCommand(PreparedCommand &command);
  /// A launch, a library call or a copy.
  Device::Prepared prepareComputed(const plan::Command &command);
  Result<void> prepareLoop(PreparedCommand &loop);
  Issued prepareIssued(const plan::Command &command);
  Issued prepareSending(const plan::Command &command);
  Issued prepareReceiving(const plan::Command &command);
  Issued prepareStart(const plan::Command &command);

  uint32_t microbatches;
  const RankContext &on;
  std::vector<Group> groups;
  std::vector<std::vector<uint32_t>> ranksOf; // by group
  At at;
  std::map<uint32_t, CollectiveOperation *> started; // by request
};

Result<void> Preparation::createGroups(const plan::Program &program,
                                       const Links &links) {
  // Two lists of axes may give one group, whose link is the slowest.
  std::map<std::vector<int32_t>, LinkTime> slowest;
  for (const plan::AxisList *list : *program.groups()) {
    std::vector<uint32_t> members = on.mesh.group(on.rank, list->axes());
    std::optional<LinkTime> given = links.of(list->axes());
    const CommunicatorProperties &has = on.communicator.properties();
    if (given && !has.emulatesLinks)
      return Error{fmt::format("the communicator '{}' emulates no links, and "
                               "--link gives one to {}; run without it",
                               has.name, on.mesh.describe(list->axes())),
                   Error::Fault::Input};
    LinkTime &link = slowest[{members.begin(), members.end()}];
    link = link.slower(given.value_or(LinkTime()));
    ranksOf.push_back(std::move(members));
  }
  for (const std::vector<uint32_t> &members : ranksOf) {
    std::vector<int32_t> ranks(members.begin(), members.end());
    POLYRANK_ASSIGN(group,
                    on.communicator.createGroup(ranks, slowest.at(ranks)));
    groups.push_back(group);
  }
  return {};
}

Device::Prepared Preparation::prepareComputed(const plan::Command &command) {
  if (const plan::Launch *launch = command.body_as_Launch())
    return on.device.prepare(*launch, on.arena);
  if (const plan::Call *call = command.body_as_Call())
    return on.device.prepare(*call, on.arena);
  const plan::Copy &copy = *command.body_as_Copy();
  int64_t index =
      copy.axes() ? on.mesh.linearIndex(on.rank, copy.axes()->axes()) : 0;
  return on.device.prepare(copy, index, on.arena);
}

Result<void> Preparation::prepareLoop(PreparedCommand &loop) {
  for (const plan::Command *each : *loop.source->body_as_Loop()->commands()) {
    Device::Prepared operation = prepareComputed(*each);
    if (!operation)
      return operation.error().saying(
          fmt::format("{}: {}", originOf(*each), operation.error().message));
    loop.nested.push_back(
        {each->body_type(), each, loop.segment, *std::move(operation)});
  }
  return {};
}

Preparation::Issued Preparation::prepareSending(const plan::Command &command) {
  const plan::Send &send = *command.body_as_Send();
  Channel channel = channelOf(send, groups[send.group()]);
  channel.hasValues = !on.rehearsal;
  channel.queue = command.queue();
  auto peer = int32_t(ranksOf[send.group()][send.to()]);
  POLYRANK_ASSIGN(end, on.communicator.openChannel(channel));
  return std::unique_ptr<IssuedOperation>(
      on.rehearsal ? on.rehearsal->prepareSend(at.segment, at.command, channel,
                                               end, peer)
                   : prepareSend(send, end, peer, on.arena, on.communicator));
}

Preparation::Issued
Preparation::prepareReceiving(const plan::Command &command) {
  const plan::Receive &receive = *command.body_as_Receive();
  Channel channel = channelOf(receive, groups[receive.group()]);
  channel.queue = command.queue();
  auto peer = int32_t(ranksOf[receive.group()][receive.from()]);
  POLYRANK_ASSIGN(end, on.communicator.openChannel(channel));
  return std::unique_ptr<IssuedOperation>(
      on.rehearsal
          ? on.rehearsal->prepareReceive(end, peer)
          : prepareReceive(receive, end, peer, on.arena, on.communicator));
}

Preparation::Issued Preparation::prepareStart(const plan::Command &command) {
  const plan::Collective &collective = *command.body_as_Collective();
  Group group = groups[collective.group()];
  std::unique_ptr<CollectiveOperation> operation;
  if (on.rehearsal) {
    operation =
        on.rehearsal->prepare(at.segment, at.command, collective, group);
  } else {
    POLYRANK_ASSIGN(real, prepareCollective(collective, group, microbatches,
                                            on.arena, on.communicator));
    operation = std::move(real);
  }
  operation->setQueue(command.queue());
  if (collective.request())
    started[collective.request()] = operation.get();
  return std::unique_ptr<IssuedOperation>(std::move(operation));
}

Preparation::Issued Preparation::prepareIssued(const plan::Command &command) {
  if (const plan::Wait *wait = command.body_as_Wait())
    return prepareWait(*started.at(wait->request()));
  if (command.body_as_Send())
    return prepareSending(command);
  if (command.body_as_Receive())
    return prepareReceiving(command);
  if (command.body_as_Collective())
    return prepareStart(command);
  return on.rehearsal->prepare(at.segment, at.command);
}

Result<void> Preparation::prepareCommand(PreparedCommand &command) {
  if (on.rehearsal || !isComputed(*command.source)) {
    POLYRANK_ASSIGN(issued, prepareIssued(*command.source));
    command.issued = std::move(issued);
    return {};
  }
  if (command.kind == plan::CommandBody::Loop)
    return prepareLoop(command);
  POLYRANK_ASSIGN(computed, prepareComputed(*command.source));
  command.computed = std::move(computed);
  return {};
}

Result<std::vector<PreparedCommand>>
Preparation::prepareSegment(const plan::Segment &segment, uint32_t number) {
  std::vector<PreparedCommand> commands;
  if (!segment.commands())
    return commands;
  started.clear();
  for (const plan::Command *source : *segment.commands()) {
    at = {number, uint32_t(commands.size())};
    PreparedCommand command{source->body_type(), source,
                            segment.name()->c_str()};
    if (Result<void> done = prepareCommand(command); !done)
      return done.error().saying(
          fmt::format("segment '{}', {}: {}", segment.name()->str(),
                      source->origin() ? source->origin()->str() : "command",
                      done.error().message));
    commands.push_back(std::move(command));
  }
  return std::move(commands);
}

} // namespace

std::string originOf(const plan::Command &command) {
  return command.origin() ? command.origin()->str() : nameOf(command);
}

Result<std::vector<std::vector<PreparedCommand>>>
prepareCommands(const plan::Program &program, uint32_t microbatches,
                const RankContext &on, const Links &links) {
  Preparation preparation(microbatches, on);
  if (Result<void> created = preparation.createGroups(program, links); !created)
    return created.error();
  std::vector<std::vector<PreparedCommand>> segments;
  for (const plan::Segment *segment : *program.segments()) {
    POLYRANK_ASSIGN(commands, preparation.prepareSegment(
                                  *segment, uint32_t(segments.size())));
    segments.push_back(std::move(commands));
  }
  return std::move(segments);
}

} // namespace polyrank::runtime
