// The variables of each launcher, as torchrun 2.13, Open MPI 4.1, Slurm 22.05
// and MPICH 4.0 set them.

#include "runtime/place/Launchers.h"

#include "runtime/place/NodeList.h"

#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace polyrank::runtime {
namespace {

constexpr int mostTasks = 1 << 20;

std::optional<int64_t> numberOf(std::string_view text) {
  int64_t number = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end)
    return std::nullopt;
  return number;
}

/// Reads the variables of one launcher, and notes what it has read.
class Variables {
public:
  Variables(const Environment &environment, std::string launcher)
      : environment(environment) {
    task.launcher = std::move(launcher);
  }

  std::optional<int64_t> peek(const char *name) const {
    const char *text = environment(name);
    return text ? numberOf(text) : std::nullopt;
  }

  /// True if this process is one of several: its rank and their number are
  /// there. A variable of the user's that has such a name is no number.
  bool areSeveral(const char *rank, const char *count) const {
    return peek(rank) && peek(count).value_or(1) > 1;
  }

  /// Reads a number of 0 to `most`. What is missing or wrong is reported by
  /// `finish`.
  int number(const char *name, int64_t least, int64_t most = mostTasks) {
    const char *text = environment(name);
    if (!text) {
      missing.emplace_back(name);
      return static_cast<int>(least);
    }
    note(name, text);
    std::optional<int64_t> value = numberOf(text);
    if (value && *value >= least && *value <= most)
      return static_cast<int>(*value);
    if (!wrong)
      wrong = fmt::format("{}={} is not a number from {} to {}", name, text,
                          least, most);
    return static_cast<int>(least);
  }

  /// Reads a text; empty if the variable is not set.
  std::string text(const char *name) {
    const char *found = environment(name);
    if (!found || !*found)
      return "";
    note(name, found);
    return found;
  }

  void require(const char *name) { missing.emplace_back(name); }
  /// Notes a contradiction; the first one is reported.
  void refuse(std::string why) {
    if (!wrong)
      wrong = std::move(why);
  }

  /// Demands that a number counts something of which there are `count`.
  void checkBelow(const char *name, int value, const char *ofAll, int count) {
    if (value >= count)
      refuse(
          fmt::format("{}={} is not below {}={}", name, value, ofAll, count));
  }

  Result<std::optional<LaunchedTask>> finish() {
    std::string found = fmt::format("{}", fmt::join(task.sources, ", "));
    if (!missing.empty())
      return Error{fmt::format(
          "{} look like {}'s variables, but {} {} not set: start the program "
          "by {} itself, or unset them and say --machines N --machine I "
          "--rendezvous HOST",
          found, task.launcher, fmt::join(missing, ", "),
          missing.size() == 1 ? "is" : "are", task.launcher)};
    if (wrong)
      return Error{fmt::format(
          "the variables of {} contradict each other: {} (of {}). Unset what "
          "{} has not set itself",
          task.launcher, *wrong, found, task.launcher)};
    return std::optional(std::move(task));
  }

  LaunchedTask task;

private:
  void note(const char *name, const char *text) {
    constexpr size_t shown = 100;
    std::string value(text, strnlen(text, shown + 1));
    if (value.size() > shown)
      value = value.substr(0, shown) + "..";
    task.sources.push_back(fmt::format("{}={}", name, value));
  }

  const Environment &environment;
  std::vector<std::string> missing;
  std::optional<std::string> wrong;
};

using Found = Result<std::optional<LaunchedTask>>;

