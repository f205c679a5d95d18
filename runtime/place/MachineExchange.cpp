// Numbers machines by what their tasks say of themselves.

#include "runtime/place/MachineExchange.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

namespace polyrank::runtime {

std::string MachineCard::text() const {
  return fmt::format("{} {}", identity, fmt::join(addresses, " "));
}

Result<MachineCard> MachineCard::parse(const std::string &text) {
  std::istringstream words(text);
  MachineCard card;
  words >> card.identity;
  for (std::string word; words >> word;)
    card.addresses.push_back(word);
  if (card.identity.empty())
    return Error{fmt::format("a task has told '{}' instead of its machine: do "
                             "all tasks run the same polyrank-run?",
                             text)};
  return std::move(card);
}

Result<MachineCard> cardOf(const std::string &identity,
                           const std::vector<InterfaceAddress> &own,
                           const std::string &interface) {
  std::vector<InterfaceAddress> told = own;
  if (!interface.empty()) {
    POLYRANK_ASSIGN(selected, selectInterface(own, interface));
    told = std::move(selected);
  }
  MachineCard card{identity, {}};
  for (const InterfaceAddress &each : told)
    if (!each.isLoopback)
      card.addresses.push_back(each.address);
  return std::move(card);
}

Result<JobPlace> placeByCards(JobPlace place, const PlaceOptions &options,
                              const std::vector<MachineCard> &cards,
                              const std::vector<InterfaceAddress> &own) {
  if (cards.size() != size_t(place.tasks))
    return Error{fmt::format("{} of the {} tasks of {} have told their machine",
                             cards.size(), place.tasks, place.launcher)};
  std::vector<std::string> machines;
  std::vector<int> counts;
  for (size_t task = 0; task < cards.size(); ++task) {
    auto found =
        std::find(machines.begin(), machines.end(), cards[task].identity);
    auto machine = found - machines.begin();
    if (found == machines.end()) {
      machines.push_back(cards[task].identity);
      counts.push_back(0);
    }
    if (task == size_t(place.task)) {
      place.machine = int(machine);
      place.local = counts[size_t(machine)];
    }
    ++counts[size_t(machine)];
  }
  if (std::any_of(counts.begin(), counts.end(),
                  [&](int count) { return count != counts.front(); }))
    return Error{fmt::format("{} has started {} tasks on {} machines, as many "
                             "as {} on them: start equally many on each",
                             place.launcher, place.tasks, machines.size(),
                             fmt::join(counts, ", "))};
  place.locals = counts.front();
  place.machines = int(machines.size());
  if (place.machines > 1) {
    POLYRANK_ASSIGN(rest, withoutSpares(place.machines, options));
    place.machines = rest;
  }
  place.isToExchange = false;
  if (options.machines && *options.machines != place.machines)
    return Error{fmt::format("--machines {}, but {} has started its tasks on "
                             "{}",
                             *options.machines, place.launcher,
                             place.machines)};
  if (options.machine && *options.machine != place.machine)
    return Error{fmt::format("--machine {}, but in the order of {}'s tasks "
                             "this is machine {}",
                             *options.machine, place.launcher, place.machine)};
  if (!place.isOneOfSeveral())
    return place;
  // Machine 0 needs no address of its own to listen.
  std::string host =
      place.machine == 0
          ? (cards[0].addresses.empty() ? "" : cards[0].addresses.front())
          : chooseAddress(cards[0].addresses, own);
  if (host.empty() && options.rendezvous.empty())
    return Error{fmt::format(
        "machine 0 has no address that this machine could reach; it has {}. "
        "Name one: --rendezvous HOST[:PORT]",
        cards[0].addresses.empty()
            ? "none but loopback"
            : fmt::format("{}", fmt::join(cards[0].addresses, ", ")))};
  uint16_t port = place.rendezvous.port;
  if (Result<void> set = setRendezvous(place, options, host, port); !set)
    return set.error();
  place.sources.emplace_back("hosts by PMIx");
  return place;
}

Result<JobPlace> exchangeIfNeeded(JobPlace place, const PlaceOptions &options,
                                  const std::string &interface,
                                  TaskExchange &exchange) {
  if (!place.isToExchange)
    return place;
  POLYRANK_ASSIGN(own, interfaceAddresses());
  POLYRANK_ASSIGN(identity, identityOfMachine());
  POLYRANK_ASSIGN(card, cardOf(identity, own, interface));
  POLYRANK_ASSIGN(texts, exchange.gather(card.text()));
  std::vector<MachineCard> cards;
  for (const std::string &text : texts) {
    POLYRANK_ASSIGN(parsed, MachineCard::parse(text));
    cards.push_back(std::move(parsed));
  }
  return placeByCards(std::move(place), options, cards, own);
}

} // namespace polyrank::runtime
