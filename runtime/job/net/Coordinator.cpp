// How the coordinator reacts to what happens.

#include "runtime/job/net/Coordinator.h"

#include <algorithm>
#include <fmt/format.h>
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
  links.insert_or_assign(link, Connection{claim, address, Silence(now)});
}

void Coordinator::received(Link link, const Message &message, Time time) {
  now = time;
  auto found = links.find(link);
  if (found == links.end())
    return; // it was closed by us, and does not know it yet
  Connection &from = found->second;
  from.silence.heard(now);
  if (!from.joined && !std::holds_alternative<JoinMessage>(message))
    return refuse(link, "the first message of a node is that it joins",
                  Error::Fault::Rank);
  if (hasPlace(from) || isForAll(message))
    std::visit([&](const auto &body) { take(link, from, body); }, message);
}

/// What counts of a node that has no place in the current start yet: all else
/// is of its ranks, of which it has none.
bool Coordinator::isForAll(const Message &message) {
  return std::holds_alternative<JoinMessage>(message) ||
         std::holds_alternative<PingMessage>(message) ||
         std::holds_alternative<TellMessage>(message) ||
         std::holds_alternative<FailMessage>(message);
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
    return fail(
        {machine, -1,
         Error{fmt::format("{} is lost: {}", name, why), Error::Fault::Rank},
         true});
  if (current != Phase::Gathering)
    return;
  log.push_back(
      fmt::format("{} has gone again: {}; it is waited for", name, why));
  if (starts == 0)
    return;
  begun = now; // the others have as long to come as this one
  fillPlaces();
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
  lookForPlaces();
  if (now < nextPulse)
    return;
  nextPulse = now + pulseEvery;
  sendToEverybody(CoordinatorPulse{rounds.order()});
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

void Coordinator::take(Link, Connection &from, const NodePulse &pulse) {
  Machine &machine = machineOf(from);
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
  if (from.machine < 0)
    return;
  MachineFailure failure = message.failure;
  failure.machine = from.machine; // nobody speaks for another machine
  // Between two starts nothing can fail but the wait for the next one.
  bool isWaiting =
      current == Phase::Failed || (current == Phase::Gathering && starts > 0);
  // Machine 0 shows where the ranks were when it happened.
  if (current == Phase::Running && options.sharesRanks)
    sendRanks();
  if (current == Phase::Running || (isWaiting && failure.signal))
    fail(failure);
}

void Coordinator::take(Link link, Connection &from,
                       const TellMessage &message) {
  if (link == ownLink || from.machine < 0)
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
  machineOf(from).isDone = true;
  rounds.leaveOut(from.machine, message.begun);
  sendOrder();
}

bool Coordinator::isComplete() const {
  return current == Phase::Running &&
         std::all_of(machines.begin(), machines.end(),
                     [](const Machine &each) { return each.isDone; });
}

void Coordinator::conclude(int status) {
  if (!isComplete())
    return;
  current = Phase::Done;
  sendToEverybody(DoneMessage{.status = status});
}

void Coordinator::take(Link, Connection &from, const BarrierMessage &message) {
  machineOf(from).barrier = message.number;
  for (const Machine &each : machines)
    if (each.barrier != message.number)
      return;
  for (Machine &each : machines)
    each.barrier = 0; // another job counts from 1 again
  sendToAll(message);
}

void Coordinator::take(Link link, Connection &from,
                       const ExchangeMessage &message) {
  Machine &machine = machineOf(from);
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
  Machine &machine = machineOf(from);
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

void Coordinator::fail(const MachineFailure &failure) {
  if (!first || failure.signal)
    first = failure;
  if (!options.startsAgain || failure.signal)
    return giveUp(failure.error);
  current = Phase::Failed;
  sendToAll(FailMessage{*first, false});
}

void Coordinator::giveUp(const Error &error) {
  if (current == Phase::Over || current == Phase::Done)
    return;
  current = Phase::Over;
  refused = RefuseMessage{error.message, error.fault};
  MachineFailure last = first.value_or(MachineFailure());
  last.error = error;
  sendToEverybody(FailMessage{last, true});
}

void Coordinator::refuseAll(const Error &error) {
  current = Phase::Over;
  refused = RefuseMessage{error.message, error.fault};
  sendToEverybody(*refused);
}

void Coordinator::sendToAll(const Message &message) {
  for (const auto &[link, connection] : links)
    if (hasPlace(connection))
      actions.push_back({link, message});
}

void Coordinator::sendToEverybody(const Message &message) {
  for (const auto &[link, connection] : links)
    if (connection.joined)
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