/// The agents of torchrun are the machines. MASTER_PORT is the port on which an
/// agent's own store listens: nobody else can use it, but it distinguishes jobs
/// that have no id.
Found findTorchrun(const Environment &environment) {
  Variables of(environment, "torchrun");
  if (!of.areSeveral("RANK", "WORLD_SIZE"))
    return Found(std::nullopt);
  LaunchedTask &task = of.task;
  task.restartOption = "--max-restarts";
  task.alone = "call polyrank-run without torchrun, or with "
               "--nproc-per-node=1 for a task per machine";
  task.task = of.number("RANK", 0);
  task.tasks = of.number("WORLD_SIZE", 1);
  task.local = of.number("LOCAL_RANK", 0);
  task.locals = of.number("LOCAL_WORLD_SIZE", 1);
  task.machine = of.number("GROUP_RANK", 0);
  task.machines = of.number("GROUP_WORLD_SIZE", 1);
  of.checkBelow("RANK", task.task, "WORLD_SIZE", task.tasks);
  of.checkBelow("LOCAL_RANK", task.local, "LOCAL_WORLD_SIZE", task.locals);
  of.checkBelow("GROUP_RANK", *task.machine, "GROUP_WORLD_SIZE",
                *task.machines);
  task.host = of.text("MASTER_ADDR");
  if (task.host.empty() && *task.machines > 1)
    of.require("MASTER_ADDR");
  std::string id = of.text("TORCHELASTIC_RUN_ID");
  const char *store = environment("MASTER_PORT");
  task.job = fmt::format("{} {} {}", id, task.host, store ? store : "");
  return of.finish();
}

