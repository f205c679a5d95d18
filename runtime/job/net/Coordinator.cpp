// How the coordinator reacts to what happens.

#include "runtime/job/net/Coordinator.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

constexpr size_t mostToldLines = 1000;
/// So many ranks are told of at once.
constexpr size_t ranksOfAPulse = 512;
/// The most bytes of a report.
constexpr size_t longestReport = size_t(64) << 20;

} // namespace

std::string nameOfMachine(int machine, const std::string &address) {
  return address.empty() ? fmt::format("machine {}", machine)
                         : fmt::format("machine {} ({})", machine, address);
}

Coordinator::Coordinator(const Options &options, Time now)
    : options(options), begun(now), now(now), nextPulse(now + pulseEvery),
      machines(static_cast<size_t>(options.machines)),
      rounds(options.machines) {}

void Coordinator::arrived(Link link, const Claim &claim,
                          const std::string &address, Time time) {
  now = time;
  links.insert_or_assign(link, Connection{claim, address, Silence(now), -1});
}

void Coordinator::received(Link link, const Message &message, Time time) {
  now = time;
  auto found = links.find(link);
  if (found == links.end())
    return; // it was closed by us, and does not know it yet
  found->second.silence.heard(now);
  if (found->second.machine < 0 &&
      !std::holds_alternative<JoinMessage>(message))
    return refuse(link, "the first message of a node is that it joins",
                  Error::Fault::Rank);
  std::visit([&](const auto &body) { take(link, found->second, body); },
             message);
}

void Coordinator::closed(Link link, const std::string &why, Time time) {
  now = time;
  auto found = links.find(link);
  if (found == links.end())
    return;
  int machine = found->second.machine;
  links.erase(found);
  if (machine < 0)
    return;
  std::string name = describe(machine);
  machines[static_cast<size_t>(machine)].isThere = false;
  if (current == Phase::Running)
    fail({machine, -1,
          Error{fmt::format("{} is lost: {}", name, why), Error::Fault::Rank}});
  else if (current == Phase::Gathering)
    log.push_back(
        fmt::format("{} has gone again: {}; it is waited for", name, why));
}

void Coordinator::tick(Time time) {
  now = time;
  std::vector<Link> silent;
  for (auto &[link, connection] : links)
    if (link != ownLink && connection.silence.isTooLong(now))
      silent.push_back(link);
  for (Link link : silent) {
    closed(link, "it was silent for 5 s", now);
    actions.push_back({link, std::nullopt});
  }
  if (current == Phase::Gathering && now - begun >= options.joinTimeout)
    tellMissing();
  if (now < nextPulse)
    return;
  nextPulse = now + pulseEvery;
  sendToAll(CoordinatorPulse{rounds.order()});
  if (current == Phase::Running && options.sharesRanks)
    sendRanks();
}

void Coordinator::sendRanks() {
  std::vector<const RemoteRank *> all;
  for (const Machine &machine : machines)
    for (const RemoteRank &rank : machine.ranks)
      all.push_back(&rank);
  if (nextRank >= all.size())
    nextRank = 0;
  RanksMessage message;
  message.first = static_cast<uint32_t>(nextRank);
  size_t end = std::min(all.size(), nextRank + ranksOfAPulse);
  for (; nextRank < end; ++nextRank)
    message.ranks.push_back(*all[nextRank]);
  sendToAll(message);
}

uint64_t Coordinator::awaited(int rank) const {
  uint64_t sum = 0;
  for (const Machine &machine : machines)
    if (auto found = machine.awaited.find(static_cast<uint32_t>(rank));
        found != machine.awaited.end())
      sum += found->second;
  return sum;
}

std::vector<OtherMachines::Report> Coordinator::takeReports() {
  return std::exchange(reports, {});
}

std::vector<WindowMessage> Coordinator::takeWindow() {
  return std::exchange(window, {});
}

std::vector<Coordinator::Action> Coordinator::takeActions() {
  return std::exchange(actions, {});
}

std::vector<RemoteRank> Coordinator::ranksOf(int machine) const {
  return machines[static_cast<size_t>(machine)].ranks;
}

std::vector<std::string> Coordinator::takeTold() {
  std::vector<std::string> all(told.begin(), told.end());
  told.clear();
  return all;
}

std::vector<std::string> Coordinator::takeLog() {
  std::vector<std::string> all(log.begin(), log.end());
  log.clear();
  return all;
}

