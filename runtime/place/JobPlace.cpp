// Puts options and variables together.

#include "runtime/place/JobPlace.h"

#include "support/Fingerprint.h"
#include "support/RankShare.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace polyrank::runtime {
namespace {

/// A number that says which machine this is, or how many there are.
struct Said {
  int64_t value = 0;
  std::string source;
};

/// The first of these variables that is set to a number.
std::optional<Said> numberIn(const Environment &environment,
                             std::initializer_list<const char *> names) {
  for (const char *name : names) {
    const char *text = environment(name);
    if (!text)
      continue;
    int64_t number = 0;
    const char *end = text + std::strlen(text);
    auto [stop, error] = std::from_chars(text, end, number);
    if (error == std::errc() && stop == end && number >= 0)
      return Said{number, fmt::format("{}={}", name, text)};
  }
  return std::nullopt;
}

std::optional<Said> optionOf(const char *name, std::optional<int64_t> value) {
  if (!value)
    return std::nullopt;
  return Said{*value, fmt::format("{} {}", name, *value)};
}

/// An option that contradicts a launcher.
Result<void> checkSame(const std::optional<Said> &option,
                       std::optional<int> told, const LaunchedTask &task,
                       const char *what) {
  if (!option || !told || option->value == *told)
    return {};
  return Error{fmt::format("{} contradicts {}, which says that {} is {} ({}): "
                           "leave the option out, or call polyrank-run "
                           "without {}",
                           option->source, task.launcher, what, *told,
                           fmt::join(task.sources, ", "), task.launcher)};
}

Result<JobPlace> placeOfTask(const LaunchedTask &task,
                             const PlaceOptions &options) {
  JobPlace place;
  place.spares = options.spares;
  std::optional<int> sharing = task.machines;
  if (sharing && *sharing > 1) {
    POLYRANK_ASSIGN(rest, withoutSpares(*sharing, options));
    sharing = rest;
  }
  place.launcher = task.launcher;
  place.tasks = task.tasks;
  place.task = task.task;
  place.local = task.local;
  place.locals = task.locals;
  place.job = task.job;
  place.sources = task.sources;
  place.restartOption = task.restartOption;
  place.alone = task.alone;
  if (Result<void> same = checkSame(optionOf("--machines", options.machines),
                                    sharing, task, "the number of machines");
      !same)
    return same.error();
  if (Result<void> same =
          checkSame(optionOf("--machine", options.machine), task.machine, task,
                    "the number of this machine");
      !same)
    return same.error();
  if (task.machines == 1) {
    if (options.rendezvous.empty())
      return place;
    return Error{fmt::format("--rendezvous {}, but {} has started all its {} "
                             "tasks on one machine ({})",
                             options.rendezvous, task.launcher, task.tasks,
                             fmt::join(task.sources, ", "))};
  }
  place.isToExchange =
      task.hasPmix && !(task.machine && !options.rendezvous.empty());
  if (!task.machine && !task.hasPmix)
    return Error{fmt::format(
        "{} has started {} tasks on several machines ({}), and does not say "
        "which: PMIX_NAMESPACE is not set. Start one task per machine by hand "
        "with --machines N --machine I --rendezvous HOST",
        task.launcher, task.tasks, fmt::join(task.sources, ", "))};
  place.machine = task.machine.value_or(0);
  place.machines = sharing.value_or(2);
  if (place.isToExchange) {
    place.rendezvous.port = task.port ? task.port : portOf(task.job);
    return place;
  }
  if (Result<void> set = setRendezvous(place, options, task.host, task.port);
      !set)
    return set.error();
  return place;
}

/// The numbers of a process that no launcher has started with others.
struct Numbers {
  std::optional<Said> machines, machine;
};

/// Indexed jobs of Kubernetes, and the operators of Kubeflow, number their
/// pods. Whether these are one job or many is said by --rendezvous alone.
Result<Numbers> numbersOf(const PlaceOptions &options,
                          const Environment &environment) {
  Numbers said{optionOf("--machines", options.machines),
               optionOf("--machine", options.machine)};
  std::optional<Said> pods = numberIn(environment, {"PET_NNODES"});
  bool isOneJob = !options.rendezvous.empty();
  if (!isOneJob && !said.machines && pods && pods->value > 1)
    return Error{fmt::format(
        "{} says that there are {} machines, but nothing says where machine 0 "
        "is: add --rendezvous HOST[:PORT], or unset PET_NNODES",
        pods->source, pods->value)};
  if (isOneJob && !said.machines && pods) {
    POLYRANK_ASSIGN(rest, withoutSpares(int(pods->value), options));
    said.machines = Said{rest, pods->source};
  }
  if (isOneJob && !said.machine)
    said.machine =
        numberIn(environment, {"PET_NODE_RANK", "JOB_COMPLETION_INDEX"});
  return std::move(said);
}

/// Fails if a number is missing or impossible.
Result<void> checkNumbers(const Numbers &said, const PlaceOptions &options) {
  const auto &[machines, machine] = said;
  if (!machines)
    return Error{fmt::format("{}, but nothing says how many machines there "
                             "are: add --machines N",
                             machine ? machine->source
                                     : "--rendezvous " + options.rendezvous)};
  constexpr int64_t most = 1 << 16;
  if (machines->value < 1 || machines->value > most)
    return Error{
        fmt::format("{}: a job has 1 to {} machines", machines->source, most)};
  if (!machine && machines->value > 1)
    return Error{fmt::format("{}, but nothing says which of them this one is: "
                             "add --machine I, from 0",
                             machines->source)};
  int64_t last = machines->value + options.spares - 1;
  if (machine && machine->value > last)
    return Error{fmt::format("{}, but with {} the machines have the numbers 0 "
                             "to {}",
                             machine->source, machines->source, last)};
  return {};
}

} // namespace