/// Only PMIx says which tasks are on one machine, and where that is.
Found findOpenMpi(const Environment &environment) {
  Variables of(environment, "mpirun");
  if (!of.areSeveral("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
    return Found(std::nullopt);
  LaunchedTask &task = of.task;
  task.alone = "call polyrank-run without mpirun, or with --map-by ppr:1:node "
               "for a task per machine";
  task.task = of.number("OMPI_COMM_WORLD_RANK", 0);
  task.tasks = of.number("OMPI_COMM_WORLD_SIZE", 1);
  task.local = of.number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  task.locals = of.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  of.checkBelow("OMPI_COMM_WORLD_RANK", task.task, "OMPI_COMM_WORLD_SIZE",
                task.tasks);
  of.checkBelow("OMPI_COMM_WORLD_LOCAL_RANK", task.local,
                "OMPI_COMM_WORLD_LOCAL_SIZE", task.locals);
  if (task.locals == task.tasks) {
    task.machine = 0;
    task.machines = 1;
  }
  task.job = of.text("PMIX_NAMESPACE");
  task.hasPmix = !task.job.empty();
  return of.finish();
}

/// "2(x3),1": the tasks of each machine.
std::optional<std::vector<int>> tasksPerMachine(std::string_view text,
                                                int machines) {
  std::vector<int> counts;
  while (!text.empty() && counts.size() < static_cast<size_t>(machines)) {
    std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    int64_t times = 1;
    if (size_t open = entry.find("(x"); open != entry.npos) {
      if (!entry.ends_with(')'))
        return std::nullopt;
      std::optional<int64_t> given =
          numberOf(entry.substr(open + 2, entry.size() - open - 3));
      if (!given || *given < 1)
        return std::nullopt;
      times = *given;
      entry = entry.substr(0, open);
    }
    std::optional<int64_t> count = numberOf(entry);
    if (!count || *count < 1 || *count > mostTasks)
      return std::nullopt;
    for (int64_t i = 0; i < times && counts.size() < size_t(machines); ++i)
      counts.push_back(static_cast<int>(*count));
  }
  return counts;
}

Found findSrun(const Environment &environment) {
  Variables of(environment, "srun");
  if (!of.areSeveral("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
    return Found(std::nullopt);
  LaunchedTask &task = of.task;
  task.restartOption = "--requeue";
  task.alone = "srun -N1 -n1 -c CORES polyrank-run .., or call it in a batch "
               "script without srun; --ntasks-per-node=1 is a task per machine";
  task.task = of.number("SLURM_PROCID", 0);
  task.tasks = of.number("SLURM_STEP_NUM_TASKS", 1);
  task.local = of.number("SLURM_LOCALID", 0);
  task.machine = of.number("SLURM_NODEID", 0);
  task.machines = of.number("SLURM_STEP_NUM_NODES", 1);
  of.checkBelow("SLURM_PROCID", task.task, "SLURM_STEP_NUM_TASKS", task.tasks);
  of.checkBelow("SLURM_NODEID", *task.machine, "SLURM_STEP_NUM_NODES",
                *task.machines);
  std::string counts = of.text("SLURM_STEP_TASKS_PER_NODE");
  if (counts.empty())
    of.require("SLURM_STEP_TASKS_PER_NODE");
  else if (auto per = tasksPerMachine(counts, *task.machines);
           !per || per->size() != size_t(*task.machines))
    of.refuse(fmt::format("SLURM_STEP_TASKS_PER_NODE={} does not count the "
                          "tasks of SLURM_STEP_NUM_NODES={} machines",
                          counts, *task.machines));
  else if (*task.machine < *task.machines)
    task.locals = (*per)[size_t(*task.machine)];
  of.checkBelow("SLURM_LOCALID", task.local, "SLURM_STEP_TASKS_PER_NODE",
                task.locals);
  std::string list = of.text("SLURM_STEP_NODELIST");
  if (list.empty() && *task.machines > 1)
    of.require("SLURM_STEP_NODELIST");
  if (!list.empty()) {
    Result<std::vector<std::string>> hosts = expandNodeList(list);
    if (!hosts)
      of.refuse("SLURM_STEP_NODELIST: " + hosts.error().message);
    else if (hosts->size() != static_cast<size_t>(*task.machines))
      of.refuse(fmt::format("SLURM_STEP_NODELIST={} has {} hosts, and "
                            "SLURM_STEP_NUM_NODES={}",
                            list, hosts->size(), *task.machines));
    else
      task.host = hosts->front();
  }
  // The first port of "23001-23004" or "23001,23005": of each machine's own.
  std::string reserved = of.text("SLURM_STEP_RESV_PORTS");
  if (!reserved.empty()) {
    std::optional<int64_t> port = numberOf(
        std::string_view(reserved).substr(0, reserved.find_first_of("-,")));
    if (port && *port > 0 && *port < 1 << 16)
      task.port = static_cast<uint16_t>(*port);
    else
      of.refuse(fmt::format("SLURM_STEP_RESV_PORTS={} begins with no port",
                            reserved));
  }
  std::string job = of.text("SLURM_JOB_ID"), step = of.text("SLURM_STEP_ID");
  task.job = job + "." + step;
  task.hasPmix = !of.text("PMIX_NAMESPACE").empty();
  return of.finish();
}

/// MPICH and its relatives have PMI, which numbers the tasks machine by machine
/// unless they are told otherwise.
Found findMpich(const Environment &environment) {
  Variables of(environment, "mpiexec");
  if (!of.areSeveral("PMI_RANK", "PMI_SIZE"))
    return Found(std::nullopt);
  LaunchedTask &task = of.task;
  task.alone = "call polyrank-run without mpiexec, or with -ppn 1 for a task "
               "per machine";
  task.task = of.number("PMI_RANK", 0);
  task.tasks = of.number("PMI_SIZE", 1);
  task.local = of.number("MPI_LOCALRANKID", 0);
  task.locals = of.number("MPI_LOCALNRANKS", 1);
  of.checkBelow("PMI_RANK", task.task, "PMI_SIZE", task.tasks);
  of.checkBelow("MPI_LOCALRANKID", task.local, "MPI_LOCALNRANKS", task.locals);
  if (task.tasks % task.locals == 0) {
    task.machines = task.tasks / task.locals;
    task.machine = task.task / task.locals;
    if (task.task % task.locals != task.local)
      of.refuse(fmt::format(
          "PMI_RANK={} is not number MPI_LOCALRANKID={} of the "
          "MPI_LOCALNRANKS={} tasks of a machine; number tasks machine by "
          "machine (-ppn), or say --machines, --machine and --rendezvous",
          task.task, task.local, task.locals));
  } else {
    of.refuse(fmt::format("PMI_SIZE={} tasks are not MPI_LOCALNRANKS={} on "
                          "each machine",
                          task.tasks, task.locals));
  }
  return of.finish();
}

} // namespace

Result<std::optional<LaunchedTask>>
findLauncher(const Environment &environment) {
  // The innermost comes first: torchrun runs under srun, and not the other way
  // round. Slurm's plugins for MPI set PMI's variables too.
  for (auto find : {findTorchrun, findOpenMpi, findSrun, findMpich}) {
    Found found = find(environment);
    if (!found || *found)
      return found;
  }
  return std::optional<LaunchedTask>();
}

} // namespace polyrank::runtime
