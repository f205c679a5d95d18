// How machines come together, at the first start and at those that follow.

#include "runtime/job/net/Coordinator.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace polyrank::runtime::net {
namespace {

using namespace std::chrono_literals;

/// A machine that is started again may come before the loss of its place has
/// been noticed, which takes `longestSilence`.
constexpr Coordinator::Time longestWait = longestSilence + 1s;
/// Nobody is told that a machine is waited for if it comes, or a spare takes
/// its place, within this time.
constexpr Coordinator::Time announceAfter = 1s;

int64_t secondsOf(Coordinator::Time time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

std::string isThereAlready(const std::string &machine) {
  return machine + " is there already: give each machine a number of its own";
}

} // namespace

std::string Coordinator::refusalOf(Link link, const Connection &from) const {
  const Claim &claim = from.claim;
  if (int(claim.machines) != options.machines)
    return fmt::format("it was started as one of {} machines, and machine 0 as "
                       "one of {}: give all the same number",
                       claim.machines, options.machines);
  int last = options.machines + options.spares - 1;
  if (int64_t(claim.machine) > last)
    return fmt::format("the job has machines 0 to {}, and this is machine {}",
                       last, claim.machine);
  if (int(claim.machine) >= options.machines)
    return "";
  const Machine &machine = machines[claim.machine];
  // Another one may come in the place of one that is lost, but not of this one.
  bool mayWait = starts > 0 && claim.machine > 0;
  if (machine.isThere && machine.link != link && !mayWait)
    return isThereAlready(nameOfMachine(int(claim.machine), machine.address));
  return "";
}

Result<void> Coordinator::checkJoined(const Connection &from) const {
  // Between two starts nobody may be there, but all agree with machine 0.
  int other = 0;
  if (starts == 0)
    while (other < options.machines && !machines[size_t(other)].isThere)
      ++other;
  if (other == options.machines)
    return {};
  NodeStatement one = machines[size_t(other)].statement,
                two = from.joined->statement;
  // From which checkpoint the ranks begin again is known to machine 0 alone.
  if (starts > 0)
    one.resumed.clear();
  return checkAgreement(other, one, int(from.claim.machine), two,
                        options.allowMixedCpus);
}

void Coordinator::take(Link link, Connection &from,
                       const JoinMessage &message) {
  if (from.joined && !from.isCalled)
    return refuse(link, "it has joined already", Error::Fault::Rank);
  if (refused)
    return refuse(link, refused->reason, refused->fault);
  if (current == Phase::Done ||
      (current != Phase::Gathering && !options.startsAgain))
    return refuse(link, "it comes too late, the job has begun without it",
                  Error::Fault::Rank);
  std::string why = refusalOf(link, from);
  from.joined = message;
  from.isCalled = false;
  from.since = now;
  Result<void> agree = why.empty() ? checkJoined(from) : Result<void>();
  if (!agree && starts == 0)
    return refuseAll(agree.error());
  if (!agree)
    why = agree.error().message;
  if (!why.empty()) {
    log.push_back(
        fmt::format("refused a machine at {}: {}", from.address, why));
    return refuse(link, why);
  }
  fillPlaces();
}

bool Coordinator::isToCome(int machine) const {
  return std::any_of(links.begin(), links.end(), [&](const auto &each) {
    return each.second.machine == machine && each.second.isCalled;
  });
}

std::optional<Coordinator::Link> Coordinator::nodeFor(int machine,
                                                      bool isLast) const {
  std::optional<Link> spare;
  for (const auto &[link, each] : links) {
    bool waits = each.joined && !each.isCalled;
    // Whoever had the place has it again.
    if (waits && (each.machine == machine ||
                  (each.machine < 0 && int(each.claim.machine) == machine)))
      return link;
    if (waits && each.machine < 0 &&
        int(each.claim.machine) >= options.machines)
      spare = spare.value_or(link);
  }
  return starts > 0 || isLast ? spare : std::nullopt;
}

void Coordinator::seat(Link link, int place) {
  Connection &from = links.at(link);
  Machine &machine = machines[size_t(place)];
  if (int(from.claim.machine) >= options.machines && from.machine < 0)
    log.push_back(fmt::format("the spare at {} takes the place of {}",
                              from.address, describe(place)));
  from.machine = place;
  machine.link = link;
  machine.address = link == ownLink || from.address.empty()
                        ? from.joined->address
                        : from.address;
  machine.statement = from.joined->statement;
  // A machine of very many ranks is refused by itself; here it takes no memory.
  machine.ranks.assign(
      std::min<size_t>(machine.statement.ranks, MessageBounds::ranks), {});
  machine.isThere = true;
}

void Coordinator::fillPlaces() {
  if (current != Phase::Gathering)
    return;
  for (int machine = 0; machine < options.machines; ++machine)
    if (!machines[size_t(machine)].isThere && !isToCome(machine))
      if (std::optional<Link> link = nodeFor(machine, false))
        seat(*link, machine);
  if (std::all_of(machines.begin(), machines.end(),
                  [](const Machine &each) { return each.isThere; }))
    start();
}

void Coordinator::start() {
  current = Phase::Running;
  StartMessage message;
  message.start = ++starts;
  uint32_t rank = 0;
  for (const Machine &machine : machines) {
    const NodeStatement &said = machine.statement;
    message.machines.push_back(
        {machine.address, rank, said.ranks, said.memory, said.openFiles});
    rank += said.ranks;
  }
  for (const auto &[link, connection] : links)
    if (hasPlace(connection)) {
      message.machine = uint32_t(connection.machine);
      actions.push_back({link, message});
    }
}

void Coordinator::startAgain(uint64_t incarnation, Time time) {
  now = time;
  if (current != Phase::Failed)
    return;
  current = Phase::Gathering;
  begun = now;
  first.reset();
  rounds = FrontierRounds(options.machines);
  lastOrder = {};
  reports.clear();
  window.clear();
  nextRank = 0;
  for (Machine &machine : machines) {
    // Names and statements are kept for messages.
    Machine fresh;
    fresh.address = machine.address;
    fresh.statement = machine.statement;
    machine = std::move(fresh);
  }
  sendToEverybody(AgainMessage{incarnation});
  for (auto &[link, connection] : links)
    connection.isCalled = connection.joined.has_value();
}

void Coordinator::lookForPlaces() {
  std::vector<Link> inVain;
  for (const auto &[link, each] : links) {
    bool waits = each.joined && !each.isCalled && each.machine < 0;
    if (waits && int(each.claim.machine) < options.machines &&
        machines[each.claim.machine].isThere && now - each.since >= longestWait)
      inVain.push_back(link);
  }
  for (Link link : inVain) {
    const Connection &from = links.at(link);
    std::string why = isThereAlready(describe(int(from.claim.machine)));
    log.push_back(
        fmt::format("refused a machine at {}: {}", from.address, why));
    refuse(link, why);
  }
  if (current != Phase::Gathering)
    return;
  Time limit = starts == 0 ? options.joinTimeout : options.rejoinTimeout;
  if (now - begun >= limit)
    return tellMissing();
  for (int machine = 0; starts > 0 && machine < options.machines; ++machine) {
    Machine &missing = machines[size_t(machine)];
    if (missing.isThere || isToCome(machine) || now - begun < announceAfter ||
        std::exchange(missing.isAnnounced, true))
      continue;
    log.push_back(fmt::format(
        "{} is waited for, {} s at most (--rejoin): start the same command "
        "there again, with --machine {}",
        describe(machine), secondsOf(limit), machine));
  }
}

void Coordinator::tellMissing() {
  // Rather than nobody, a spare.
  for (int machine = 0; machine < options.machines; ++machine)
    if (!machines[size_t(machine)].isThere)
      if (std::optional<Link> link = nodeFor(machine, true))
        seat(*link, machine);
  std::vector<size_t> missing;
  for (size_t machine = 0; machine < machines.size(); ++machine)
    if (!machines[machine].isThere)
      missing.push_back(machine);
  if (missing.empty())
    return start();
  constexpr size_t most = 16;
  size_t shown = std::min(most, missing.size());
  std::string list = fmt::format(
      "machine{} {}{}", missing.size() == 1 ? "" : "s",
      fmt::join(missing.begin(), missing.begin() + ptrdiff_t(shown), ", "),
      missing.size() > most ? fmt::format(" and {} more", missing.size() - most)
                            : "");
  if (starts > 0 && goOnWithFewer())
    return;
  if (starts > 0)
    return giveUp(Error{
        fmt::format("{} of {} machines have not come again within {} s: {}; "
                    "--rejoin gives them more time, and --spares others that "
                    "take their places",
                    missing.size(), machines.size(),
                    secondsOf(options.rejoinTimeout), list),
        Error::Fault::Rank});
  refuseAll(Error{
      fmt::format("{} of {} machines have not come within {} s: {}; "
                  "look whether they were started, and whether they reach this "
                  "one (--rendezvous); --join-timeout gives them more time",
                  missing.size(), machines.size(),
                  secondsOf(options.joinTimeout), list),
      Error::Fault::Rank});
}

bool Coordinator::goOnWithFewer() {
  auto there = std::count_if(machines.begin(), machines.end(),
                             [](const Machine &each) { return each.isThere; });
  int most = 0;
  for (int count : options.fewer)
    if (count <= there)
      most = std::max(most, count);
  if (most == 0)
    return false;
  current = Phase::Over;
  refused =
      RefuseMessage{fmt::format("the job goes on without it, on {} machine{}",
                                most, most == 1 ? "" : "s"),
                    Error::Fault::Rank};
  log.push_back(fmt::format(
      "{} of {} machines are there after {} s (--rejoin), and there is a plan "
      "for {} (--plan-if): {} on with it",
      there, machines.size(), secondsOf(options.rejoinTimeout), most,
      most == 1 ? "this one goes" : "so many go"));
  FewerMessage message;
  message.machines = static_cast<uint32_t>(most);
  for (const Machine &machine : machines)
    if (machine.isThere) {
      actions.push_back({machine.link, message});
      ++message.machine;
    }
  message.machine = message.machines;
  for (const auto &[link, each] : links)
    if (each.joined && !hasPlace(each))
      actions.push_back({link, message});
  return true;
}

} // namespace polyrank::runtime::net
