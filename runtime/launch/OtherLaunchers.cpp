// The environment variables of other launchers' tasks.

#include "runtime/launch/OtherLaunchers.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <optional>

namespace polyrank::runtime {
namespace {

struct OtherLauncher {
  const char *name;
  const char *rank, *tasks;
  /// The variable of the tasks on this machine, or of the number of machines,
  /// whichever the launcher sets.
  const char *local, *machines;
  /// How to start one task.
  const char *remedy;
};

/// The innermost comes first: torchrun runs under srun, and not the other way
/// round. Slurm's plugins for MPI set PMI's variables too.
constexpr OtherLauncher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", nullptr,
     "call polyrank-run without torchrun"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, "call polyrank-run without mpirun"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr,
     "SLURM_STEP_NUM_NODES",
     "srun -N1 -n1 -c CORES polyrank-run .., or call it in a batch script "
     "without srun"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr,
     "call polyrank-run without mpiexec"},
};

std::optional<int64_t> numberIn(const Environment &environment,
                                const char *name) {
  const char *text = name ? environment(name) : nullptr;
  if (!text)
    return std::nullopt;
  int64_t number = 0;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end)
    return std::nullopt;
  return number;
}

} // namespace

Result<void> checkStartedOnce(const Environment &environment) {
  for (const OtherLauncher &each : launchers) {
    std::optional<int64_t> tasks = numberIn(environment, each.tasks);
    if (!numberIn(environment, each.rank) || !tasks || *tasks < 2)
      continue;
    std::optional<int64_t> local = numberIn(environment, each.local),
                           machines = numberIn(environment, each.machines);
    // The message does not name the rank: so all tasks say the same, and
    // launchers merge such lines.
    std::string found = fmt::format("{} has started {} tasks ({}={})",
                                    each.name, *tasks, each.tasks, *tasks);
    if (machines.value_or(1) > 1 || local.value_or(*tasks) < *tasks)
      return Error{fmt::format(
          "{} on several machines, and polyrank-run trains on one: its ranks "
          "communicate through shared memory. Start it once, on one machine: "
          "{}",
          found, each.remedy)};
    return Error{fmt::format(
        "{}, each of which would start all ranks of the plan and save to the "
        "same files. Start it once, it starts the ranks itself: {}",
        found, each.remedy)};
  }
  return {};
}

} // namespace polyrank::runtime
