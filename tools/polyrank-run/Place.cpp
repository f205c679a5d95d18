// From a place in a job to the options of a session.

#include "tools/polyrank-run/Place.h"

#include "runtime/comm/net/Ucx.h"
#include "runtime/job/net/JobKey.h"
#include "runtime/place/MachineExchange.h"
#include "runtime/place/Pmix.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

namespace polyrank::runtime {
namespace {

/// The options of a job of several machines that have no meaning on one.
Result<void> checkAlone(const RunOptions &options) {
  if (options.place.isOneOfSeveral())
    return {};
  for (const char *name :
       {"whole-plan", "interface", "key", "join-timeout", "rejoin", "spares",
        "plan-if", "allow-mixed-cpus", "wire-check", "wire"})
    if (options.given.contains(name))
      return Error{fmt::format(
          "--{} is for several machines, and this one is alone: say --machines "
          "N --machine I --rendezvous HOST on each, or use a launcher that "
          "does (docs/machines.md)",
          name)};
  return {};
}

/// With --whole-plan ranks send nothing to other machines. Another wire than
/// TCP must be there.
Result<void> checkWire(const RunOptions &options) {
  for (const char *name : {"wire-check", "wire"})
    if (options.request.wholePlan && options.given.contains(name))
      return Error{fmt::format(
          "--{} is about what the ranks of different machines send each other, "
          "and with --whole-plan they send nothing: leave it out",
          name)};
  if (options.request.wire == WireKind::Ucx)
    return net::loadUcx(); // before there are threads
  return {};
}

/// A job that others could reach needs a key, and one that is given must be
/// one.
Result<void> checkKey(const RunOptions &options) {
  if (!options.place.isOneOfSeveral())
    return {};
  POLYRANK_ASSIGN(
      key, net::JobKey::find(options.request.key, std::getenv("POLYRANK_KEY")));
  if (key || isLoopback(options.place.rendezvous.host))
    return {};
  return Error{fmt::format(
      "a job of {} machines needs a key, by which they know each other. Make "
      "one, give each machine the file, and name it:\n"
      "  polyrank-run --new-key job.key\n"
      "  polyrank-run {} --key job.key ..",
      options.place.machines, options.plan)};
}

/// The address on which this machine listens, or from which it connects.
Result<std::string> bindAddressOf(const RunOptions &options) {
  const std::string &choice = options.request.interface;
  if (choice.empty())
    return std::string();
  POLYRANK_ASSIGN(own, interfaceAddresses());
  POLYRANK_ASSIGN(chosen, selectInterface(own, choice));
  // Both ends of a connection are of one kind.
  bool six = options.place.rendezvous.host.find(':') != std::string::npos;
  for (const InterfaceAddress &each : chosen)
    if (each.isSix() == six)
      return each.address;
  return chosen.front().address;
}

/// Refuses --restarts where this process cannot start the ranks again.
Result<void> checkRestarts(const RunOptions &options) {
  const JobPlace &place = options.place;
  if (!options.restarts)
    return {};
  if (place.hasTaskPerRank())
    return Error{fmt::format(
        "--restarts {}: the ranks are tasks of {}, and nobody else can start "
        "them again. Leave it out{}",
        options.restarts, place.launcher,
        place.restartOption.empty()
            ? ""
            : fmt::format(", and use {}'s {} with --resume auto",
                          place.launcher, place.restartOption))};
  if (place.isOneOfSeveral() && options.request.wholePlan)
    return Error{fmt::format(
        "--restarts {}: with --whole-plan each machine has checkpoints of its "
        "own, and nobody knows from which of them all could begin. Leave it "
        "out; started again with --resume auto, the machines go on",
        options.restarts)};
  return {};
}

/// The plans of --plan-if, by the number of machines.
Result<std::map<int, std::string>> plansIfOf(const RunOptions &options) {
  std::map<int, std::string> plans;
  for (const std::string &given : options.request.plansIf) {
    size_t equals = std::min(given.find('='), given.size());
    int machines = 0;
    const char *begin = given.data();
    auto [end, status] = std::from_chars(begin, begin + equals, machines);
    if (status != std::errc() || end != begin + equals ||
        equals + 1 >= given.size() || machines < 1 ||
        machines >= options.place.machines)
      return Error{fmt::format(
          "--plan-if {}: say a number of machines and a plan, as in "
          "2=half.plan; the number is from 1 to {}, since the job has {}",
          given, options.place.machines - 1, options.place.machines)};
    plans[machines] = given.substr(equals + 1);
  }
  return std::move(plans);
}

Result<JoinRunOptions> joinOf(const RunOptions &options) {
  const JobPlace &place = options.place;
  JoinRunOptions join;
  join.job = nameOfTasks(place);
  // With a task for each rank all machines have as many.
  join.rank = options.request.wholePlan
                  ? place.local
                  : place.machine * place.locals + place.local;
  join.plan = options.plan;
  join.sha256 = options.sha256;
  join.timeout = options.request.joinTimeout;
  join.quiet = true; // the first task tells what is told
  return join;
}

} // namespace

Result<JobPlace> findPlace(const RunOptions &options) {
  const MachineRequest &request = options.request;
  // Ranks that come as guests are tasks of somebody else, who knows of them.
  Environment environment = [&](const char *name) -> const char * {
    return options.guests.empty() ? std::getenv(name) : nullptr;
  };
  POLYRANK_ASSIGN(place, findPlace(request.said, environment));
  PmixExchange exchange(place.tasks);
  return exchangeIfNeeded(std::move(place), request.said, request.interface,
                          exchange);
}

Result<std::optional<JoinRunOptions>> takePlace(RunOptions &options,
                                                const JobPlace &place) {
  options.place = place;
  for (auto check : {checkAlone, checkWire, checkKey, checkRestarts})
    if (Result<void> checked = check(options); !checked)
      return checked.error();
  const MachineRequest &request = options.request;
  MachineOptions &machines = options.machines;
  machines.machines = place.machines;
  machines.spares = place.spares;
  POLYRANK_ASSIGN(plansIf, plansIfOf(options));
  machines.plansIf = std::move(plansIf);
  machines.machine = place.machine;
  machines.host = place.rendezvous.host;
  machines.port = place.rendezvous.port;
  machines.key = request.key;
  machines.joinTimeout = request.joinTimeout;
  machines.rejoinTimeout = request.rejoinTimeout;
  machines.allowMixedCpus = request.allowMixedCpus;
  machines.checksWire = request.checksWire;
  machines.wire = request.wire;
  machines.wholePlan = request.wholePlan;
  POLYRANK_ASSIGN(address, bindAddressOf(options));
  machines.bindAddress = address;
  if (place.hasTaskPerRank()) {
    options.guests = nameOfTasks(place);
    if (options.guests.empty())
      return Error{fmt::format(
          "{} has started {} tasks, and gives its job no id by which they "
          "could find each other. Start one task on each machine, which starts "
          "the ranks itself: {}",
          place.launcher, place.tasks, place.alone)};
    if (place.local > 0) {
      POLYRANK_ASSIGN(join, joinOf(options));
      return std::optional(std::move(join));
    }
  }
  return std::optional<JoinRunOptions>();
}

} // namespace polyrank::runtime