std::string Coordinator::refusalOf(const Connection &from) const {
  const Claim &claim = from.claim;
  if (int(claim.machines) != options.machines)
    return fmt::format("it was started as one of {} machines, and machine 0 as "
                       "one of {}: give all the same number",
                       claim.machines, options.machines);
  if (claim.machine >= claim.machines)
    return fmt::format("the job has machines 0 to {}, and this is machine {}",
                       options.machines - 1, claim.machine);
  const Machine &machine = machines[claim.machine];
  if (machine.isThere)
    return fmt::format("{} is there already: give each machine a number of "
                       "its own",
                       nameOfMachine(int(claim.machine), machine.address));
  return "";
}

void Coordinator::take(Link link, Connection &from,
                       const JoinMessage &message) {
  if (from.machine >= 0)
    return refuse(link, "it has joined already", Error::Fault::Rank);
  if (refused)
    return refuse(link, refused->reason, refused->fault);
  if (current != Phase::Gathering)
    return refuse(link, "it comes too late, the job has begun without it",
                  Error::Fault::Rank);
  if (std::string why = refusalOf(from); !why.empty()) {
    log.push_back(
        fmt::format("refused a machine at {}: {}", from.address, why));
    return refuse(link, why);
  }
  from.machine = int(from.claim.machine);
  Machine &machine = machines[from.claim.machine];
  machine.link = link;
  machine.address =
      link == ownLink || from.address.empty() ? message.address : from.address;
  machine.statement = message.statement;
  // A machine of very many ranks is refused by itself; here it takes no memory.
  machine.ranks.assign(
      std::min<size_t>(message.statement.ranks, MessageBounds::ranks), {});
  machine.isThere = true;
  for (size_t other = 0; other < machines.size(); ++other)
    if (machines[other].isThere && int(other) != from.machine) {
      Result<void> agree =
          checkAgreement(int(other), machines[other].statement, from.machine,
                         machine.statement, options.allowMixedCpus);
      if (!agree)
        return refuseAll(agree.error());
      break; // the others agree with that one
    }
  if (std::all_of(machines.begin(), machines.end(),
                  [](const Machine &each) { return each.isThere; }))
    start();
}

void Coordinator::start() {
  current = Phase::Running;
  StartMessage message;
  uint32_t first = 0;
  for (const Machine &machine : machines) {
    const NodeStatement &said = machine.statement;
    message.machines.push_back(
        {machine.address, first, said.ranks, said.memory, said.openFiles});
    first += machine.statement.ranks;
  }
  sendToAll(message);
}

void Coordinator::take(Link, Connection &from, const NodePulse &pulse) {
  Machine &machine = machines[static_cast<size_t>(from.machine)];
  for (size_t i = 0; i < pulse.ranks.size(); ++i)
    if (pulse.firstRank + i < machine.ranks.size())
      machine.ranks[pulse.firstRank + i] = pulse.ranks[i];
  if (machine.link != ownLink) // machine 0 knows its own
    for (const NodePulse::Awaited &each : pulse.awaited)
      machine.awaited[each.rank] = each.nanoseconds;
  rounds.receive(from.machine, pulse.answer);
  sendOrder();
}

void Coordinator::take(Link link, Connection &, const PingMessage &message) {
  actions.push_back({link, PongMessage{message.sent, now.count()}});
}

void Coordinator::take(Link, Connection &from, const FailMessage &message) {
  MachineFailure failure = message.failure;
  failure.machine = from.machine; // nobody speaks for another machine
  if (current == Phase::Running)
    fail(failure);
}

void Coordinator::take(Link link, Connection &from,
                       const TellMessage &message) {
  if (link == ownLink)
    return;
  for (const std::string &line : message.lines) {
    if (told.size() >= mostToldLines)
      told.pop_front();
    told.push_back(fmt::format("{}: {}", describe(from.machine), line));
  }
}

void Coordinator::take(Link, Connection &, const StopMessage &message) {
  if (current != Phase::Running)
    return;
  rounds.stop(message.signal);
  sendOrder();
}