Result<int> withoutSpares(int all, const PlaceOptions &options) {
  if (options.spares == 0 || all - options.spares > 1)
    return all - options.spares;
  return Error{fmt::format("--spares {}: of {} machines that leaves {}, and at "
                           "least two must share the ranks out: start more, or "
                           "give fewer spares",
                           options.spares, all,
                           std::max(0, all - options.spares))};
}

Result<void> setRendezvous(JobPlace &place, const PlaceOptions &options,
                           const std::string &host, uint16_t reservedPort) {
  if (!options.rendezvous.empty()) {
    POLYRANK_ASSIGN(given, parseEndpoint(options.rendezvous));
    place.rendezvous = std::move(given);
    place.sources.push_back("--rendezvous " + options.rendezvous);
  } else if (host.empty()) {
    return Error{fmt::format(
        "this is machine {} of {} ({}), but nothing says where machine 0 is: "
        "add --rendezvous HOST[:PORT]",
        place.machine, place.machines, fmt::join(place.sources, ", "))};
  } else {
    place.rendezvous = {host, reservedPort};
  }
  if (place.rendezvous.port == 0)
    place.rendezvous.port = reservedPort ? reservedPort : portOf(place.job);
  return {};
}

Result<JobPlace> findPlace(const PlaceOptions &options,
                           const Environment &environment) {
  Result<std::optional<LaunchedTask>> task = findLauncher(environment);
  // Whoever says all by options need not care for half a launcher's variables.
  bool saysAll =
      options.machines && options.machine && !options.rendezvous.empty();
  if (!task && !saysAll)
    return task.error();
  if (task && *task)
    return placeOfTask(**task, options);
  POLYRANK_ASSIGN(said, numbersOf(options, environment));
  JobPlace place;
  if (!said.machines && !said.machine && options.rendezvous.empty())
    return place;
  if (Result<void> checked = checkNumbers(said, options); !checked)
    return checked.error();
  place.machines = place.tasks = static_cast<int>(said.machines->value);
  place.spares = options.spares;
  place.sources.push_back(said.machines->source);
  if (said.machine) {
    place.machine = place.task = static_cast<int>(said.machine->value);
    place.sources.push_back(said.machine->source);
  }
  if (!place.isOneOfSeveral())
    return place;
  if (Result<void> set = setRendezvous(place, options, "", 0); !set)
    return set.error();
  return place;
}

Result<RankRange> shareOf(const JobPlace &place, int ranks, bool wholePlan) {
  int machines = wholePlan ? 1 : place.machines;
  POLYRANK_ASSIGN(each, ranksOfEach("plan", ranks, machines));
  int count = static_cast<int>(each);
  if (place.locals > 1 && place.locals != count) {
    int all = count * place.machines;
    return Error{
        place.tasks != all
            ? fmt::format("{} has started {} tasks for {} ranks: start {} "
                          "tasks, each of which is a rank, or one on each "
                          "machine, which starts the ranks itself ({})",
                          place.launcher, place.tasks, all, all, place.alone)
            : fmt::format("{} has started {} tasks on machine {}, and {} ranks "
                          "belong there: start {} tasks on each of the {} "
                          "machines",
                          place.launcher, place.locals, place.machine, count,
                          count, place.machines)};
  }
  return RankRange{wholePlan ? 0 : place.machine * count, count};
}

std::string nameOfTasks(const JobPlace &place) {
  if (place.job.empty())
    return "";
  return fmt::format("{}-{:016x}-{}", place.launcher, digestOf(place.job),
                     place.machine);
}

std::string JobPlace::describe() const {
  std::string text =
      !isOneOfSeveral()
          ? std::string("one machine")
          : fmt::format("machine {} of {}{}", machine, machines,
                        machine < machines ? "" : ", which is a spare");
  if (hasTaskPerRank())
    text += fmt::format(", task {} of {} on it", local, locals);
  if (!rendezvous.host.empty())
    text += "; machine 0 is at " + rendezvous.text();
  if (!sources.empty())
    text += fmt::format(" ({}{})", launcher.empty() ? "" : launcher + ": ",
                        fmt::join(sources, ", "));
  return text;
}

} // namespace polyrank::runtime