void Coordinator::take(Link, Connection &from, const DoneMessage &message) {
  if (current != Phase::Running)
    return;
  machines[static_cast<size_t>(from.machine)].isDone = true;
  rounds.leaveOut(from.machine, message.begun);
  sendOrder();
  if (!std::all_of(machines.begin(), machines.end(),
                   [](const Machine &each) { return each.isDone; }))
    return;
  current = Phase::Done;
  sendToAll(DoneMessage{});
}

void Coordinator::take(Link, Connection &from, const BarrierMessage &message) {
  machines[static_cast<size_t>(from.machine)].barrier = message.number;
  for (const Machine &each : machines)
    if (each.barrier != message.number)
      return;
  for (Machine &each : machines)
    each.barrier = 0; // another job counts from 1 again
  sendToAll(message);
}

void Coordinator::take(Link link, Connection &from,
                       const ExchangeMessage &message) {
  Machine &machine = machines[static_cast<size_t>(from.machine)];
  machine.exchange = message.number;
  machine.given = message.texts.empty() ? "" : message.texts.front();
  ExchangeMessage all{message.number, {}};
  size_t bytes = 0;
  for (const Machine &each : machines) {
    if (each.exchange != message.number)
      return;
    bytes += each.given.size();
    all.texts.push_back(each.given);
  }
  if (bytes > MessageBounds::exchanged)
    return refuse(link, "the machines have too much to tell each other",
                  Error::Fault::Rank);
  sendToAll(all);
}

void Coordinator::take(Link link, Connection &, const WindowMessage &message) {
  if (link != ownLink)
    window.push_back(message);
}

void Coordinator::take(Link link, Connection &from,
                       const ReportsMessage &message) {
  Machine &machine = machines[static_cast<size_t>(from.machine)];
  for (const ReportsMessage::Part &part : message.parts) {
    if (machine.line.size() + part.text.size() > longestReport)
      return refuse(link, "a rank's report is too long", Error::Fault::Rank);
    machine.line += part.text;
    if (part.isLast)
      reports.push_back(
          {static_cast<int>(part.rank), std::exchange(machine.line, {})});
  }
}

template <class Other>
void Coordinator::take(Link link, Connection &, const Other &) {
  closed(link, "it sent what no node sends", now);
  drop(link);
}

void Coordinator::refuse(Link link, const std::string &reason,
                         Error::Fault fault) {
  actions.push_back({link, RefuseMessage{reason, fault}});
  auto found = links.find(link);
  int machine = found == links.end() ? -1 : found->second.machine;
  if (machine >= 0)
    closed(link, reason, now);
  drop(link);
}

void Coordinator::drop(Link link) {
  links.erase(link);
  actions.push_back({link, std::nullopt});
}

void Coordinator::refuseAll(const Error &error) {
  current = Phase::Over;
  refused = RefuseMessage{error.message, error.fault};
  sendToAll(*refused);
}

void Coordinator::fail(const MachineFailure &first) {
  current = Phase::Over;
  refused = RefuseMessage{first.error.message, first.error.fault};
  sendToAll(FailMessage{first});
}

void Coordinator::tellMissing() {
  std::vector<size_t> missing;
  for (size_t machine = 0; machine < machines.size(); ++machine)
    if (!machines[machine].isThere)
      missing.push_back(machine);
  constexpr size_t most = 16;
  size_t shown = std::min(most, missing.size());
  refuseAll(Error{
      fmt::format(
          "{} of {} machines have not come within {} s: machine{} {}{}; "
          "look whether they were started, and whether they reach this "
          "one (--rendezvous); --join-timeout gives them more time",
          missing.size(), machines.size(),
          std::chrono::duration_cast<std::chrono::seconds>(options.joinTimeout)
              .count(),
          missing.size() == 1 ? "" : "s",
          fmt::join(missing.begin(), missing.begin() + ptrdiff_t(shown), ", "),
          missing.size() > most
              ? fmt::format(" and {} more", missing.size() - most)
              : ""),
      Error::Fault::Rank});
}

void Coordinator::sendToAll(const Message &message) {
  for (const auto &[link, connection] : links)
    if (connection.machine >= 0)
      actions.push_back({link, message});
}

void Coordinator::sendOrder() {
  if (rounds.order() == lastOrder)
    return;
  lastOrder = rounds.order();
  sendToAll(CoordinatorPulse{lastOrder});
}

std::string Coordinator::describe(int machine) const {
  return nameOfMachine(machine, machines[static_cast<size_t>(machine)].address);
}

} // namespace polyrank::runtime::net
